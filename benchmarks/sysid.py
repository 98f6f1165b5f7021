"""Batched identification against one env at a time, and against mujoco.sysid's Gauss-Newton, on one problem.

The problem: a Spot on a stand with hidden gains and friction, seven unknowns, one log of two seconds with noise. All
know the same log, model, bounds and first guess (the middle of the bounds), and compare positions and velocities from
the log's first row to its last.

    python benchmarks/sysid.py            # print
    python benchmarks/sysid.py --write    # and write benchmarks/sysid.md
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.mujoco import RobotLayout
from adc_wrappers.backends.mujoco.model import compile_robot, load_spec
from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.runs.folder import source_commit
from adc_wrappers.sysid import (
    Chirp,
    FreeParameter,
    HiddenParameters,
    HiddenRobot,
    IdentifySettings,
    WindowSettings,
    record,
    start_of,
)
from adc_wrappers.sysid.identify import Problem
from adc_wrappers.sysid.information import polish
from adc_wrappers.sysid.search import CmaSearch
from adc_wrappers.trajectories import TrajectoryLog

HIDDEN = HiddenParameters(
    stiffness_scale=40.0 / 60.0, damping_scale=1.1, coulomb=0.6, position_noise=0.001, velocity_noise=0.03
)
FREE = (FreeParameter("stiffness"), FreeParameter("damping", "type"), FreeParameter("coulomb", "type"))
SECONDS, STEP = 2.0, 0.002
GENERATIONS, TOLERANCE, LOOP_EVALUATIONS = 60, 0.1, 5
Array = NDArray[np.float64]


@dataclass
class Outcome:
    """The cost of one way of identifying."""

    name: str
    evaluations: int
    wall: float
    cpu: float
    to_five: tuple[float, float] | None
    """Wall and CPU seconds until K was within 5 % and stayed there."""
    stiffness: float


class Watch:
    """Notes of K against wall and CPU time."""

    def __init__(self) -> None:
        self.start = time.perf_counter(), time.process_time()
        self.notes: list[tuple[float, float, float]] = []

    def note(self, scale: float) -> None:
        """Write down the best K so far, as a multiple of the commanded one."""
        wall, cpu = time.perf_counter() - self.start[0], time.process_time() - self.start[1]
        self.notes.append((wall, cpu, scale))

    def outcome(self, name: str, evaluations: int) -> Outcome:
        """Return what the notes say."""
        wall, cpu, scale = self.notes[-1]
        good = [abs(note[2] / HIDDEN.stiffness_scale - 1.0) <= 0.05 for note in self.notes]
        late = next((i for i in range(len(good)) if all(good[i:])), None)
        five = None if late is None else self.notes[late][:2]
        return Outcome(name, evaluations, wall, cpu, five, 60.0 * scale)


def make_log() -> TrajectoryLog:
    """Record the hidden robot."""
    robot = HiddenRobot(make_robot_backend("mujoco", 1, fixed_base=True), HIDDEN)
    robot.set_gains(np.full((1, 12), 60.0), np.full((1, 12), 1.5))
    robot.reset(start_of(robot, height=2.0))
    return record(robot, Chirp(pose=robot.nominal_pose, period=SECONDS), SECONDS, on_stand=True)


def make_problem(log: TrajectoryLog) -> Problem:
    """Return the problem, with one window: the whole log."""
    windows = WindowSettings(length=SECONDS, burn_in=0.0)
    return Problem([log], IdentifySettings(free=FREE, windows=windows))


def search(problem: Problem, losses: Callable[[Array], Array], name: str) -> Outcome:
    """CMA-ES, then Gauss-Newton, as `identify` does."""
    engine, watch, before = CmaSearch(len(problem.space), seed=0), Watch(), problem.evaluations
    while len(engine.told) < GENERATIONS and engine.spread > TOLERANCE:
        engine.tell(losses(engine.ask()))
        watch.note(problem.space.from_unit(engine.best[1])[0])
    point, _ = polish(problem.residuals, engine.best[1])
    watch.note(problem.space.from_unit(point)[0])
    return watch.outcome(name, problem.evaluations - before)


def descend(problem: Problem) -> Outcome:
    """Gauss-Newton alone, from the middle of the bounds."""
    watch, before = Watch(), problem.evaluations
    point = np.full(len(problem.space), 0.5)
    for _ in range(12):
        moved, _ = polish(problem.residuals, point, iterations=1)
        watch.note(problem.space.from_unit(moved)[0])
        if np.abs(moved - point).max() < 1e-4:
            break
        point = moved
    return watch.outcome("Gauss-Newton alone, batched", problem.evaluations - before)


class PlainLoop:
    """One robot, one candidate after another, as one would write it."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        layout = RobotLayout.make()
        self._model = compile_robot(load_spec(None), layout, physics_step=STEP, fixed_base=True)
        self._data = mujoco.MjData(self._model)

    def loss(self, point: Array) -> float:
        """Simulate one candidate and compare."""
        problem, model, data = self._problem, self._model, self._data
        log, values = problem.logs[0], problem.space.expand(problem.space.from_unit(point))
        stiffness, damping = 60.0 * values.stiffness[0], 1.5 * values.damping[0]
        model.actuator_gainprm[:, 0] = stiffness
        model.actuator_biasprm[:, 1], model.actuator_biasprm[:, 2] = -stiffness, -damping
        model.dof_frictionloss[:] = values.coulomb[0]
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = log.positions[0], log.velocities[0]
        scales, total = problem.settings.scales, 0.0
        for row in range(len(log.time) - 1):
            data.ctrl[:] = log.targets[row]
            for _ in range(round((log.time[row + 1] - log.time[row]) / STEP)):
                mujoco.mj_step(model, data)
            total += float(np.sum(((data.qpos - log.positions[row + 1]) / scales.position) ** 2))
            total += float(np.sum(((data.qvel - log.velocities[row + 1]) / scales.velocity) ** 2))
        return total / (2 * 12 * (len(log.time) - 1))


