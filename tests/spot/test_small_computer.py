"""Deployment on a computer that has neither torch nor a simulator nor matplotlib."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("bosdyn.client")
pytest.importorskip("pyarrow")

from spot_robot_helpers import POLICY

from adc_wrappers.spot_sim import PracticeRobot

BLOCKED = (
    "torch", "mujoco", "pybullet", "matplotlib", "scipy", "numba", "stable_baselines3", "rsl_rl", "ray", "cma",
    "imageio", "pygame",
)  # fmt: skip

ALONE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from adc_wrappers.cli import main

code = main(sys.argv[1:])
loaded = sorted(set(sys.modules) & set({blocked!r}))
assert not loaded, loaded
sys.exit(code)
"""


def alone(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``adc`` in a process of its own in which those packages cannot be imported."""
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-c", ALONE.format(blocked=BLOCKED), *words], capture_output=True, text=True, check=False,
        timeout=300, env={**os.environ, "PYTHONPATH": str(root), **environment},
    )  # fmt: skip


def test_a_policy_without_an_audit_is_refused_where_none_can_be_made(tmp_path):
    policy = tmp_path / "policy.onnx"
    policy.write_bytes(POLICY.read_bytes())
    done = alone("deploy", str(policy), "--hostname", "10.9.8.7", "--stiffness", "60", "--damping", "2")
    assert done.returncode == 1
    assert "none can be made here" in done.stderr and "mujoco" in done.stderr


@pytest.mark.slow
def test_a_trial_needs_none_of_them(tmp_path):
    """The practice robot runs in a process of its own, as a robot would."""
    with PracticeRobot(clock="lockstep") as robot:
        where = ["--hostname", robot.hostname, "--port", str(robot.port), "--certificate", str(robot.certificate)]
        done = alone(
            "deploy", str(POLICY), *where, "--clock", "lockstep", "--seconds", "0.4", "--yes", "--out", str(tmp_path),
            BOSDYN_CLIENT_USERNAME=robot.username, BOSDYN_CLIENT_PASSWORD=robot.password,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "motors confirmed off" in done.stdout
    assert list(tmp_path.glob("*/trial.json"))
