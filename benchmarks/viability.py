"""The figure's sweep against a plain scipy loop, and the 4-D kernel against hj_reachability.

Everything is compiled before it is timed. CPU seconds (all threads) are given beside wall seconds, because they hardly
depend on what else the machine does; ratios are of both.

    python benchmarks/viability.py            # print
    python benchmarks/viability.py --write    # and write benchmarks/viability.md
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hj_cartpole import HjKernel
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from adc_wrappers.backends.cartpole import CartPoleState
from adc_wrappers.backends.cartpole.model import accelerations
from adc_wrappers.runs.folder import source_commit
from adc_wrappers.viability import (
    CartPlant,
    KernelSettings,
    RegulatorSettings,
    StartGrid,
    cartpole_kernel,
    regulator,
    success_curve,
)
from adc_wrappers.viability.success import survival_times

FREQUENCIES = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0)
FREQUENCY = 6.0
SETTINGS = KernelSettings(horizon=0.8, speed=4.0)


class Cost(NamedTuple):
    """Seconds of one call."""

    wall: float
    cpu: float


def timed(work: Callable[[], Any]) -> tuple[Any, Cost]:
    """Call, and return the answer and what it cost."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = work()
    return answer, Cost(time.perf_counter() - wall, time.process_time() - cpu)


def plant(frequency: float) -> CartPlant:
    """Return the default plant."""
    return CartPlant(natural_frequency=frequency)


def plain_loop(frequency: float, start: NDArray[np.float64], horizon: float) -> bool:
    """Return whether the LQR keeps one start inside the box, as one would write it with scipy."""
    system = plant(frequency)
    gain = regulator(system)

    def closed_loop(_: float, state: NDArray[np.float64]) -> NDArray[np.float64]:
        x, v, _, rate = state
        command = np.clip(-gain @ state, -system.command_limit, system.command_limit)
        force = system.stiffness * (command - x) - system.damping * v
        linear, angular = accelerations(CartPoleState(*state), force, system.model)
        return np.array([v, linear, rate, angular])

    def inside(_: float, state: NDArray[np.float64]) -> float:
        return float(min(system.position_limit - abs(state[0]), system.angle_limit - abs(state[2])))

    inside.terminal = True  # type: ignore[attr-defined]
    answer = solve_ivp(closed_loop, (0.0, horizon), start, rtol=1e-6, atol=1e-8, events=inside)
    return bool(answer.status == 0)


def measure_sweep(trajectories: int, seed: int) -> list[str]:
    """Time the sweep of the whole figure, and a plain loop over a random part of it."""
    starts, settings = StartGrid(), RegulatorSettings()
    success_curve(plant, (5.0,), settings, StartGrid(points=3))
    _, ours = timed(lambda: success_curve(plant, FREQUENCIES, settings, starts))
    count = len(FREQUENCIES) * starts.points**2
    rng = np.random.default_rng(seed)
    frequencies = rng.choice(FREQUENCIES, trajectories)
    chosen = starts.states()[rng.integers(0, starts.points**2, trajectories)]
    pairs = list(zip(frequencies.tolist(), chosen, strict=True))
    verdicts, theirs = timed(lambda: [plain_loop(frequency, start, settings.horizon) for frequency, start in pairs])
    again = [
        bool(survival_times(plant(frequency), settings, start[np.newaxis])[0] >= settings.horizon)
        for frequency, start in pairs
    ]
    agree = np.mean(np.array(verdicts) == np.array(again))
    wall = (theirs.wall / trajectories) / (ours.wall / count)
    cpu = (theirs.cpu / trajectories) / (ours.cpu / count)
    return [
        "## The figure",
        "| | trajectories | wall, s | CPU, s | CPU per trajectory, ms |\n|---|---:|---:|---:|---:|\n"
        f"| `success_curve` | {count} | {ours.wall:.2f} | {ours.cpu:.2f} | {1e3 * ours.cpu / count:.3f} |\n"
        f"| `solve_ivp` in a loop (seed {seed}) | {trajectories} | {theirs.wall:.2f} | {theirs.cpu:.2f} | "
        f"{1e3 * theirs.cpu / trajectories:.1f} |",
        f"Per trajectory **{cpu:.0f} ×** by CPU time, {wall:.0f} × by wall time. Both agree on {agree:.1%} of the "
        "loop's starts. The sweep simulates half of its starts, the others being their mirror images.",
    ]


