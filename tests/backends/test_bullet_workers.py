"""Spot in PyBullet: repeatability, worker processes, and what happens when things break."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pybullet
import pytest
from bullet_robot_helpers import Array, Make, bullet_robots, hold, rollout, running, start, wait_until

from adc_wrappers.backends.base import RobotParameters
from adc_wrappers.backends.pybullet import BulletRobotBackend
from adc_wrappers.backends.spot_model import NOMINAL_POSE, spot_urdf
from adc_wrappers.core.errors import BackendError

make = pytest.fixture(bullet_robots)


# --- repeatability ----------------------------------------------------------------------------------------------------


def test_rollouts_repeat_whatever_happened_before_the_reset(make: Make) -> None:
    """Resets amid old contact points: without care PyBullet starts from their old impulses."""
    backend = make()
    begin = start(position=(0.0, 0.0, 0.50))
    backend.reset(begin)
    fresh = rollout(backend, 40, seed=0)
    assert fresh[:, 0, -17:].any()
    for seed in range(1, 9):
        backend.reset(begin)
        rollout(backend, 2 * seed, seed, size=0.02 * (seed - 1))
        backend.reset(begin)
        np.testing.assert_array_equal(rollout(backend, 40, seed=0), fresh)


def test_envs_do_not_depend_on_each_other(make: Make) -> None:
    alone, many = make(1), make(3)
    expected = rollout(alone, 20, seed=3)
    commands = np.random.default_rng(9).uniform(-1.0, 1.0, (20, 3, 12))
    generator = np.random.default_rng(3)
    for step in range(20):
        commands[step, 1] = generator.uniform(-0.4, 0.4, 12)
        many.advance(many.nominal_pose + commands[step])
        np.testing.assert_array_equal(np.concatenate(many.state(), axis=1)[1], expected[step, 0])


def eventful_run(backend: BulletRobotBackend) -> Array:
    """Resets, pushes, parameters, gains and a robot that goes NaN."""
    path = [rollout(backend, 8, seed=0)]
    backend.set_parameters(
        RobotParameters(friction=np.array([0.3, 0.9]), command_delay=np.array([4, 1])), np.array([0, 4])
    )
    backend.push(np.array([[0.0, 0.5, 0.1], [0.3, -0.5, 0.0]]), np.array([2, 4]))
    path.append(rollout(backend, 8, seed=1))
    backend.reset(start(2, velocity=(0.1, 0.0, 0.0)), np.array([1, 3]))
    backend.set_gains(np.full((1, 12), 40.0), np.full((1, 12), 1.5), np.array([3]))
    path.append(rollout(backend, 8, seed=2))
    targets = np.tile(NOMINAL_POSE, (5, 1))
    targets[2, 4] = np.nan
    backend.advance(targets)
    path.append(rollout(backend, 2, seed=3))
    backend.reset(start(), np.array([2]))
    path.append(rollout(backend, 8, seed=4))
    return np.concatenate(path)


def test_workers_give_the_same_bits(make: Make) -> None:
    here, there = eventful_run(make(5, workers=0)), eventful_run(make(5, workers=2))
    assert np.isnan(here).any()
    assert not np.isnan(here[-8:]).any()
    np.testing.assert_array_equal(here, there)


def test_default_number_of_workers(make: Make) -> None:
    assert make(3, workers=None).workers == 0
    assert make(4, workers=None).workers == min(4, len(os.sched_getaffinity(0)))


# --- numbers that are not finite --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", ["command", "physics"])
def test_a_robot_that_is_not_finite_is_alone_and_recovers(make: Make, cause: str) -> None:
    backend, witness = make(3), make(3)
    for robots in (backend, witness):
        robots.set_parameters(RobotParameters(base_mass_offset=np.array([3.0])), np.array([1]))
        hold(robots, 5)
    targets = np.tile(NOMINAL_POSE, (3, 1))
    if cause == "command":
        targets[1, 7] = np.nan
    else:
        backend.push(np.array([[1e300, 1e300, 0.0]]), np.array([1]))
    backend.advance(targets)
    hold(backend, 4)
    hold(witness, 5)
    for values, expected in zip(backend.state(), witness.state(), strict=True):
        assert np.isnan(values[1]).all()
        np.testing.assert_array_equal(values[[0, 2]], expected[[0, 2]])
    for robots in (backend, witness):
        robots.reset(start(), np.array([1]))
        hold(robots, 20)
    for values, expected in zip(backend.state(), witness.state(), strict=True):
        np.testing.assert_array_equal(values, expected)
    assert backend.state().contact_forces[1].any()


# --- worker processes -------------------------------------------------------------------------------------------------


def test_a_killed_worker_is_reported_at_once_and_nothing_stays(make: Make) -> None:
    """At once is without waiting for an answer for as long as a worker may take."""
    from adc_wrappers.backends.pybullet.workers import _PATIENCE

    backend = make(4, workers=2)
    hold(backend, 1)
    pids = backend._batch.pids  # type: ignore[union-attr]
    os.kill(pids[1], signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(BackendError, match=r"exit code -9 \(SIGKILL\).*make a new one"):
        hold(backend, 3)
    assert time.monotonic() - begin < 0.1 * _PATIENCE
    assert not any(map(running, pids))
    with pytest.raises(BackendError, match="closed"):
        hold(backend, 1)


def test_close_twice_leaves_no_process_and_no_name_in_shared_memory() -> None:
    backend = BulletRobotBackend(4, workers=2)
    pids = backend._batch.pids  # type: ignore[union-attr]
    assert all(map(running, pids))
    folder = Path("/dev/shm")
    assert not [path for path in folder.iterdir() if str(os.getpid()) in path.name] if folder.is_dir() else True
    backend.close()
    backend.close()
    assert not any(map(running, pids))
    with pytest.raises(BackendError, match="closed"):
        backend.reset(start(4))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_forgotten_backend_cleans_up(workers: int) -> None:
    def clients() -> int:
        return sum(pybullet.isConnected(client) for client in range(1024))

    before = clients()
    backend = BulletRobotBackend(2, workers=workers)
    pids = backend._batch.pids if workers else []  # type: ignore[union-attr]
    backend.render()
    assert clients() > before
    del backend
    gc.collect()
    assert clients() == before
    assert not any(map(running, pids))


def test_a_failing_constructor_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from adc_wrappers.backends.pybullet import workers

    started: list[int] = []
    monkeypatch.setattr(
        workers,
        "_answer",
        lambda worker: started.append(worker.process.pid) or "it did not start",  # type: ignore[func-returns-value]
    )
    with pytest.raises(BackendError, match="it did not start"):
        BulletRobotBackend(2, workers=2)
    assert started
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert not set(map(str, started)) & {pid for pid in children if running(int(pid))}


def test_a_worker_hands_its_error_to_the_caller(tmp_path: Path) -> None:
    model = tmp_path / "spot.urdf"
    model.write_text(spot_urdf())
    backend = BulletRobotBackend(2, workers=1, model=model)
    model.unlink()
    targets = np.tile(NOMINAL_POSE, (2, 1))
    targets[1] = np.nan
    backend.advance(targets)
    backend.reset(start(), np.array([1]))  # builds the world anew, from a file that is gone
    with pytest.raises(BackendError, match="which is no file"):
        hold(backend, 1)


def test_an_interrupted_step_is_waited_for(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from adc_wrappers.backends.pybullet import workers

    backend, witness = make(2, workers=2), make(2)
    answer = workers._answer
    with monkeypatch.context() as patch:
        patch.setattr(workers, "_answer", lambda worker: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            hold(backend, 1)
    assert workers._answer is answer
    hold(witness, 1)
    np.testing.assert_array_equal(rollout(backend, 3, seed=0), rollout(witness, 3, seed=0))


def run_script(folder: Path, body: str) -> subprocess.Popen[str]:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(body))
    return subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    script = run_script(
        tmp_path,
        """
        from adc_wrappers.backends.pybullet import BulletRobotBackend
        backend = BulletRobotBackend(2, workers=2)
        print("workers:", *backend._batch.pids)
        """,
    )
    out, err = script.communicate(timeout=300)
    assert script.returncode == 0, err
    assert out.count("workers:") == 1
    assert "leaked" not in err
    pids = [int(pid) for pid in out.split("workers:")[1].split("\n")[0].split()]
    assert wait_until(lambda: not any(map(running, pids)))


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = run_script(
        tmp_path,
        """
        import time
        from adc_wrappers.backends.pybullet import BulletRobotBackend
        backend = BulletRobotBackend(2, workers=2)
        print("workers:", *backend._batch.pids, flush=True)
        time.sleep(60)
        """,
    )
    assert script.stdout is not None
    line = next(line for line in script.stdout if "workers:" in line)
    pids = [int(pid) for pid in line.split("workers:")[1].split()]
    assert all(map(running, pids))
    script.kill()
    script.wait()
    assert wait_until(lambda: not any(map(running, pids)))
