"""RSL-RL: the env adapter, the runner that closes iterations, checkpoints, ranks, mirrored networks, runs."""

from __future__ import annotations

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from helpers import FakeBackend, TorchBatchEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from isaac_stubs import fake_spots
from rank_helpers import ranks, run_ranks
from rsl_rl.algorithms import PPO
from rsl_rl.runners import OnPolicyRunner
from rsl_rl_helpers import FAST, LENGTHS, TINY, Lab, Watched, scripted
from spot_helpers import make_state
from view_helpers import free_port as unused_port

from adc_wrappers import (
    ActuatorCurriculum,
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    BackendError,
    CurriculumConfig,
    CurriculumError,
    make_env,
)
from adc_wrappers.backends.base import RobotState
from adc_wrappers.core.episode_totals import EpisodeTotals
from adc_wrappers.envs.mirror import Mirror
from adc_wrappers.rsl_rl import CurriculumRunner, RslRlVecEnv, paper_runner_config, runner_config
from adc_wrappers.rsl_rl.models import MirrorGaussian, TaskMLP
from adc_wrappers.runs import RunFolder
from adc_wrappers.training import PpoConfig, default_config, find_trainer, load_trained


def tiny_runner(env, log_dir=None, ppo=TINY):
    return CurriculumRunner(env, runner_config(ppo, env), log_dir)


# --- the env ---------------------------------------------------------------------------------------------------------


def test_the_adapter_hands_over_what_the_vector_env_says():
    env = RslRlVecEnv(scripted(), max_episode_length=20, reward_scale=0.5)
    observation = env.get_observations()["policy"]
    assert (env.num_envs, env.num_actions, tuple(observation.shape)) == (4, 2, (4, 3))
    lengths = {i: [] for i in range(4)}
    time_outs = {i: [] for i in range(4)}
    clock = np.zeros(4, dtype=int)
    for _ in range(40):
        observation, reward, dones, extras = env.step(torch.zeros(4, 2))
        clock += 1
        assert torch.equal(reward, torch.full((4,), 0.5))
        assert extras["log"]["adc/stiffness"] == 60.0
        for i in np.flatnonzero(dones.numpy()):
            lengths[i].append(clock[i])
            time_outs[i].append(bool(extras["time_outs"][i]))
            clock[i] = 0
        assert torch.equal(env.episode_length_buf, torch.as_tensor(clock))
    for i, row in enumerate(LENGTHS):
        assert lengths[i] == [row[k % 2] for k in range(len(lengths[i]))]
        assert time_outs[i] == [k % 2 == 1 for k in range(len(lengths[i]))]  # every other one is truncated
    assert list(env.recent_returns)[:2] == [3.0, 5.0]  # without the factor


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_other_autoreset_modes_are_refused(mode):
    with pytest.raises(BackendError, match="SAME_STEP"):
        RslRlVecEnv(scripted(mode=mode), max_episode_length=20)


def test_refusals_say_what_to_do():
    with pytest.raises(BackendError, match="max_episode_length"):
        RslRlVecEnv(scripted())
    env = RslRlVecEnv(scripted(), max_episode_length=20)
    with pytest.raises(BackendError, match="init_at_random_ep_len=False"):
        tiny_runner(env).learn(1, init_at_random_ep_len=True)
    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP}
    discrete = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync", vector_kwargs=same_step)
    with pytest.raises(BackendError, match="action space"):
        RslRlVecEnv(discrete)
    plain = make_env("cartpole", backend="analytic", num_envs=2)
    with pytest.raises(CurriculumError, match="ActuatorCurriculumWrapper"):
        tiny_runner(RslRlVecEnv(plain))


def test_two_closers_of_one_iteration_are_refused():
    with pytest.raises(CurriculumError, match="would close them too"):
        tiny_runner(RslRlVecEnv(scripted(iteration_steps=8), max_episode_length=20))