def mujoco_sysid(log: TrajectoryLog) -> Outcome:
    """mujoco.sysid's own Gauss-Newton on the same log, bounds and first guess."""
    from mujoco import sysid
    from mujoco.sysid._src.timeseries import SignalType

    layout = RobotLayout.make()
    spec = load_spec(None)
    compile_robot(spec, layout, physics_step=STEP, fixed_base=True)
    for sensor in spec.sensors:
        spec.delete(sensor)
    model = spec.compile()
    watch, count = Watch(), [0]
    parameters = sysid.ParameterDict()
    problem = make_problem(log)
    for index, name in enumerate(problem.space.names):
        low, high = float(problem.space.lower[index]), float(problem.space.upper[index])
        parameters.add(
            sysid.Parameter(
                name, (low + high) / 2.0, low, high,
                modifier=_modifier(problem.space.kinds[index], problem.space.joints(index), layout.joint_names),
            )
        )  # fmt: skip
    steps = round(SECONDS / STEP)
    times = np.arange(steps + 1) * STEP
    rows = np.minimum(np.arange(steps + 1) // round(log.interval / STEP), len(log.time) - 1)
    control = sysid.TimeSeries.from_control_names(times, log.targets[rows], model)
    names = [(f"{joint}_qpos", SignalType.MjStateQPos) for joint in layout.joint_names]
    names += [(f"{joint}_qvel", SignalType.MjStateQVel) for joint in layout.joint_names]
    measured = np.concatenate((log.positions, log.velocities), axis=1)[1:]
    series = sysid.TimeSeries.from_names(log.time[1:], measured, model, names)
    start = sysid.create_initial_state(model, log.positions[0], log.velocities[0])
    sequence = sysid.ModelSequences("spot", spec, "chirp", start, control, series, allow_missing_sensors=True)

    def compare(params: Any, predicted: Any, data: Any, *_: Any, state: Any = None, **__: Any) -> Any:
        """Errors in the scales of the others, so that the problem is the same."""
        chosen = np.searchsorted(state[:, 0], data.times - 1e-9)
        ours = state[chosen, 1 : 1 + 24]
        scale = np.repeat([0.01, 0.2], 12)
        return ((ours - data.data) / scale).ravel(), sysid.TimeSeries(data.times, ours, data.signal_mapping), data

    residual = sysid.build_residual_fn(
        models_sequences=[sequence],
        modify_residual=compare,
        n_threads=len(_cores()),
    )

    def counted(x: Array, params: Any, **options: Any) -> Any:
        count[0] += 1 if np.ndim(x) == 1 else np.shape(x)[1]
        return residual(x, params, **options)

    watch = Watch()
    found, result = sysid.optimize(parameters, counted, optimizer="mujoco", verbose=False, max_iters=60)
    for candidate in result.extras.get("candidate", []):
        watch.notes.append((np.nan, np.nan, float(candidate[0])))
    watch.note(float(found["stiffness"].value[0]))
    wall, cpu, _ = watch.notes[-1]
    shares = np.arange(1, len(watch.notes) + 1) / len(watch.notes)
    watch.notes = [(share * wall, share * cpu, note[2]) for share, note in zip(shares, watch.notes, strict=True)]
    return watch.outcome("mujoco.sysid, Gauss-Newton", count[0])


def _modifier(kind: str, joints: tuple[int, ...], names: tuple[str, ...]) -> Callable[[Any, Any], None]:
    def write(spec: Any, parameter: Any) -> None:
        value = float(parameter.value[0])
        for index in joints:
            if kind == "coulomb":
                spec.joint(names[index]).frictionloss = value
                continue
            actuator = spec.actuator(names[index])
            if kind == "stiffness":
                actuator.gainprm[0], actuator.biasprm[1] = 60.0 * value, -60.0 * value
            else:
                actuator.biasprm[2] = -1.5 * value

    return write


def _cores() -> Any:
    import os

    return os.sched_getaffinity(0)


def loop_outcome(problem: Problem, batched: Outcome) -> tuple[Outcome, float]:
    """Time a few candidates of the plain loop, and check that its losses are the batch's.

    Its search is the batch's, candidate by candidate, so the time to 5 % follows from the time of one.
    """
    loop, points = PlainLoop(problem), CmaSearch(len(problem.space), seed=0).ask()[:LOOP_EVALUATIONS]
    start = time.perf_counter(), time.process_time()
    losses = np.array([loop.loss(point) for point in points])
    wall, cpu = (now - then for now, then in zip((time.perf_counter(), time.process_time()), start, strict=True))
    difference = float(np.max(np.abs(losses / problem.losses(points) - 1.0)))
    factor = batched.evaluations / LOOP_EVALUATIONS
    share = None
    if batched.to_five is not None:
        share = batched.to_five[1] / batched.cpu
    five = None if share is None else (share * factor * wall, share * factor * cpu)
    name = f"one env at a time ({LOOP_EVALUATIONS} candidates measured)"
    return Outcome(name, batched.evaluations, factor * wall, factor * cpu, five, batched.stiffness), difference


def row(outcome: Outcome) -> str:
    """Return a line of the table."""
    five = "never" if outcome.to_five is None else f"{outcome.to_five[0]:.1f} | {outcome.to_five[1]:.1f}"
    rate = outcome.evaluations / outcome.wall
    return (
        f"| {outcome.name} | {outcome.evaluations} | {rate:.1f} | {rate * SECONDS:.0f} | "
        f"{outcome.evaluations / outcome.cpu:.1f} | {five} | {outcome.wall:.1f} | {outcome.stiffness:.3f} |"
    )


def main() -> None:
    """Measure, print, and write the table if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    begin = time.perf_counter()
    log = make_log()
    problem = make_problem(log)
    problem.losses(np.full((1, len(problem.space)), 0.5))  # warm up
    batched = search(problem, problem.losses, "CMA-ES and Gauss-Newton, batched (`identify`)")
    loop, difference = loop_outcome(problem, batched)
    outcomes = [batched, loop, descend(problem)]
    try:
        outcomes.append(mujoco_sysid(log))
        note = ""
    except (ImportError, AttributeError) as error:
        note = f'\nmujoco.sysid was not measured: {error}. It needs `pip install "mujoco[sysid]"`.\n'
    packages = ", ".join(f"{name} {version(name)}" for name in ("mujoco", "cma", "numpy"))
    lines = [
        "# System identification",
        "",
        f"Command: `python benchmarks/sysid.py --write`, seed 0, {time.perf_counter() - begin:.0f} s, commit "
        f"{source_commit()}. {packages}, Python {platform.python_version()}, {len(_cores())} cores, "
        f"{platform.machine()}. Wall seconds depend on what else the machine does; CPU seconds, of all threads "
        "together, hardly do.",
        "",
        f"A Spot on a stand, K = 40 behind a commanded 60, seven unknowns, {SECONDS:g} s of chirps with noise.",
        "",
        "| | candidates | per wall s | simulated s per wall s | per CPU s | to 5 %, wall s | CPU s | all, wall s | K |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        *map(row, outcomes),
        note,
        f"The plain loop's losses differ from the batch's by {difference:.1e} at most: it is the same search, so its "
        "times are those of its candidates times their number. *To 5 %* is the time after which K stays within 5 % of "
        "the truth. mujoco.sysid reports its iterations without times; they are taken to last alike.",
        "",
    ]
    print("\n".join(lines))
    if options.write:
        Path(__file__).with_suffix(".md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
