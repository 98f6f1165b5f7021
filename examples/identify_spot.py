"""From a log to training: record a Spot whose joints are softer than commanded, identify it, train for what was found.

The robot is a rehearsal: a simulated Spot with hidden parameters. For a real one, replace ``make_robot`` by its
backend, or read a log of your own with ``read_log``.
"""

import argparse
from pathlib import Path

import numpy as np

from adc_wrappers import ActuatorCurriculumWrapper, make_env
from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.sysid import (
    Chirp,
    FreeParameter,
    HiddenParameters,
    HiddenRobot,
    IdentifySettings,
    identify,
    record,
    start_of,
    validate,
    write_report,
)
from adc_wrappers.trajectories import read_log, write_log


def make_robot(stiffness: float, damping: float) -> HiddenRobot:
    hidden = HiddenParameters(
        stiffness_scale=2 / 3, coulomb=0.5, delay_steps=2, position_noise=0.001, velocity_noise=0.03
    )
    robot = HiddenRobot(make_robot_backend("mujoco", 1, fixed_base=True), hidden)
    robot.set_gains(np.full((1, 12), stiffness), np.full((1, 12), damping))
    robot.reset(start_of(robot, height=2.0))
    return robot


def collect(path: Path, stiffness: float, damping: float, seconds: float) -> Path:
    robot = make_robot(stiffness, damping)
    chirp = Chirp(pose=robot.nominal_pose, period=seconds)
    return write_log(record(robot, chirp, seconds, on_stand=True, source="rehearsal"), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/identify-spot"))
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--generations", type=int, default=60)
    options = parser.parse_args()

    log = read_log(collect(options.out / "log.csv", 60.0, 1.5, options.seconds))
    free = (FreeParameter("stiffness"), FreeParameter("damping"), FreeParameter("coulomb"), FreeParameter("delay"))
    settings = IdentifySettings(free=free, generations=options.generations)
    found = identify([log], settings)
    for parameter in found.parameters:
        print(f"{parameter.name:10} {parameter.value:.4g} ({parameter.lower:.4g} to {parameter.upper:.4g})")
    for path in write_report(found, options.out):
        print(path)

    other = read_log(collect(options.out / "other_gains.csv", 90.0, 2.0, options.seconds))
    print("the mapping of gains holds at K = 90:", validate(found, [other], settings).agrees)

    config = found.curriculum()  # K_* is the identified stiffness; raises if it could not be identified
    print(f"K_0 = {config.start_stiffness}, K_* = {config.target_stiffness}")
    env = make_env("spot-handstand", backend="mujoco", num_envs=4)
    env = ActuatorCurriculumWrapper(env, config, iteration_steps=24)
    env.reset(seed=0)
    _, _, _, _, infos = env.step(env.action_space.sample())
    print("the first step trains at K =", infos["adc"]["stiffness"])
    env.close()


if __name__ == "__main__":
    main()
