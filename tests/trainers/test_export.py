"""Exporting: refuses gains that are not the target's, and what it writes is the policy."""

from __future__ import annotations

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import onnx
import pytest
import torch
from helpers import FakeBackend, ScriptedEnv
from policy_helpers import DEPLOYMENT
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize
from view_helpers import free_port

from adc_wrappers import (
    ActionScaleCoupling,
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    CurriculumConfig,
    make_env,
)
from adc_wrappers.cli import main
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.envs import Deployment
from adc_wrappers.envs.task import Task
from adc_wrappers.policy import Policy, load
from adc_wrappers.policy import export as export_module
from adc_wrappers.policy.export import TOLERANCE, ExportError, export_policy, export_run
from adc_wrappers.policy.network import ClippedPolicy, largest_difference
from adc_wrappers.runs import RunFolder
from adc_wrappers.sb3 import ActuatorCurriculumVecEnv
from adc_wrappers.training import PpoConfig, load_trained

CONFIG = CurriculumConfig(start_stiffness=36.0, target_stiffness=6.25, length_max=450)


def network(inputs=4, outputs=1, gain=1.0):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(inputs, 16), torch.nn.ELU(), torch.nn.Linear(16, outputs))
    with torch.no_grad():
        layers[2].weight.mul_(gain)
    return layers


def cartpole(num_envs=3, **options):
    return ActuatorCurriculumVectorWrapper(
        make_env("cartpole", backend="analytic", num_envs=num_envs), CONFIG, **options
    )


# --- the gains must be live ------------------------------------------------------------------------------------------


def test_an_env_that_is_still_at_the_start_stiffness_is_refused(tmp_path):
    with pytest.raises(ExportError, match=r"joint 'cart' of env 0 has stiffness 36, .* target is 6.25.*evaluation\(\)"):
        export_policy(network(), cartpole(), tmp_path / "p.onnx", steps=0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["stiffness", "damping"])
def test_gains_that_drifted_in_one_env_are_refused(tmp_path, name):
    env = cartpole(training=False)
    gains = env.unwrapped.actuator_backend.gains()
    getattr(gains, name)[2] *= 1.01
    env.unwrapped.actuator_backend.set_gains(gains.stiffness, gains.damping)
    with pytest.raises(ExportError, match=f"joint 'cart' of env 2 has {name}"):
        export_policy(network(), env, tmp_path / "p.onnx", steps=0)
    assert not list(tmp_path.iterdir())


def test_an_env_without_a_curriculum_is_refused(tmp_path):
    with pytest.raises(ExportError, match="no curriculum inside"):
        export_policy(network(), make_env("cartpole", backend="analytic"), tmp_path / "p.onnx", steps=0)


def test_a_backend_that_forgets_its_gains_is_refused(tmp_path):
    backend = FakeBackend()
    env = ActuatorCurriculumWrapper(ScriptedEnv([5], backend), training=False)
    backend.stiffness[:] = np.nan
    with pytest.raises(ExportError, match="joint 'j0' of env 0 has stiffness nan"):
        export_policy(network(3, 2), env, tmp_path / "p.onnx", steps=0)


# --- what is between the network and the joints ----------------------------------------------------------------------


def test_wrappers_that_change_what_the_policy_sees_are_refused(tmp_path):
    inner = ActuatorCurriculumWrapper(make_env("cartpole", backend="analytic"), CONFIG, training=False)
    scaled = gym.wrappers.RescaleAction(inner, -2.0, 2.0)
    with pytest.raises(ExportError, match="RescaleAction changes what the policy sees or does"):
        export_policy(network(), scaled, tmp_path / "p.onnx", steps=0)
    venv = ActuatorCurriculumVecEnv(DummyVecEnv([lambda: make_env("cartpole", backend="analytic")]), training=False)
    with pytest.raises(ExportError, match="VecNormalize changes"):
        export_policy(network(), VecNormalize(venv), tmp_path / "p.onnx", steps=0)


