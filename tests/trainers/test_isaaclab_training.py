"""Training the handstand in Isaac Lab itself, on a CPU: RSL-RL end to end, checkpoint, resume; SB3's wrapper."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np
import pytest

pytest.importorskip("isaaclab", reason="needs Isaac Lab 3: make test-isaac")
pytestmark = [pytest.mark.isaac]

import torch  # noqa: E402
from host_reads import HostReads, Outside  # noqa: E402
from isaac_helpers import close  # noqa: E402
from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper  # noqa: E402
from isaaclab_rl.sb3 import Sb3VecEnvWrapper  # noqa: E402

from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig, make_env  # noqa: E402
from adc_wrappers.core.actuators import to_numpy  # noqa: E402
from adc_wrappers.rsl_rl import CurriculumRunner  # noqa: E402
from adc_wrappers.rsl_rl.config import paper_config  # noqa: E402

ENGINE = "physx" if importlib.util.find_spec("ovphysx") else "newton"
"""The faster of the two on a CPU."""
ENVS = 8
CONFIG = CurriculumConfig(length_max=60.0, ema=0.5)


@pytest.fixture(scope="module")
def handstand():
    env = make_env(
        "spot-handstand", backend="isaaclab", num_envs=ENVS, device="cpu", engine=ENGINE, source="generated", seed=0
    )
    yield env
    close(env)


def runner_on(env, folder):
    config = paper_config(ENVS, hidden=(32,))
    return CurriculumRunner(RslRlVecEnvWrapper(env), config, str(folder), device="cpu")


@pytest.mark.slow
def test_training_moves_the_curriculum_and_resumes_where_it_was(handstand, tmp_path):
    """Random episode lengths at the start, the paper's randomization; three iterations, then two more by another."""
    env = ActuatorCurriculumWrapper(handstand, CONFIG)
    runner = runner_on(env, tmp_path)
    runner.learn(3, init_at_random_ep_len=True)
    state = env.state_dict()
    assert env.curriculum.iteration == 3
    assert 40.0 < env.adc.report["stiffness"] < 60.0
    assert 0.0 < env.curriculum.length_ema <= 3 * 24  # and not some hundred, as the env's own clocks say
    runner.save(str(tmp_path / "model_3.pt"))

    again = ActuatorCurriculumWrapper(handstand, CONFIG)
    assert again.adc.report["stiffness"] == 60.0
    resumed = runner_on(again, tmp_path / "resumed")
    resumed.load(str(tmp_path / "model_3.pt"))
    assert again.state_dict() == state
    live = to_numpy(again.adc.backend.gains().stiffness)
    np.testing.assert_allclose(live, env.adc.report["stiffness"], rtol=1e-5)
    for one, other in zip(
        runner.alg.get_policy().state_dict().values(), resumed.alg.get_policy().state_dict().values(), strict=True
    ):
        assert torch.equal(one, other)
    resumed.learn(2)
    assert again.curriculum.iteration == 5
    with again.evaluation():
        np.testing.assert_allclose(to_numpy(again.adc.backend.gains().stiffness), 40.0, rtol=1e-6)


def test_log_keys_are_there_on_every_step_and_nothing_is_read_from_the_device(handstand):
    reads = HostReads()
    env = ActuatorCurriculumWrapper(Outside(handstand, reads), CONFIG, iteration_steps=8)
    env.reset()
    action = torch.rand(ENVS, 12) * 2 - 1
    keys, per_step = [], []
    with torch.inference_mode(), reads:
        for _ in range(16):
            before = reads.total
            *_, extras = env.step(action)
            per_step.append(reads.total - before)
            keys.append(frozenset(key for key in extras["log"] if key.startswith("adc/")))
    assert len(set(keys)) == 1 and "adc/stiffness" in keys[0]
    assert [count for step, count in enumerate(per_step) if step % 8 != 7] == [0] * 14, reads.counts
    assert per_step[7::8] == [1, 1], reads.counts


def test_stable_baselines_wrapper(handstand):
    env = ActuatorCurriculumWrapper(handstand, CONFIG, iteration_steps=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        venv = Sb3VecEnvWrapper(env)
    observation = venv.reset()
    assert observation.shape == (ENVS, 45)
    for _ in range(8):
        observation, reward, done, infos = venv.step(np.zeros((ENVS, 12), np.float32))
    assert np.isfinite(observation).all() and reward.shape == done.shape == (ENVS,)
    assert len(infos) == ENVS
    assert env.curriculum.iteration == 2


def test_the_paper_randomization_reaches_the_physics(handstand):
    from adc_wrappers.backends.isaaclab.groups import as_tensor

    robot = handstand.unwrapped.scene["robot"]
    body = robot.body_names.index("body")
    masses = as_tensor(robot.data.body_mass)[:, body]
    assert masses.std() > 0.3
    assert ((masses > 16.70 - 2.51) & (masses < 16.71 + 2.51)).all()
    handstand.reset()
    state = handstand.unwrapped.state()
    assert state.joint_positions.std(dim=0).min() > 0.01
    assert state.base_linear_velocity.abs().max() > 0.2
    assert {"startup", "interval"} <= set(handstand.unwrapped.event_manager.active_terms)