def test_what_the_task_has_eased_to_is_in_the_checkpoint(tmp_path):
    def make():
        envs = make_env("spot-handstand", backend="mujoco", num_envs=2, preset="cpu")
        return tiny_runner(RslRlVecEnv(ActuatorCurriculumVectorWrapper(envs)), ppo=TINY)

    first, second = make(), make()
    first.env.unwrapped.task.load_state_dict({"stance_share": 0.25})
    first.save(str(tmp_path / "model.pt"))
    second.load(str(tmp_path / "model.pt"))
    assert second.env.unwrapped.task.state_dict() == {"stance_share": 0.25}


def test_any_registered_gymnasium_env_trains():
    kwargs = {"autoreset_mode": AutoresetMode.SAME_STEP}
    envs = gym.make_vec("Pendulum-v1", num_envs=4, vectorization_mode="sync", vector_kwargs=kwargs)
    wrapped = ActuatorCurriculumVectorWrapper(envs, FAST, backend=FakeBackend(4))
    env = RslRlVecEnv(wrapped, seed=0)
    assert env.max_episode_length == 200
    tiny_runner(env).learn(2)
    assert wrapped.curriculum.iteration == 2


# --- the runner ------------------------------------------------------------------------------------------------------


def episodes_by_hand(rows, steps, iterations):
    """Totals of every iteration of scripted envs, counted apart from the library."""
    clock, episode = np.zeros(len(rows), dtype=int), np.zeros(len(rows), dtype=int)
    for _ in range(iterations):
        totals = EpisodeTotals()
        for _ in range(steps):
            clock += 1
            for i, row in enumerate(rows):
                if clock[i] == row[episode[i] % len(row)]:
                    totals += EpisodeTotals.from_lengths([clock[i]], [episode[i] % 3 == 0])
                    clock[i], episode[i] = 0, episode[i] + 1
        yield totals


def test_an_iteration_is_closed_once_per_update_by_the_episodes_completed_in_it():
    env = RslRlVecEnv(scripted(), max_episode_length=20)
    runner = Watched(env, runner_config(TINY, env))
    runner.learn(6)
    curriculum = ActuatorCurriculum(FAST, ["j0", "j1"])
    expected = [curriculum.update(totals)[0] for totals in episodes_by_hand(LENGTHS, TINY.n_steps, 6)]
    assert runner.stiffness == pytest.approx(expected)
    assert len(set(expected)) > 3
    live = runner.curriculum_env.adc.backend.gains().stiffness
    assert np.allclose(live, expected[-1])


def test_isaac_style_torch_batches_train_too():
    runner = Watched(Lab(ActuatorCurriculumWrapper(TorchBatchEnv(LENGTHS), FAST)), runner_config(TINY))
    runner.learn(6)
    curriculum = ActuatorCurriculum(FAST, ["j0", "j1"])
    expected = [curriculum.update(totals)[0] for totals in episodes_by_hand(LENGTHS, TINY.n_steps, 6)]
    assert runner.stiffness == pytest.approx(expected)


def test_the_checkpoint_holds_what_the_task_of_an_isaac_lab_env_has_learned(tmp_path):
    """The file was without it, and a resumed run charged a fall as in the beginning."""

    def runner():
        spots = fake_spots(RobotState(*map(torch.Tensor, make_state(4))), preset="cpu")
        env = Lab(ActuatorCurriculumWrapper(spots, FAST, backend=FakeBackend(4, 12)))
        return CurriculumRunner(env, runner_config(TINY), str(tmp_path / "log"))

    first, second = runner(), runner()
    first.env.unwrapped.task.load_state_dict({"stance_share": 0.25})
    first.learn(1)
    state = first.env.unwrapped.task.state_dict()
    assert 0.2 < state["stance_share"] < 0.25  # nobody is in the stance
    first.save(str(tmp_path / "model.pt"))
    second.load(str(tmp_path / "model.pt"))
    assert second.env.unwrapped.task.state_dict() == state


