"""Watching a task live: drawings, the playback behind them, the page, MuJoCo's window."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import mujoco
import numpy as np
import pytest
from helpers import heeding_signals
from view_helpers import free_port, playback_of

from adc_wrappers import make_env
from adc_wrappers.backends.spot_model import LINK_NAMES, SPOT, spot_mjcf
from adc_wrappers.cli import main
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.viewing import make_action, puppet_of
from adc_wrappers.viewing.puppets import shape_quaternion

# --- drawings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["mujoco", "pybullet"])
def test_spots_links_are_drawn_where_mujoco_has_them(backend):
    env = make_env("spot-handstand", backend=backend)
    playback = playback_of(env, "random", seed=3)
    for _ in range(5):
        playback.advance()
    poses = puppet_of(env.task).poses()
    assert set(poses) == set(LINK_NAMES)
    model = mujoco.MjModel.from_xml_string(spot_mjcf())
    data = mujoco.MjData(model)
    state = env.task.backend.state()
    data.qpos[:] = np.concatenate((state.base_position[0], state.base_quaternion[0], state.joint_positions[0]))
    mujoco.mj_forward(model, data)
    for link, pose in poses.items():
        body = model.body(link).id
        np.testing.assert_allclose(pose.position, data.xpos[body], atol=1e-6)
        assert abs(pose.quaternion @ data.xquat[body]) == pytest.approx(1.0, abs=1e-6)
    env.close()


def test_shapes_are_turned_as_mujoco_turns_them():
    model = mujoco.MjModel.from_xml_string(spot_mjcf(ground=False))
    drawn = [geom for geom in range(model.ngeom) if model.geom_group[geom] == 2]
    assert len(drawn) == sum(len(link.visual) for link in SPOT.links)
    seen: dict[str, int] = {}
    for geom in drawn:
        name = model.body(model.geom_bodyid[geom]).name
        index = seen.get(name, 0)
        seen[name] = index + 1
        shape = SPOT.link(name).visual[index]
        assert abs(shape_quaternion(shape) @ model.geom_quat[geom]) == pytest.approx(1.0, abs=1e-6)


def test_a_cart_and_its_pole_are_drawn_where_they_are():
    env = make_env("cartpole", backend="analytic", start_angle=0.3)
    playback = playback_of(env)
    playback.advance()
    poses = puppet_of(env.task).poses()
    x, _, theta, _ = (float(part[0]) for part in env.task.backend.state())
    assert poses["cart"].position[0] == pytest.approx(x)
    w, _, y, _ = poses["pole_0"].quaternion
    assert 2.0 * np.arctan2(y, w) == pytest.approx(theta)  # a turn about +y leans towards +x


def test_what_cannot_be_drawn_is_said():
    class Other:
        backend = object()

    with pytest.raises(BackendError, match="no live drawing of Other"):
        puppet_of(Other())


# --- the playback -----------------------------------------------------------------------------------------------------


def test_a_spot_without_a_policy_stands_at_the_target_stiffness(spot):
    playback = playback_of(spot, stiffness=40.0)
    for _ in range(250):
        playback.advance()
    assert playback.status.episode == 1 and playback.status.step == 250
    zero = playback_of(spot, "zero", stiffness=40.0)
    for _ in range(250):
        zero.advance()
    assert zero.status.episode > 1 and zero.status.last_outcome.startswith("fell after")


def test_pause_reset_push_and_stiffness(spot):
    playback = playback_of(spot, stiffness=60.0)
    playback.paused = True
    before = spot.task.backend.state().joint_positions.copy()
    playback.advance()
    np.testing.assert_array_equal(spot.task.backend.state().joint_positions, before)
    playback.request_push()
    playback.advance()
    assert np.linalg.norm(spot.task.backend.state().base_linear_velocity) == pytest.approx(0.5, abs=1e-6)
    playback.request_stiffness(50.0)
    playback.request_reset()
    playback.paused = False
    playback.advance()
    status = playback.status
    assert (status.stiffness, status.episode, status.step) == (50.0, 2, 1)
    gains = spot.task.backend.gains()
    np.testing.assert_allclose(gains.damping[0], 2.0 * np.sqrt(50.0 * spot.task.backend.effective_inertia()))


def test_the_session_keeps_real_time(spot):
    playback = playback_of(spot)
    draws = []
    begin = time.perf_counter()
    playback.run(lambda: draws.append(1), lambda: len(draws) < 10)
    assert time.perf_counter() - begin >= 8 * spot.task.policy_step


def test_bad_requests_raise():
    env = make_env("cartpole", backend="analytic")
    playback = playback_of(env)
    with pytest.raises(CurriculumError, match="expected a positive number, got 0"):
        playback.request_stiffness(0.0)
    with pytest.raises(CurriculumError, match="cannot be pushed"):
        playback.request_push()
    with pytest.raises(CurriculumError, match="Choose zero or random"):
        make_action("standing", env.task)
    with pytest.raises(CurriculumError, match="Did you mean 'random'"):
        make_action("randm", env.task)


# --- the command -----------------------------------------------------------------------------------------------------


def test_view_serves_a_task_and_stops(capsys):
    port = free_port()
    assert main(["view", "spot-handstand", "--port", str(port), "--seconds", "0.3", "--set", "randomize=False"]) == 0
    assert f"watch http://127.0.0.1:{port}" in capsys.readouterr().out


def test_view_shows_a_run(tmp_path, capsys):
    run = tmp_path / "run"
    quick = ["--backend", "analytic", "--num-envs", "4", "--ppo.n-steps", "32", "--ppo.hidden", "8", "--steps", "128"]
    assert main(["train", "cartpole", *quick, "--workers", "batch", "--out", str(run), "--eval-episodes", "0"]) == 0
    port = free_port()
    assert main(["view", str(run), "--port", str(port), "--seconds", "0.3"]) == 0
    assert f"watch http://127.0.0.1:{port}" in capsys.readouterr().out


def test_ctrl_c_ends_the_command_cleanly():
    command = [sys.executable, "-m", "adc_wrappers.cli", "view", "cartpole", "--backend", "analytic"]
    process = subprocess.Popen(
        heeding_signals([*command, "--port", str(free_port())]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("watch"):
            break
    process.send_signal(2)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130 and "Traceback" not in errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["spot-handstan"],
            "neither a run folder (it has no config.json) nor a policy file (.onnx) nor a task. "
            "Did you mean 'spot-handstand'?",
        ),
        (["cartpole", "--backend", "bullet"], "Did you mean 'pybullet'?"),
        (["cartpole", "--backend", "analytic", "--action", "standing"], "has no standing action"),
        (["spot-handstand", "--stiffness", "-1"], "expected"),
    ],
)
def test_view_answers_mistakes(words, message, capsys):
    assert main(["view", *words]) == 1
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