def test_a_foreign_env_must_say_what_its_numbers_are(tmp_path):
    env = ActuatorCurriculumWrapper(ScriptedEnv([5]), training=False)
    with pytest.raises(ExportError, match="Pass deployment="):
        export_policy(network(3, 2), env, tmp_path / "p.onnx", steps=0)
    with pytest.raises(ExportError, match=r"joints \('j0', 'j1'\), the deployment \('hip', 'knee'\)"):
        export_policy(network(3, 2), env, tmp_path / "p.onnx", steps=0, deployment=DEPLOYMENT)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"commanded_stiffness": 60.0}, CurriculumError, "or neither"),
        ({"commanded_stiffness": {"card": 1.0}, "commanded_damping": 1.0}, CurriculumError, "Did you mean 'cart'"),
        ({"commanded_stiffness": (1.0, 2.0), "commanded_damping": 1.0}, CurriculumError, "expected 1 values"),
    ],
)
def test_commanded_gains_are_checked_first(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        export_policy(network(), cartpole(training=False), tmp_path / "p.onnx", steps=0, **options)


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(ExportError, match=r"ends in \.onnx"):
        export_policy(network(), cartpole(training=False), tmp_path / "p.pt", steps=0)


# --- every task says how it is deployed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "backend"),
    [
        ("cartpole", "analytic"),
        ("double-cartpole", "analytic"),
        ("spot-handstand", "mujoco"),
        ("spot-hindstand", "pybullet"),
    ],
)
def test_deployment_is_what_the_task_does(task, backend):
    env = make_env(task, backend=backend)
    try:
        found: Deployment = env.task.deployment()
        assert found.joint_names == tuple(env.task.backend.joint_names)
        assert found.observation_size == env.observation_space.shape[0]
        assert env.action_space.shape == (len(found.joint_names),)
        assert env.action_space.high[0] == pytest.approx(found.action_limit)
        assert found.policy_step == env.task.policy_step
        assert found.policy_step == pytest.approx(found.physics_step * env.task.backend.decimation)
    finally:
        env.close()