def test_the_checkpoint_holds_the_curriculum_and_old_ones_still_load(tmp_path):
    env = RslRlVecEnv(scripted(), max_episode_length=20)
    runner = tiny_runner(env, str(tmp_path / "log"))
    runner.learn(4)
    state, stiffness = runner.curriculum_env.state_dict(), runner.curriculum_env.adc.report["stiffness"]
    assert 40.0 < stiffness < 60.0
    runner.save(str(tmp_path / "new.pt"), {"mine": 1})

    other = tiny_runner(RslRlVecEnv(scripted(), max_episode_length=20))
    assert other.load(str(tmp_path / "new.pt"))["mine"] == 1
    assert other.curriculum_env.state_dict() == state
    assert np.allclose(other.curriculum_env.adc.backend.gains().stiffness, stiffness)
    for name, value in runner.alg.save()["actor_state_dict"].items():
        assert torch.equal(value, other.alg.save()["actor_state_dict"][name])

    OnPolicyRunner.save(runner, str(tmp_path / "old.pt"))
    fresh = tiny_runner(RslRlVecEnv(scripted(), max_episode_length=20))
    with pytest.warns(UserWarning, match="no curriculum in it: going on at K = 60"):
        fresh.load(str(tmp_path / "old.pt"))
    assert fresh.curriculum_env.curriculum.iteration == 0