def measure_kernel(points: int, accuracy: str) -> list[str]:
    """Time both solvers on the same problem and grid size, and say how far off each is."""
    starts = StartGrid(points=41)
    states = starts.states()
    settings = replace(SETTINGS, points=points)
    reference = cartpole_kernel(plant(FREQUENCY), replace(SETTINGS, points=21))
    truth = starts.share(reference.verified(states))[0]
    theirs = HjKernel(plant(FREQUENCY), settings, accuracy)
    horizon, theirs.settings = theirs.settings, replace(settings, horizon=0.08)
    theirs.solve()  # compiles
    theirs.settings = horizon
    print("compiled", flush=True)
    rows = []
    costs = []
    for size in sorted({11, 15, 21, points}):
        kernel, cost = timed(lambda size=size: cartpole_kernel(plant(FREQUENCY), replace(settings, points=size)))  # type: ignore[misc]
        share = starts.share(kernel.contains(states))[0]
        rows.append(f"| ours, {size}⁴ | {cost.wall:.1f} | {cost.cpu:.1f} | {share:.3f} | {abs(share - truth):.3f} |")
        costs.append((cost, abs(share - truth)))
    print(*rows, sep="\n", flush=True)
    _, cost = timed(theirs.solve)
    share = starts.share(theirs.contains(states))[0]
    error = abs(share - truth)
    name = f"hj_reachability, {points}⁴, `{accuracy}`"
    rows.append(f"| {name} | {cost.wall:.1f} | {cost.cpu:.1f} | {share:.3f} | {error:.3f} |")
    same = costs[-1]
    equal = min((item for item in costs if item[1] <= error), key=lambda item: item[0].cpu, default=None)
    text = (
        f"On equal grids ours takes **{cost.cpu / same[0].cpu:.0f} ×** less CPU time ({cost.wall / same[0].wall:.0f} × "
        f"less wall time), and its error is {same[1]:.3f} against {error:.3f}."
    )
    if equal is not None:
        text += (
            " At equal accuracy, with the cheapest of our grids above whose error is not larger than theirs, it is "
            f"{cost.cpu / equal[0].cpu:.0f} × ({cost.wall / equal[0].wall:.0f} ×)."
        )
    return [
        "## The kernel",
        f"ω_n = {FREQUENCY:g} rad/s, T = {SETTINGS.horizon:g} s, |ẋ| ≤ {SETTINGS.speed:g} m/s on the grid, the same "
        "coordinates and admissible set for both. *Coverage* is the share of the figure's starts whose interpolated "
        f"value is not negative; *error* is its distance from {truth:.3f}, the share that is verified by simulation "
        "(no grid error, see docs/viability.md). hj_reachability solves in continuous time, ours holds commands for "
        "80 ms, which can only make the kernel smaller.",
        "| | wall, s | CPU, s | coverage | error |\n|---|---:|---:|---:|---:|\n" + "\n".join(rows),
        text,
    ]


def main() -> None:
    """Measure, print, and write the tables if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trajectories", type=int, default=60)
    parser.add_argument("--points", type=int, default=31)
    parser.add_argument("--accuracy", default="medium")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write benchmarks/viability.md")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    parts = measure_kernel(arguments.points, arguments.accuracy)
    parts = [*measure_sweep(arguments.trajectories, arguments.seed), *parts]
    print("\n\n".join(parts))
    if arguments.write:
        names = ("numba", "scipy", "jax", "hj_reachability", "numpy")
        versions = ", ".join(f"{name} {version(name)}" for name in names)
        command = (
            f"Command: `python benchmarks/viability.py --write --points {arguments.points} --trajectories "
            f"{arguments.trajectories}`, seed {arguments.seed}, {time.perf_counter() - begin:.0f} s, commit "
            f"{source_commit()}. {versions}, Python {platform.python_version()}, {platform.machine()}."
            " Wall seconds depend on what else the machine does; CPU seconds, of all threads together, hardly do."
        )
        text = "\n\n".join(["# Viability", command, *parts])
        Path(__file__).with_suffix(".md").write_text(text + "\n")


if __name__ == "__main__":
    main()
