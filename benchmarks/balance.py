"""The balance of a planar Spot that stands still in the handstand: how fast it tips, and what it takes to hold it.

Both feet of a handstand lie on one line, so that nothing on the ground turns the robot in its plane: it can only be
balanced by what its own links do, or by moving the feet. For static postures of some heights the engine's motion over
one policy step is linearized; told are the rate at which the fastest unstable mode grows, and the largest gain of the
linear-quadratic regulator that stops it. The regulator then holds robots for ten seconds behind the command limiter of
the preset ``robot``, with parts of its randomization; it knows the true height and everything else as a policy sees it.

    python benchmarks/balance.py            # print
    python benchmarks/balance.py --write    # and write benchmarks/balance.md
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_discrete_are
from scipy.optimize import least_squares

from adc_wrappers import make_env
from adc_wrappers.backends.base import RobotStart, RobotState
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.feasibility import find_robot, find_stance, smallest_action_scale
from adc_wrappers.runs.folder import source_commit

Array = NDArray[np.float64]

TASK = "spot-planar-handstand"
HEIGHTS = (0.55, 0.65, 0.72)
STIFFNESSES = (40.0, 60.0)
TOLERANCE = np.radians(2.0)
ROBOTS, STEPS, SEED = 32, 500, 0
DISTURBANCES: dict[str, list[str]] = {
    "nothing": [],
    "latency": ["latency"],
    "noise": ["noise"],
    "pushes": ["push"],
    "all of the preset": ["noise", "latency", "gains", "mass", "friction", "joint_friction", "push"],
}
_TILT = 0.03  # rad: how far off the robots begin
_NUDGE = 1e-4
_SETTINGS: dict[str, Any] = {"preset": "robot", "physics_step": 0.004, "decimation": 5, "action_scale": 1.7}
_COSTS = np.array([5.0, 20.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.02, 0.02, 0.02, 0.02])
_EFFORT = 1.0


class Posture(NamedTuple):
    """A robot at rest: height, pitch and joints, then their velocities; and the targets that keep it there."""

    state: Array
    """``(1 + 1 + 4 + 3 + 4,)``: z, pitch, joints, then the velocities of x, z, pitch and joints."""
    targets: Array
    """Rad."""
    action_scale: float
    """α that reaches them."""


def measured(state: RobotState, height: Array) -> Array:
    """Return robots as rows of :attr:`Posture.state`."""
    pitch = np.arctan2(state.projected_gravity[:, 0], -state.projected_gravity[:, 2])
    cos, sin = np.cos(pitch), np.sin(pitch)
    forward, _, up = state.base_linear_velocity.T
    world = np.stack((cos * forward + sin * up, cos * up - sin * forward), axis=1)
    turn = state.base_angular_velocity[:, 1:2]
    position = np.stack((height, pitch), axis=1)
    return np.hstack((position, state.joint_positions, world, turn, state.joint_velocities))


def put(env: Any, rows: Array) -> None:
    """Put the first robots of an env into states."""
    count = len(rows)
    position, quaternion = np.zeros((count, 3)), np.zeros((count, 4))
    linear, angular = np.zeros((count, 3)), np.zeros((count, 3))
    position[:, 2], linear[:, [0, 2]], angular[:, 1] = rows[:, 0], rows[:, 6:8], rows[:, 8]
    quaternion[:, 0], quaternion[:, 2] = np.cos(rows[:, 1] / 2.0), np.sin(rows[:, 1] / 2.0)
    start = RobotStart(position, quaternion, linear, angular, rows[:, 2:6], rows[:, 9:])
    env.unwrapped.task.backend.reset(start, np.arange(count))


def moved(env: Any, rows: Array, targets: Array) -> Array:
    """Return what becomes of states within one policy step under targets."""
    backend = env.unwrapped.task.backend
    put(env, rows)
    padded = np.vstack((targets, np.tile(targets[:1], (backend.num_envs - len(rows), 1))))
    backend.advance(padded)
    state = backend.state()
    return measured(state, state.base_position[:, 2])[: len(rows)]


def stiffen(env: Any, stiffness: float) -> None:
    """Give all joints a stiffness, damped as the curriculum damps them."""
    backend = env.unwrapped.task.backend
    damping = damping_for(np.full((backend.num_envs, 4), stiffness), backend.effective_inertia())
    backend.set_gains(np.full((backend.num_envs, 4), stiffness), damping)


def find_posture(env: Any, stiffness: float, height: float) -> Posture:
    """Return the static handstand of a height that the engine, with its soft ground, agrees to."""
    found = smallest_action_scale(
        find_stance(TASK), stiffness, tolerance=TOLERANCE, height=height, robot=find_robot(TASK)
    )
    guess = np.concatenate(([found.height - 0.003, np.pi / 2.0], found.positions, found.commands))

    def unrest(values: Array) -> Array:
        state = np.concatenate((values[:6], np.zeros(7)))
        change = moved(env, state[None], values[None, 6:])[0] - state
        return np.concatenate((20.0 * change[:6], change[6:], 0.02 * (values - guess)))

    values = least_squares(unrest, guess, diff_step=1e-5, max_nfev=300).x
    return Posture(np.concatenate((values[:6], np.zeros(7))), values[6:], found.action_scale)


def linearize(env: Any, posture: Posture) -> tuple[Array, Array]:
    """Return the matrices of one policy step around a posture."""
    state, targets = posture.state, posture.targets

    def slope(change_states: bool, size: int) -> Array:
        columns = []
        for index in range(size):
            nudge = _NUDGE * np.outer([1.0, -1.0], np.eye(size)[index])
            rows = state + nudge if change_states else np.tile(state, (2, 1))
            after = moved(env, rows, np.tile(targets, (2, 1)) if change_states else targets + nudge)
            columns.append((after[0] - after[1]) / (2.0 * _NUDGE))
        return np.stack(columns, axis=1)

    return slope(True, len(state)), slope(False, len(targets))


def regulator(motion: Array, control: Array) -> Array:
    """Return the gain of the linear-quadratic regulator, targets per state."""
    effort = _EFFORT * np.eye(control.shape[1])
    value = solve_discrete_are(motion, control, np.diag(_COSTS), effort)
    gain: Array = np.linalg.solve(effort + control.T @ value @ control, control.T @ value @ motion)
    return gain


def held(posture: Posture, gain: Array, kinds: list[str]) -> tuple[float, float]:
    """Return the share of robots that the regulator still holds after ten seconds, and the median time, s."""
    env: Any = make_env(TASK, num_envs=ROBOTS, randomize=kinds, **_SETTINGS)
    env.reset(seed=SEED)
    task, ids = env.unwrapped.task, np.arange(ROBOTS)
    rows = np.tile(posture.state, (ROBOTS, 1))
    rows[:, 1] += np.random.default_rng(SEED).uniform(-_TILT, _TILT, ROBOTS)
    put(env, rows)
    task.limiter.begin(np.tile(posture.targets, (ROBOTS, 1)), ids)
    task.sensing.begin(task.backend.state(), ids, lambda shape: np.zeros(shape), 1.0)
    lasted = np.full(ROBOTS, STEPS)
    for step in range(STEPS):
        state = task.backend.state()
        error = measured(task.sensing.seen(state), state.base_position[:, 2]) - posture.state
        targets = posture.targets - error @ gain.T
        actions = (targets - task.backend.nominal_pose) / task.action_scale
        _, _, terminated, _, _ = env.step(actions.clip(-1.0, 1.0).astype(np.float32))
        lasted[terminated] = np.minimum(lasted[terminated], step)
    env.close()
    return float(np.mean(lasted == STEPS)), float(np.median(lasted)) * task.policy_step


def report() -> str:
    """Return the tables."""
    begin = time.monotonic()
    env: Any = make_env(TASK, num_envs=2, randomize=False, limiter=False, **_SETTINGS)
    env.reset(seed=SEED)
    lines = [
        "| K | height, m | α needed | growth of the unstable mode, 1/s | largest gain, rad of target per rad |",
        "|---:|---:|---:|---:|---:|",
    ]
    kept: tuple[Posture, Array] | None = None
    for stiffness in STIFFNESSES:
        stiffen(env, stiffness)
        for height in HEIGHTS:
            posture = find_posture(env, stiffness, height)
            motion, control = linearize(env, posture)
            growth = np.log(np.abs(np.linalg.eigvals(motion)).max()) / env.unwrapped.task.policy_step
            gain = regulator(motion, control)
            numbers = f"{posture.action_scale:.2f} | {growth:.1f} | {np.abs(gain[:, 1]).max():.0f}"
            lines.append(f"| {stiffness:g} | {posture.state[0]:.2f} | {numbers} |")
            if (stiffness, height) == (40.0, 0.65):
                kept = posture, gain
    env.close()
    assert kept is not None
    lines += ["", "| disturbed by | held for 10 s | median time, s |", "|---|---:|---:|"]
    for name, kinds in DISTURBANCES.items():
        share, seconds = held(*kept, kinds)
        lines.append(f"| {name} | {100.0 * share:.0f} % | {seconds:.1f} |")
    made = f"Seed {SEED}, {ROBOTS} robots a row, commit {source_commit()}, {time.monotonic() - begin:.0f} s."
    return "\n".join([*lines, "", made])


HEAD = """# Balance of the planar handstand

Made by `python benchmarks/balance.py --write`, which says what is computed. The gain is that from
the body's pitch to a joint's target. The second table is of K = 40 and 0.65 m; the robots begin at
rest, within 0.03 rad of the posture.

"""

TAIL = """

Standing still is a knife's edge whatever the stiffness is: a line of feet has no ankle. The
regulator's gains make large motions of small errors of the sensors, and a push moves the point over
which a foot belongs by its speed over the growth rate. So a policy for a robot has to step, as
those of the preset do; and with an α below the one needed it cannot be upright at that height.
"""


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write benchmarks/balance.md")
    options = parser.parse_args()
    tables = report()
    print(tables)
    if options.write:
        Path(__file__).with_suffix(".md").write_text(HEAD + tables + TAIL, "utf-8")


if __name__ == "__main__":
    main()
