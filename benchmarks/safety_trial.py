"""One trial of benchmarks/safety.py: a practice robot, somebody who drives it, something that goes wrong.

As a program it is the worker of that script (``work``: cases in, results out, a JSON line each), or the driver of a
trial with signals (``drive``: its order in, its phases out).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from adc_wrappers import make_env
from adc_wrappers.backends.base import RobotStart
from adc_wrappers.core.errors import BackendError
from adc_wrappers.policy import load
from adc_wrappers.spot_sim import PracticeRobot

HERE = Path(__file__).parent
POLICY = HERE.parent / "examples" / "policies" / "spot_handstand.onnx"
SILENCE = 2.0
"""Seconds of silence after which a keeper takes its driver for stalled, and the driver its keeper: the default."""

SETTINGS: dict[str, Any] = {
    "settle_seconds": 0.3,
    "takeover_seconds": 0.4,
    "time_to_live": 0.25,
    "patience": 20.0,
    "power_off_seconds": 40.0,
}
"""What differs from the defaults: a short settling and take-over, and time and patience for a busy computer."""

DRIVING = 3
"""Policy steps after which the transition counts as begun."""

MOST_STEPS = 110
"""Policy steps after which a robot that nothing has stopped is closed."""

HOLD = 1.5
"""Seconds for which a held robot waits for what is to happen; the hold itself ends after 2."""

WAIT = 60.0
"""Seconds in which the robot must be off, or a trial is over with whatever is the case then."""


class _Ears:
    """A listener that says when the take-over has begun."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify

    def state(self, sample: Any, targets: Any) -> None:
        """Nothing."""

    def command(self, command: Any) -> None:
        """Nothing."""

    def event(self, name: str, details: dict[str, Any]) -> None:
        """Joint control has begun: the take-over."""
        if name == "joint control":
            self._notify("takeover")


def drive(where: dict[str, Any], phase: str, notify: Callable[[str], None]) -> dict[str, Any]:
    """Take a robot over, let the shipped policy drive it, close it; says when it comes to each phase.

    Returns:
        What stopped the policy and what the robot did then, and what went wrong.
    """
    policy = load(POLICY)
    gains = {"stiffness": policy.metadata.simulated_stiffness, "damping": policy.metadata.simulated_damping}
    told: dict[str, Any] = {"check": None, "fallback": None, "error": None}
    env = make_env(
        "spot-handstand", backend="spot", preset="cpu", listeners=(_Ears(notify),), **gains, **SETTINGS, **where
    )
    try:
        notify("connected")
        guard = _episode(env, policy, phase, notify)
        if guard is not None:
            told.update(check=guard["check"], fallback=guard["fallback"])
    except BackendError as error:
        incident = getattr(error, "incident", None) or {}
        told.update(check=incident.get("check"), fallback=incident.get("fallback"), error=str(error))
    finally:
        notify("closing")
        try:
            env.close()
        except BackendError as error:
            told["error"] = str(error)
    return told


def _episode(env: Any, policy: Any, phase: str, notify: Callable[[str], None]) -> dict[str, Any] | None:
    backend = env.actuator_backend
    observation, _ = env.reset(seed=0)
    if phase == "hold":
        notify("hold")
        until = time.monotonic() + HOLD
        while backend.incident() is None and time.monotonic() < until:
            time.sleep(0.01)
    for step in range(MOST_STEPS):
        observation, _, terminated, _, info = env.step(policy(observation))
        if "guard" in info:
            found: dict[str, Any] = info["guard"]
            return found
        if terminated:  # the task's own word; on a robot its guard is the one that ends things
            return None
        if step + 1 == DRIVING:
            notify("transition")
        if backend.guard.phases.phase == "stance":
            notify("stance")
    return None


