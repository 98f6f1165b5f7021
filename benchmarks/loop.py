"""The 50 Hz loop through the SDK against a practice robot: jitter, delays, steps per second; quiet and under load.

    python benchmarks/loop.py            # print
    python benchmarks/loop.py --write    # and write benchmarks/loop.md

The practice robot runs in its own process, over TLS, on the same computer. The robot stands at stiff gains
and the policy is asked at every step, so that nothing but time is measured. Guard limits on clocks are lifted:
the share of commands that would have broken the robot's limits is reported instead. Load is made by busy processes, two
per core; what else the computer does is reported as its load average.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import time
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers import make_env
from adc_wrappers.backends.guard import PRACTICE_LIMITS, ROBOT_LIMITS
from adc_wrappers.policy import load
from adc_wrappers.runs.folder import source_commit
from adc_wrappers.spot_sim import PracticeRobot

HERE = Path(__file__).parent
POLICY = HERE.parent / "examples" / "policies" / "spot_handstand.onnx"
PATIENT = replace(PRACTICE_LIMITS, state_age=30.0, policy_age=30.0, echo_lag=30.0)
STILL = np.zeros(12, np.float32)
STIFF = {"stiffness": 400.0, "damping": 5.0}


def busy() -> None:
    """Use a core."""
    while True:
        sum(range(10_000))


@contextmanager
def load_of(processes: int) -> Any:
    """Keep so many processes busy."""
    workers = [multiprocessing.Process(target=busy, daemon=True) for _ in range(processes)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def env_on(robot: PracticeRobot, **settings: Any) -> Any:
    """The handstand on a practice robot, patient with a busy computer."""
    login = (robot.username, robot.password)
    return make_env(
        "spot-handstand", backend="spot", preset="cpu", hostname=robot.hostname, port=robot.port,
        certificate=robot.certificate, credentials=lambda: login, clock=robot.settings.clock, limits=PATIENT,
        patience=120.0, time_to_live=9.0, power_off_seconds=120.0, **settings,
    )  # fmt: skip


def measure_lockstep(steps: int) -> dict[str, float]:
    """Steps per second in lockstep, beside the plain simulator."""
    policy = load(POLICY)
    plain = make_env("spot-handstand", backend="mujoco", preset="cpu", randomize=False)
    plain.actuator_backend.set_gains(np.full((1, 12), STIFF["stiffness"]), np.full((1, 12), STIFF["damping"]))
    plain_rate, _, _ = _rate(plain, policy, steps)
    plain.close()
    with PracticeRobot(clock="lockstep") as robot:
        env = env_on(robot, **STIFF)
        try:
            rate, times, cpu = _rate(env, policy, steps)
        finally:
            env.close()
    return {
        "lockstep steps/s": rate,
        "plain steps/s": plain_rate,
        "lockstep step p50": _ms(times, 50),
        "lockstep step p99": _ms(times, 99),
        "lockstep: CPU of our process per step": cpu * 1e3,
    }


def _rate(env: Any, policy: Any, steps: int) -> tuple[float, np.ndarray, float]:
    """Return steps per second, the time of each, and the CPU time of this process per step, all its threads."""
    observation, _ = env.reset(seed=0)
    times = []
    used = time.process_time()
    for _ in range(steps):
        begin = time.perf_counter()
        policy(observation)
        observation, _, terminated, truncated, info = env.step(STILL)
        times.append(time.perf_counter() - begin)
        if terminated or truncated:
            raise RuntimeError(f"the episode ended: {info}")
    return steps / sum(times), np.array(times), (time.process_time() - used) / steps


def measure_realtime(steps: int) -> dict[str, float]:
    """Jitter and delays in real time."""
    policy = load(POLICY)
    with PracticeRobot(clock="realtime") as robot:
        env = env_on(robot, **STIFF)
        backend = env.actuator_backend
        stamps, moments = [], []
        try:
            observation, _ = env.reset(seed=0)
            count, begin, used = backend.receiver.count, time.monotonic(), time.process_time()
            for _ in range(steps):
                policy(observation)
                observation, _, terminated, _, info = env.step(STILL)
                if terminated:
                    raise RuntimeError(f"the guard ended it: {info['guard']}")
                stamps.append(backend._driver.sample.stamp)
                moments.append(time.monotonic())
            state_rate = (backend.receiver.count - count) / (time.monotonic() - begin)
            cpu = (time.process_time() - used) / (time.monotonic() - begin)
            delays = backend.delays()
            overruns = backend._driver.overruns
        finally:
            env.close()
    robot_period, host_period = np.diff(stamps), np.diff(moments)
    to_command, echo = (np.array(delays[name][-steps:]) for name in ("state_to_command", "command_to_echo"))
    return {
        "states/s": state_rate,
        "real time: CPU of our process": 100.0 * cpu,
        "period mean": float(host_period.mean() * 1e3),
        "jitter p50": _ms(np.abs(host_period - 0.02), 50),
        "jitter p99": _ms(np.abs(host_period - 0.02), 99),
        "jitter max": _ms(np.abs(host_period - 0.02), 100),
        "robot clock jitter p99": _ms(np.abs(robot_period - 0.02), 99),
        "state to command p50": _ms(to_command, 50),
        "state to command p99": _ms(to_command, 99),
        "state to command max": _ms(to_command, 100),
        "echo p50": _ms(echo, 50),
        "echo p99": _ms(echo, 99),
        "echo max": _ms(echo, 100),
        "overruns": 100.0 * overruns / steps,
        "echo over limit": 100.0 * float((echo > ROBOT_LIMITS.echo_lag).mean()),
    }


def _ms(values: np.ndarray, end: float) -> float:
    return float(np.percentile(values, end) * 1e3)


def report(columns: dict[str, dict[str, float]], notes: list[str], seconds: float, options: Any) -> str:
    """Return the page."""
    names = list(next(iter(columns.values())))
    percent = ("overruns", "echo over limit", "real time: CPU of our process")
    units = {"lockstep steps/s": "", "plain steps/s": "", "states/s": "", **dict.fromkeys(percent, ", %")}
    lines = [
        "# The loop through the SDK",
        "",
        f"Command: `python benchmarks/loop.py --write --steps {options.steps}`, {seconds:.0f} s, commit "
        f"{source_commit()}. bosdyn-client {version('bosdyn-client')}, grpcio {version('grpcio')}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores. Times are in ms unless a unit is given; seed 0.",
        "",
        *notes,
        "",
        "| | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    lines += [
        f"| {name}{units.get(name, ', ms')} | "
        + " | ".join(f"{column[name]:.2f}" for column in columns.values())
        + " |"
        for name in names
    ]
    return "\n".join([*lines, "", EXPLANATION, ""])


EXPLANATION = """\
Lockstep: one command, 20 ms of physics in the robot's process, its state, the 45 numbers, reward and guard; *plain* is
the same task in the MuJoCo env, in the same run. Real time: *jitter* is how far the host's period is from 20 ms, *state
to command* is from the receipt of a state message to the moment the command made from it is handed to gRPC (policy,
guard and reward in between), *echo* from there to the receipt of the first state that shows its key. *overruns* are
steps whose instant had passed before the action came; *echo over limit* is the share of commands that the limits for a
real robot (30 ms) would have stopped."""


NOT_IDLE = """\
- **This computer was not idle**: other programs kept its cores busy all the time, so the first column is no quiet
  computer either. Wall-clock numbers here say how the loop behaves when it is starved, not what it can do; the CPU
  times are what it costs."""


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    begin, columns, notes = time.monotonic(), {}, []
    for label, processes in (("without load of our own", 0), ("under load", 2 * (os.cpu_count() or 1))):
        with load_of(processes):
            before = os.getloadavg()[0]
            values = {**measure_lockstep(options.steps), **measure_realtime(options.steps)}
            after = os.getloadavg()[0]
        columns[label] = values
        notes.append(
            f"- *{label}*: {processes} busy processes of ours; load average {before:.1f} before, {after:.1f} after."
        )
        if not processes and before > 0.5 * (os.cpu_count() or 1):
            notes.append(NOT_IDLE)
    text = report(columns, notes, time.monotonic() - begin, options)
    print(text)
    if options.write:
        (HERE / "loop.md").write_text(text)


if __name__ == "__main__":
    main()