def test_spot_observes_in_the_order_of_its_layout(spot):
    observation, _ = spot.reset(seed=0)
    action = np.linspace(-2.0, 2.0, 12, dtype=np.float32)
    observation, *_ = spot.step(action)
    state, found = spot.task.backend.state(), spot.task.deployment()
    sizes = np.cumsum([part.size for part in found.observation])[:-1]
    parts = dict(zip((part.name for part in found.observation), np.split(observation, sizes), strict=True))
    np.testing.assert_allclose(parts["base_linear_velocity"], state.base_linear_velocity[0], rtol=1e-5)
    np.testing.assert_allclose(parts["base_angular_velocity"], state.base_angular_velocity[0], rtol=1e-5)
    np.testing.assert_allclose(parts["projected_gravity"], state.projected_gravity[0], rtol=1e-5)
    offset = state.joint_positions[0] - np.array(found.nominal_pose)
    np.testing.assert_allclose(parts["joint_position_offset"], offset, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(parts["joint_velocity"], state.joint_velocities[0], rtol=1e-5)
    np.testing.assert_allclose(parts["last_action"], np.clip(action, -1.0, 1.0))


def test_a_task_that_does_not_say_is_asked_to():
    with pytest.raises(BackendError, match=r"Implement deployment\(\)"):
        Task.deployment(object())  # type: ignore[arg-type]


# --- what is written -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A policy exported during evaluation, from an env whose training goes on afterwards."""
    path, module, env = tmp_path_factory.mktemp("export") / "p.onnx", network(gain=3.0).train(), cartpole()
    with env.evaluation():
        report = export_policy(
            module, env, path, steps=12, commanded_stiffness=60.0, commanded_damping={"cart": 5.0}, commit="abc"
        )
    return module, env, report


@pytest.mark.slow
def test_the_file_is_equal_to_the_module(exported):
    module, env, report = exported
    policy = load(report.path)
    assert policy.metadata == report.metadata
    assert report.largest_difference <= 1e-6 and report.observations == 512
    observations = np.random.default_rng(1).normal(0.0, 3.0, (2000, 4)).astype(np.float32)
    with torch.inference_mode():
        wanted = module(torch.from_numpy(observations)).clamp(-1.0, 1.0).numpy()
    assert (np.abs(wanted) == 1.0).any() and (np.abs(wanted) < 1.0).any()
    np.testing.assert_allclose(policy(observations), wanted, atol=1e-6)
    assert module.training and module[0].training  # as it was
    assert env.adc.stiffness[0, 0] == 36.0  # training goes on


@pytest.mark.slow
def test_the_file_says_everything_and_nothing_of_where_it_was_made(exported):
    _, _, report = exported
    said = load(report.path).metadata
    assert said.joint_names == ("cart",) and said.nominal_pose == (0.0,) and said.action_scale == (1.0,)
    assert said.simulated_stiffness == (6.25,) and said.simulated_damping == (5.0,)
    assert said.commanded_stiffness == (60.0,) and said.commanded_damping == (5.0,)
    assert (said.policy_step, said.physics_step) == (0.02, 0.002)
    assert [part.name for part in said.observation][:2] == ["cart_position", "cart_velocity"]
    assert said.training.steps == 12 and said.training.commit == "abc" and said.training.config is None
    assert said.curriculum["config"]["target_stiffness"] == 6.25
    plain = {entry.key: entry.value for entry in onnx.load(report.path).metadata_props}
    assert plain["adc.joint_names"] == "cart" and plain["adc.policy_rate_hz"] == "50"
    content = report.path.read_bytes()
    assert b".py" not in content and b"site-packages" not in content


@pytest.mark.slow
def test_a_file_that_would_differ_is_not_written(exported, tmp_path, monkeypatch):
    class Noisy(torch.nn.Module):
        def forward(self, observation):
            return observation[:, :1] + 1e-3 * torch.rand_like(observation[:, :1])

    with pytest.raises(ExportError, match="differs from the torch policy"):
        export_policy(Noisy(), cartpole(training=False), tmp_path / "p.onnx", steps=0)
    with pytest.raises(ExportError, match=r"output of shape \(n, 1\)"):
        export_policy(network(4, 2), cartpole(training=False), tmp_path / "p.onnx", steps=0)
    with pytest.raises(ExportError, match="torch cannot turn"):
        export_policy(network(5, 1), cartpole(training=False), tmp_path / "p.onnx", steps=0)
    monkeypatch.setattr(export_module, "TOLERANCE", -1.0)
    with pytest.raises(ExportError, match="differs"):
        export_policy(network(), cartpole(training=False), tmp_path / "p.onnx", steps=0)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_other_ways_of_wrapping(exported, tmp_path):
    coupled = ActionScaleCoupling(
        ActuatorCurriculumWrapper(make_env("cartpole", backend="analytic"), CONFIG, training=False)
    )
    assert export_policy(network(), coupled, tmp_path / "a.onnx", steps=0).path.exists()
    children = DummyVecEnv([lambda: make_env("cartpole", backend="analytic")] * 2)
    venv = VecMonitor(ActuatorCurriculumVecEnv(children, CONFIG, training=False))
    report = export_policy(network(), venv, tmp_path / "b.onnx", steps=0, observation_scale=[1.0, 0.5, 1.0, 0.25])
    assert load(report.path).metadata.observation_scale == (1.0, 0.5, 1.0, 0.25)
    foreign = ActuatorCurriculumWrapper(ScriptedEnv([5]), training=False)
    deployment = Deployment(**{**vars(DEPLOYMENT), "joint_names": ("j0", "j1")})
    report = export_policy(network(3, 2), foreign, tmp_path / "c.onnx", steps=0, deployment=deployment)
    assert load(report.path).metadata.simulated_stiffness == (40.0, 40.0)


# --- a run, by command -----------------------------------------------------------------------------------------------


def adc(*words):
    return main([str(word) for word in words])


@pytest.mark.slow
def test_a_run_is_exported_and_played(tmp_path, capsys):
    run, file = tmp_path / "run", tmp_path / "out" / "policy.onnx"
    quick = ["--backend", "analytic", "--workers", "batch", "--num-envs", 4, "--ppo.n-steps", 32, "--ppo.hidden", 8]
    assert adc("train", "cartpole", *quick, "--steps", 256, "--out", run, "--eval-episodes", 0) == 0
    assert adc("export", run, "--out", file, "--commanded-stiffness", 7, "--commanded-damping", 0.5) == 0
    out = capsys.readouterr().out
    assert "simulated gains  K 6.25, B 5" in out and "commanded gains  K 7, B 0.5" in out and "not yet at" in out
    policy, trained = load(file), load_trained(RunFolder.open(run))
    assert policy.config == trained.config and policy.steps == trained.steps == 256
    assert policy.curriculum == trained.curriculum
    observations = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    np.testing.assert_allclose(policy(observations), trained(observations), atol=1e-6)
    assert adc("play", file, "--out", tmp_path / "film.gif", "--seconds", 0.2) == 0
    assert adc("view", file, "--seconds", 0.2, "--port", free_port()) == 0
    assert adc("export", run) == 0  # into the run folder, commanded gains unknown
    assert "commanded gains  unknown" in capsys.readouterr().out
    assert load(run / "policy.onnx").metadata.commanded_stiffness is None
    assert largest_difference(ClippedPolicy(trained.module, 1.0), policy, observations) <= TOLERANCE


@pytest.mark.slow
def test_a_mirrored_rsl_rl_policy_of_spot_is_exported(tmp_path, capsys):
    run, file = tmp_path / "run", tmp_path / "policy.onnx"
    words = ["--steps", 256, "--num-envs", 4, "--out", run, "--eval-episodes", 0]
    assert adc("train", "spot-handstand", *words) == 0
    assert adc("export", run, "--out", file) == 0
    policy, trained = load(file), load_trained(RunFolder.open(run))
    said = policy.metadata
    assert len(said.joint_names) == 12 and said.observation_size == 45
    assert said.simulated_stiffness == (40.0,) * 12 and len(set(said.simulated_damping)) > 1
    assert said.observation_scale is not None and trained.config.ppo.scale_observations
    observations = np.random.default_rng(0).normal(size=(100, 45)).astype(np.float32)
    np.testing.assert_allclose(policy(observations), trained(observations), atol=1e-5)
    targets = policy.targets(np.zeros(12))
    np.testing.assert_allclose(targets, said.nominal_pose)


def test_commands_name_what_is_wrong(tmp_path, capsys):
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    (tmp_path / "model.zip").write_bytes(b"nothing")
    assert adc("play", tmp_path / "broken.onnx", "--out", tmp_path / "film.gif") == 1
    assert "cannot be read as one" in capsys.readouterr().err
    assert adc("view", tmp_path / "missing.onnx") == 1
    assert "cannot be read" in capsys.readouterr().err
    assert adc("play", tmp_path / "model.zip", "--out", tmp_path / "film.gif") == 1
    assert "expected a run folder, or a policy that ends in .onnx" in capsys.readouterr().err
    assert adc("export", tmp_path) == 1
    assert "not a run folder" in capsys.readouterr().err


def test_a_run_whose_gains_do_not_take_is_not_exported(tmp_path, monkeypatch):
    """The gains are read back after the policy has moved the joints, not taken from the config."""
    from adc_wrappers.policy import export as run_module

    class Pretender:
        module, config, steps, curriculum, made_for = network(), None, 0, {}, None

        def __call__(self, observation):
            self.env.unwrapped.actuator_backend.set_gains(*(np.full((8, 1), 47.0),) * 2)
            return np.zeros((8, 1), dtype=np.float32)

    trained = Pretender()
    trained.config = SimpleNamespace(
        task="cartpole", backend="analytic", settings={}, curriculum=CONFIG, ppo=PpoConfig()
    )
    make = run_module.make_vector_env

    def remember(*words, **options):
        trained.env = make(*words, **options)
        return trained.env

    monkeypatch.setattr(run_module, "make_vector_env", remember)
    monkeypatch.setattr(run_module, "load_trained", lambda folder, device: trained)
    with pytest.raises(ExportError, match=r"has stiffness 47, and the curriculum's target is 6\.25"):
        export_run(RunFolder(tmp_path / "run"), tmp_path / "p.onnx")
    assert not list(tmp_path.iterdir())


def test_policy_is_what_open_policy_promises():
    assert {"config", "steps", "curriculum", "made_for", "__call__"} <= set(dir(Policy))