def stance() -> RobotStart:
    """Return the handstand of the shipped policy in the plain simulator, at rest."""
    policy = load(POLICY)
    env = make_env("spot-handstand", backend="mujoco", preset="cpu", randomize=False)
    gains = policy.metadata
    env.actuator_backend.set_gains(np.atleast_2d(gains.simulated_stiffness), np.atleast_2d(gains.simulated_damping))
    observation, _ = env.reset(seed=0)
    held = 0
    while held < 10:
        observation, _, _, _, info = env.step(policy(observation))
        held = held + 1 if info["holds"] else 0
    state = env.actuator_backend.state()
    env.close()
    still = np.zeros((1, 3))
    return RobotStart(
        state.base_position, state.base_quaternion, still, still, state.joint_positions, np.zeros((1, 12))
    )


class _Spares:
    """A stock of one: a practice robot in lockstep, or a driver that waits, made while the one before is used.

    Args:
        make: Makes one.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._maker = make, ThreadPoolExecutor(1)
        self._next: Future[Any] | None = None

    def take(self) -> Any:
        """Return one, and begin to make another."""
        wanted = self._next or self._maker.submit(self._make)
        self._next = self._maker.submit(self._make)
        return wanted.result()

    def close(self, end: Callable[[Any], None]) -> None:
        """End the one that nobody took."""
        if self._next is not None:
            end(self._next.result())
        self._maker.shutdown()


def _start_driver() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, "drive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip


STILL_ROBOTS = _Spares(lambda: PracticeRobot(clock="lockstep"))
"""Their time stands still while they wait; in real time an idle robot would disturb the others."""

DRIVERS = _Spares(_start_driver)


class _Scene:
    """The scene of what is to go wrong: it acts when the wanted phase has come, and remembers when things happened."""

    def __init__(
        self, robot: PracticeRobot, case: dict[str, Any], start: RobotStart, strike: Callable[[], None]
    ) -> None:
        self._robot, self._case, self._start, self._strike = robot, case, start, strike
        self._lock = threading.Lock()
        self.moments: dict[str, dict[str, float]] = {}
        """By phase, and ``struck``: the robot's time and the computer's."""

    def come(self, name: str) -> None:
        """A phase has come."""
        with self._lock:
            if name in self.moments:
                return
            self._note(name)
            wanted = self._case["phase"]
            if name == "transition" and wanted == "stance":
                self._robot.place(self._start)
            if name == wanted:
                self._note("struck")
                self._strike()

    def _note(self, name: str) -> None:
        wall = time.monotonic()
        self.moments[name] = {"wall": wall, "time": self._robot.status()["time"]}


def run_case(case: dict[str, Any], start: RobotStart) -> dict[str, Any]:
    """Run one trial; returns its case with what was seen."""
    begin = time.monotonic()
    still = case["clock"] == "lockstep"
    with STILL_ROBOTS.take() if still else PracticeRobot(clock="realtime", seed=case["repetition"]) as robot:
        if case["kind"] == "fault":
            scene = _Scene(robot, case, start, lambda: robot.inject(case["name"], **case["parameters"]))
            credentials = (robot.username, robot.password)
            told = drive({**_where(robot), "credentials": lambda: credentials}, case["phase"], scene.come)
        else:
            scene, told = _with_signal(robot, case, start)
        history = _until_safe(robot)
        status = robot.status()
    return {
        **case, "moments": scene.moments, "told": told, "history": history, "motors": status["motors"],
        "mode": status["mode"], "lease": status["leases"].get("body"), "seconds": round(time.monotonic() - begin, 2),
    }  # fmt: skip


def _where(robot: PracticeRobot) -> dict[str, Any]:
    return {
        "hostname": robot.hostname, "port": robot.port, "certificate": str(robot.certificate),
        "clock": robot.settings.clock,
    }  # fmt: skip


def _until_safe(robot: PracticeRobot) -> list[dict[str, Any]]:
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        status = robot.status()
        owner = status["leases"].get("body")
        if status["mode"] != "joint" and (owner == "tablet" or (status["motors"] == "off" and owner is None)):
            break
        time.sleep(0.05)
    return robot.history()


def _with_signal(robot: PracticeRobot, case: dict[str, Any], start: RobotStart) -> tuple[_Scene, dict[str, Any]]:
    """Let a process of its own drive, and send a signal to it or to its keeper."""
    processes: dict[str, int] = {}
    victim, number = case["victim"], getattr(signal, f"SIG{case['name']}")
    scene = _Scene(robot, case, start, lambda: os.kill(processes[victim], number))
    driver = DRIVERS.take()
    assert driver.stdin is not None and driver.stdout is not None
    where = {**_where(robot), "keeper": True, "keeper_silence": SILENCE}
    secret = {"username": robot.username, "password": robot.password}
    driver.stdin.write(json.dumps({"where": where, "phase": case["phase"], **secret}) + "\n")
    driver.stdin.flush()
    processes["driver"] = driver.pid
    told: dict[str, Any] = {"check": None, "fallback": None, "error": None}
    reader = threading.Thread(target=_listen, args=(driver.stdout, processes, scene, told), daemon=True)
    reader.start()
    deadline = time.monotonic() + 2 * WAIT
    while time.monotonic() < deadline and driver.poll() is None and not _over(robot, scene):
        time.sleep(0.02)
    _until_safe(robot)
    for pid in processes.values():
        with suppress(ProcessLookupError):  # most have ended by themselves; a stopped one cannot
            os.kill(pid, signal.SIGKILL)
    errors = driver.communicate()[1]
    reader.join(5.0)
    if "struck" not in scene.moments and told["error"] is None:
        last = errors.strip().split("\n")[-1]
        told["error"] = f"the phase never came (stopped by {told['check']}) {last}".rstrip()
    return scene, told


def _over(robot: PracticeRobot, scene: _Scene) -> bool:
    """Whether a struck robot is off and free: a stopped driver never ends."""
    if "struck" not in scene.moments:
        return False
    status = robot.status()
    return status["motors"] == "off" and status["leases"] == {}


def _listen(lines: Any, processes: dict[str, int], scene: _Scene, told: dict[str, Any]) -> None:
    for line in lines:
        words = json.loads(line)
        if "keeper" in words:
            processes["keeper"] = words["keeper"]
        if "phase" in words:
            scene.come(words["phase"])
        if "told" in words:
            told.update(words["told"])


def _main_drive() -> None:
    """Drive by the order on standard input; say phases on standard output."""
    import adc_wrappers.backends.spot.backend  # noqa: F401  before the order comes, so that the trial need not wait

    _heed_signals()
    order = json.loads(sys.stdin.readline() or "null")
    if order is None:
        return  # a spare that nobody took
    credentials = (order["username"], order["password"])
    where = {**order["where"], "credentials": lambda: credentials}

    def say(**words: Any) -> None:
        print(json.dumps(words), flush=True)

    say(told=drive(where, order["phase"], lambda phase: _say_phase(phase, say)))


def _heed_signals() -> None:
    """Let this driver end when it is asked to, also where the program that started it is deaf to it.

    A run under ``nohup`` ignores SIGHUP, one in the background Ctrl-C, and processes inherit what is ignored.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _say_phase(phase: str, say: Callable[..., None]) -> None:
    if phase == "takeover":
        say(keeper=_keeper_of_this_process())
    say(phase=phase)


def _keeper_of_this_process() -> int:
    """Return the number of the child process that keeps the robot."""
    own = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    children = {int(number) for task in own.parent.parent.iterdir() for number in _children(task)}
    (keeper,) = (n for n in children if b"keeper" in Path(f"/proc/{n}/cmdline").read_bytes())
    return keeper


def _children(task: Path) -> list[str]:
    return (task / "children").read_text().split()


def _main_work() -> None:
    start = stance()
    for line in sys.stdin:
        case = json.loads(line)
        try:
            result = run_case(case, start)
        except Exception as error:  # told to the script, which counts it as a trial that failed
            result = {**case, "failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(result), flush=True)
    STILL_ROBOTS.close(lambda robot: robot.close())
    DRIVERS.close(lambda driver: driver.communicate())


if __name__ == "__main__":
    {"work": _main_work, "drive": _main_drive}[sys.argv[1]]()