def test_tensorboard_gets_every_curriculum_number(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    env = RslRlVecEnv(scripted(), max_episode_length=20)
    tiny_runner(env, str(tmp_path)).learn(3)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {"adc/stiffness", "adc/progress", "adc/episode_length_ema", "adc/damping_mean"} <= tags
    assert len(events.Scalars("adc/stiffness")) == 3


def test_the_papers_tables():
    config = paper_runner_config()
    algorithm = config["algorithm"]
    assert config["num_steps_per_env"] == 24
    assert config["actor"]["hidden_dims"] == config["critic"]["hidden_dims"] == [512, 256, 128]
    assert config["actor"]["distribution_cfg"]["init_std"] == 1.0
    expected = {
        "num_learning_epochs": 5, "num_mini_batches": 4, "gamma": 0.99, "lam": 0.95, "learning_rate": 1e-3,
        "schedule": "adaptive", "desired_kl": 0.01, "clip_param": 0.2, "use_clipped_value_loss": True,
        "entropy_coef": 0.0025, "value_loss_coef": 0.5, "max_grad_norm": 1.0,
    }  # fmt: skip
    assert {name: algorithm[name] for name in expected} == expected
    paper = default_config("spot-handstand", "mujoco", recipe="paper")
    assert (paper.trainer, paper.ppo.num_envs, paper.iterations) == ("rsl_rl", 4096, 10_000)


# --- ranks -----------------------------------------------------------------------------------------------------------

RANK = """
import json, sys
import torch
from rsl_rl_helpers import LENGTHS, TINY, Watched, scripted
from adc_wrappers.rsl_rl import RslRlVecEnv, runner_config
import os
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rows = LENGTHS[rank * len(LENGTHS) // world : (rank + 1) * len(LENGTHS) // world]

def make():
    env = RslRlVecEnv(scripted(rows), max_episode_length=20)
    return Watched(env, runner_config(TINY, env))

def train(mode, folder):
    torch.manual_seed(rank)
    runner = make()
    if mode == "resumed":
        runner.learn(3)
        runner.save(f"{folder}/rank{rank}.pt")
        torch.distributed.barrier()  # all load what the first has written
        before, runner = runner, make()
        runner.load(f"{folder}/rank0.pt", map_location="cpu")
        assert runner.curriculum_env.adc.report["stiffness"] == before.stiffness[-1]
        runner.learn(3)
    elif mode == "broken":
        runner.learn(2)
        if rank == 1:
            backend = runner.curriculum_env.adc.backend
            gains = backend.gains()
            backend.set_gains(1.1 * gains.stiffness, gains.damping)
        runner.learn(2)
    else:
        runner.learn(6)
    weights = sum(float(value.double().sum()) for value in runner.alg.save()["actor_state_dict"].values())
    return runner.stiffness, weights

print(json.dumps({mode: train(mode, sys.argv[1]) for mode in sys.argv[2:]}))
"""


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """What both of two ranks found, by mode: stiffness after every iteration, and a sum of the policy's weights.

    A process takes seconds to begin and a moment to train, so the same two do one run after the other.
    """
    return ranks(RANK, 2, unused_port(), tmp_path_factory.mktemp("ranks"), "plain", "resumed")


@pytest.mark.slow
def test_two_ranks_have_the_stiffness_of_one_after_every_iteration(two_ranks, free_port):
    (alone,) = ranks(RANK, 1, free_port, "", "plain")
    (first, first_weights), (second, second_weights) = (found["plain"] for found in two_ranks)
    assert first == second == alone["plain"][0]
    assert len(set(first)) > 3
    assert first_weights == second_weights  # and one policy


@pytest.mark.slow
def test_two_ranks_have_one_stiffness_after_a_resume(two_ranks):
    (first, first_weights), (second, second_weights) = (found["resumed"] for found in two_ranks)
    assert first == second
    assert first_weights == second_weights


@pytest.mark.slow
def test_a_rank_whose_gains_are_wrong_stops_the_others_too(free_port):
    """And does not leave them waiting for its episodes."""
    (_, _, other), (_, _, own) = results = run_ranks(RANK, 2, free_port, "", "broken")
    assert all(code != 0 for code, *_ in results)
    assert "were changed behind the curriculum" in own
    assert "the gains of 1 other rank(s) are not what was written" in other


# --- mirrored networks -----------------------------------------------------------------------------------------------


@st.composite
def mirrors(draw):
    pairs = draw(st.integers(1, 3))
    alone = draw(st.lists(st.sampled_from([1.0, -1.0]), max_size=2))
    index, sign = [], []
    for _ in range(pairs):
        index += [len(index) + 1, len(index)]
        sign += [draw(st.sampled_from([1.0, -1.0]))] * 2
    for value in alone:
        index.append(len(index))
        sign.append(value)
    return Mirror.of_parts([((0,), (-1.0,)), (index, sign)], action=1)


@given(mirrors(), st.integers(0, 10))
@settings(max_examples=30, deadline=None)
def test_a_mirrored_policy_does_the_mirrored_thing_in_the_mirrored_state(mirror, seed):
    torch.manual_seed(seed)
    columns, symmetric = mirror.action_basis()
    count = len(mirror.action_index)
    assert np.linalg.matrix_rank(columns) == count
    for k in range(count):  # T's columns do not change in the mirror, or change their sign
        assert np.array_equal(mirror.actions(columns[:, k]), columns[:, k] * (1 if k < symmetric else -1))
    sign = [1.0] * symmetric + [-1.0] * (count - symmetric)
    size = len(mirror.observation_index)
    net = TaskMLP(torch.nn.Linear(size, count), None, mirror.observation_index, mirror.observation_sign, sign)
    gaussian = MirrorGaussian(count, basis=columns.tolist(), symmetric=symmetric, sideways_std=0.1, init_std=0.5)
    observation = torch.randn(5, size)
    action = gaussian.deterministic_output(net(observation)).detach().numpy()
    reflected = gaussian.deterministic_output(net(torch.tensor(mirror.observations(observation), dtype=torch.float32)))
    assert np.allclose(reflected.detach().numpy(), mirror.actions(action), atol=1e-5)
    assert np.allclose(gaussian.as_deterministic_output_module()(net(observation)).detach().numpy(), action, atol=1e-6)


def test_the_log_probability_of_a_mirrored_gaussian_is_that_of_its_actions():
    mirror = Mirror.of_parts([((1, 0, 2), (1.0, 1.0, -1.0))], action=0)
    columns, symmetric = mirror.action_basis()
    gaussian = MirrorGaussian(3, basis=columns.tolist(), symmetric=symmetric, sideways_std=0.2, init_std=0.6)
    mean = torch.tensor([[0.3, -0.2, 0.1]])
    gaussian.update(mean)
    basis = torch.tensor(columns, dtype=torch.float32)
    covariance = basis @ torch.diag(torch.tensor([0.6, 0.2, 0.2]) ** 2) @ basis.T
    reference = torch.distributions.MultivariateNormal((basis @ mean[0])[None], covariance)
    actions = gaussian.sample() + torch.zeros(7, 3)
    difference = gaussian.log_prob(actions + torch.randn(7, 3)) - gaussian.log_prob(actions)
    torch.manual_seed(0)
    noise = torch.randn(7, 3)
    mine = gaussian.log_prob(actions + noise) - gaussian.log_prob(actions)
    theirs = reference.log_prob(actions + noise) - reference.log_prob(actions)
    assert torch.allclose(mine, theirs, atol=1e-3)
    assert torch.isfinite(difference).all()


@pytest.mark.parametrize(
    ("index", "sign"), [((1, 2, 0), (1.0, 1.0, 1.0)), ((1, 0), (1.0, -1.0)), ((0, 0), (1.0, 1.0)), ((0,), (2.0,))]
)
def test_what_is_no_reflection_is_refused(index, sign):
    with pytest.raises(ValueError, match="its own inverse"):
        Mirror.of_parts([(index, sign)], action=0)


def test_mirrored_starts_and_actions_give_mirrored_observations_in_mujoco():
    envs = make_env("spot-handstand", num_envs=2, randomize=False)
    task, backend = envs.unwrapped.task, envs.unwrapped.task.backend
    mirror = task.mirror
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    from adc_wrappers.backends.base import RobotStart
    from adc_wrappers.envs.spot.body import spot_mirror

    joints = backend.nominal_pose + rng.uniform(-0.2, 0.2, 12)
    turned = spot_mirror(backend.joint_names).actions(joints)
    quaternion = np.array([0.99, 0.05, 0.1, 0.03]) / np.linalg.norm([0.99, 0.05, 0.1, 0.03])
    reflected = quaternion * [1, -1, 1, -1]
    linear, angular = rng.uniform(-0.5, 0.5, 3), rng.uniform(-0.5, 0.5, 3)
    backend.reset(
        RobotStart(
            np.tile([0.0, 0.0, 0.6], (2, 1)), np.stack([quaternion, reflected]),
            np.stack([linear, linear * [1, -1, 1]]), np.stack([angular, angular * [-1, 1, -1]]),
            np.stack([joints, turned]), np.zeros((2, 12)),
        )
    )  # fmt: skip
    for _ in range(15):
        action = rng.uniform(-0.3, 0.3, 12)
        task.advance(np.stack([action, mirror.actions(action)]).astype(np.float32))
        one, two = task.observe()
        assert np.allclose(two, mirror.observations(one), atol=2e-3)
    assert backend.state().contact_forces.max() > 10.0  # it came down on its feet


def test_settings_that_need_a_symmetric_task_are_refused_elsewhere():
    env = RslRlVecEnv(scripted(), max_episode_length=20)
    for change in ({"mirrored": True}, {"scale_observations": True}):
        with pytest.raises(CurriculumError, match=next(iter(change))):
            runner_config(PpoConfig(**change), env)
    with pytest.raises(CurriculumError, match="sideways"):
        runner_config(PpoConfig(sideways_std=0.1), env)


# --- runs ------------------------------------------------------------------------------------------------------------


class Quiet:
    def __init__(self):
        self.steps = []

    def update(self, steps, row):
        self.steps.append(steps)


def spot_config(**changes):
    base = default_config("spot-handstand", "mujoco", {"time_limit": 30}, recipe="paper")
    ppo = PpoConfig(
        total_steps=4 * 64, num_envs=8, n_steps=8, batch_size=32, n_epochs=1, hidden=(16,), mirrored=True,
        scale_observations=True, target_kl=0.04, final_target_kl=0.01, final_entropy_coef=0.0, sideways_std=0.2,
        initial_std=0.4, output_gain=0.01, reward_scale=0.5,
    )  # fmt: skip
    from dataclasses import replace

    return replace(base, ppo=ppo, curriculum=CurriculumConfig(length_max=25, ema=0.5), checkpoint_every=1, **changes)


def test_a_run_resumes_where_its_newest_whole_checkpoint_is(tmp_path):
    from dataclasses import replace

    config, reporter = spot_config(), Quiet()
    folder = RunFolder.create(tmp_path / "run", config.to_dict())
    train = find_trainer("rsl_rl").train
    runner = train(config, folder, resume=False, reporter=reporter)
    assert reporter.steps == [64, 128, 192, 256]
    assert (runner.alg.desired_kl, runner.alg.entropy_coef) == pytest.approx((0.01, 0.0))
    state = folder.checkpoints.load_latest().json("state.json")
    assert state["curriculum"]["iteration"] == 4
    folder.checkpoints.paths()[-1].write_bytes(b"cut off")  # as if the machine had died while writing

    longer = replace(config, ppo=replace(config.ppo, total_steps=6 * 64))
    folder.write_json("config.json", longer.to_dict())
    with pytest.warns(UserWarning, match="not a whole checkpoint"):
        runner = train(longer, folder, resume=True, reporter=reporter)
    assert runner.alg.desired_kl == pytest.approx(0.01)
    assert reporter.steps[4:] == [256, 320, 384]
    rows = folder.metrics.read()
    assert rows["iteration"] == [1, 2, 3, 4, 5, 6]
    assert rows["stiffness"][-1] < 60.0

    policy = load_trained(folder)
    assert policy.steps == 384
    observation = np.random.default_rng(0).normal(size=(5, 45)).astype(np.float32)
    action = policy(observation)
    assert action.shape == (5, 12) and np.abs(action).max() <= 1.0
    mirror = make_env("spot-handstand").task.mirror
    assert np.allclose(policy(mirror.observations(observation)), mirror.actions(action), atol=1e-5)


def test_equal_seeds_give_equal_runs(tmp_path):
    weights = []
    for name in ("a", "b"):
        config = spot_config()
        folder = RunFolder.create(tmp_path / name, config.to_dict())
        runner = find_trainer("rsl_rl").train(config, folder, resume=False, reporter=Quiet())
        weights.append(torch.cat([value.flatten() for value in runner.alg.save()["actor_state_dict"].values()]))
    assert torch.equal(*weights)


def test_rsl_rl_s_own_export_is_the_same_policy(tmp_path):
    config = spot_config()
    env = find_trainer("rsl_rl").make_training_env(config)
    runner = CurriculumRunner(env, runner_config(config.ppo, env))
    assert isinstance(runner.alg, PPO)
    runner.export_policy_to_jit(str(tmp_path))
    scripted_policy = torch.jit.load(str(tmp_path / "policy.pt"))
    observation = env.get_observations()
    with torch.inference_mode():
        assert torch.allclose(scripted_policy(observation["policy"]), runner.alg.get_policy()(observation), atol=1e-6)
    env.close()


def test_weights_and_biases_waits_until_rsl_rl_logs_to_it():
    code = """
import sys
import adc_wrappers.rsl_rl.training
assert "wandb" not in sys.modules
from rsl_rl.utils import wandb_log_writer
import wandb
assert wandb_log_writer.wandb.__version__ == wandb.__version__
"""
    subprocess.run([sys.executable, "-c", code], check=True)
