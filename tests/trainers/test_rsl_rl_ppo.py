"""Our PPO on a CPU beside RSL-RL's own: the same numbers, whatever the threads."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from rsl_rl.algorithms import PPO

from adc_wrappers import ActuatorCurriculumVectorWrapper, CurriculumConfig, CurriculumError, make_env
from adc_wrappers.rsl_rl import CurriculumRunner, RslRlVecEnv, runner_config
from adc_wrappers.rsl_rl.equivariant import EquivariantMLP
from adc_wrappers.rsl_rl.layers import QuickElu, QuickLinear, _dense, plain_layers, product, quicken
from adc_wrappers.rsl_rl.ppo import CpuPPO
from adc_wrappers.training import PpoConfig

PLAIN = PpoConfig(total_steps=1024, num_envs=8, n_steps=16, batch_size=32, n_epochs=3, hidden=(24, 16))
MIRRORED = replace(
    PLAIN, mirrored=True, sideways_std=0.2, min_std=0.05, output_gain=0.1, clip_value=False, scale_observations=True
)


def runner(ppo, algorithm=None):
    envs = make_env("spot-handstand", backend="mujoco", num_envs=ppo.num_envs, preset="cpu", time_limit=11)
    curriculum = CurriculumConfig(start_stiffness=60.0, target_stiffness=40.0, length_max=11)
    wrapped = ActuatorCurriculumVectorWrapper(envs, curriculum)
    env = RslRlVecEnv(wrapped, reward_scale=0.2, seed=0, privileged=ppo.privileged_value)
    config = runner_config(ppo, env)
    if algorithm is not None:
        config["algorithm"]["class_name"] = algorithm
    torch.manual_seed(1)
    return CurriculumRunner(env, config)


def rolled_out(ppo):
    """A runner after an iteration and a rollout, its update still to come; episodes have ended by the clock."""
    made = runner(ppo)
    made.learn(1)
    observation = made.env.get_observations()
    time_outs = 0
    with torch.inference_mode():
        for _ in range(ppo.n_steps):
            observation, reward, dones, extras = made.env.step(made.alg.act(observation))
            time_outs += int(extras["time_outs"].sum())
            made.alg.process_env_step(observation, reward, dones, extras)
        made.alg.compute_returns(observation)
    assert time_outs > 0
    return made.alg, observation


def weights(algorithm):
    parameters = (*algorithm.actor.parameters(), *algorithm.critic.parameters())
    return torch.cat([parameter.detach().flatten() for parameter in parameters])


def updated(algorithm, update):
    """The weights after an update that leaves the algorithm as it was, its losses, and its learning rate."""
    saved, rate = copy.deepcopy(algorithm.save()), algorithm.learning_rate
    torch.manual_seed(5)
    losses, after, ended_at = update(algorithm), weights(algorithm), algorithm.learning_rate
    algorithm.load(saved, None, True)
    algorithm.learning_rate = rate
    return after, losses, ended_at


EQUIVARIANT = replace(MIRRORED, equivariant=True)
PRIVILEGED = replace(EQUIVARIANT, privileged_value=True)


@pytest.mark.parametrize(
    "ppo", [PLAIN, EQUIVARIANT, PRIVILEGED, replace(MIRRORED, target_kl=1e-4), replace(PLAIN, target_kl=10.0)]
)
def test_an_update_is_that_of_rsl_rl(ppo):
    algorithm, _ = rolled_out(ppo)
    assert isinstance(algorithm, CpuPPO)
    before = weights(algorithm)
    mine, losses, rate = updated(algorithm, CpuPPO.update)
    theirs, their_losses, their_rate = updated(algorithm, PPO.update)
    assert rate == pytest.approx(their_rate)
    assert losses == pytest.approx(their_losses, rel=1e-4, abs=1e-5)
    moved = (theirs - before).norm()
    assert moved > 1e-3
    assert (mine - theirs).norm() < 0.02 * moved  # Adam makes large steps of gradients that are rounding


def test_two_threads_give_the_bits_of_one():
    algorithm, _ = rolled_out(MIRRORED)
    thread = algorithm._thread
    results = []
    for chosen in (None, thread):
        algorithm._thread = chosen
        results.append(updated(algorithm, CpuPPO.update))
    assert torch.equal(results[0][0], results[1][0])
    assert results[0][1:] == results[1][1:]


def test_a_rollout_is_kept_as_rsl_rl_keeps_it():
    """Values, log probabilities and bootstrapped rewards are what RSL-RL computes step by step."""
    algorithm, _ = rolled_out(MIRRORED)
    storage = algorithm.storage
    flat = storage.observations.flatten(0, 1)
    with torch.no_grad():
        assert torch.allclose(storage.values.flatten(0, 1), algorithm.critic(flat), atol=1e-6)
        algorithm.actor(flat, stochastic_output=True)
        log_probs = algorithm.actor.get_output_log_prob(storage.actions.flatten(0, 1))
    assert torch.allclose(storage.actions_log_prob.flatten(), log_probs, atol=1e-4)
    kept = storage.distribution_params
    for mine, theirs in zip(kept, algorithm.actor.output_distribution_params, strict=True):
        assert torch.allclose(mine.flatten(0, 1), theirs, atol=1e-6)


def test_what_it_cannot_do_is_left_to_rsl_rl():
    """Advantages normalized per minibatch, for one."""
    envs = make_env("cartpole", backend="analytic", num_envs=4)
    env = RslRlVecEnv(ActuatorCurriculumVectorWrapper(envs), seed=0)
    ppo = PpoConfig(total_steps=256, num_envs=4, n_steps=8, batch_size=16, n_epochs=1, hidden=(8,))
    config = runner_config(ppo, env)
    config["algorithm"]["normalize_advantage_per_mini_batch"] = True
    made = CurriculumRunner(env, config)
    assert not made.alg._own
    made.learn(2)
    assert made.curriculum_env.curriculum.iteration == 2


def test_a_checkpoint_of_rsl_rls_own_ppo_is_gone_on_with(tmp_path):
    first, second = runner(PLAIN, "PPO"), runner(PLAIN)
    first.learn(2)
    first.save(str(tmp_path / "model.pt"))
    second.load(str(tmp_path / "model.pt"))
    assert torch.equal(weights(first.alg), weights(second.alg))
    second.learn(1)
    assert np.isfinite(weights(second.alg).numpy()).all()


def test_the_quick_elu_is_the_elu():
    values = torch.linspace(-30.0, 30.0, 6001, dtype=torch.float32).requires_grad_()
    results = []
    for function in (QuickElu(), torch.nn.ELU()):
        values.grad = None
        result = function(values)
        result.square().sum().backward()
        results.append((result.detach(), values.grad.clone()))
    for mine, theirs in zip(*results, strict=True):
        assert torch.allclose(mine, theirs, atol=2e-7, rtol=1e-6)
    assert QuickElu()(torch.tensor([1e3, -1e3])).tolist() == [1e3, -1.0]


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 3, 2), (512, 45, 128), (1024, 128, 12), (7, 128, 1)])
def test_a_quick_layer_is_the_layer(rows, inputs, outputs):
    torch.manual_seed(0)
    plain, quick = torch.nn.Linear(inputs, outputs), QuickLinear(inputs, outputs)
    quick.load_state_dict(plain.state_dict())
    values, results = torch.randn(rows, inputs), []
    for layer in (plain, quick):
        given = values.clone().requires_grad_()
        result = layer(given)
        result.square().mean().backward()
        results.append((result.detach(), given.grad, layer.weight.grad, layer.bias.grad))
    for theirs, mine in zip(*results, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("turned", [False, True])
def test_products_see_no_gaps_in_a_part_of_a_matrix(turned):
    whole = torch.randn(64, 9)
    part = whole[:, 2:5].t() if turned else whole[:, 2:5]
    made = _dense(part)
    assert torch.equal(made, part) and (made.is_contiguous() or made.t().is_contiguous())
    other = torch.randn(7, part.shape[1])
    assert torch.allclose(product(part, other), part @ other.t(), atol=1e-5)
    assert torch.allclose(product(other, part), other @ part.t(), atol=1e-5)
    assert _dense(whole) is whole and _dense(whole.t()).data_ptr() == whole.data_ptr()


def test_a_quick_layer_takes_what_torch_s_takes():
    layer = QuickLinear(4, 3)
    assert layer(torch.randn(4)).shape == (3,) and layer(torch.randn(2, 5, 4)).shape == (2, 5, 3)
    assert layer(torch.empty(0, 4)).shape == (0, 3)
    assert layer.double()(torch.randn(2, 4, dtype=torch.float64)).dtype == torch.float64
    frozen = QuickLinear(4, 3).requires_grad_(False)
    given = torch.randn(2, 4, requires_grad=True)
    frozen(given).sum().backward()
    assert torch.allclose(given.grad, frozen.weight.sum(0).expand(2, 4)) and frozen.weight.grad is None


def test_quick_layers_keep_the_weights_they_replace_and_give_them_back():
    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ELU(), torch.nn.Linear(3, 1, bias=False))
    weights = list(network.parameters())
    generator = torch.get_rng_state()
    quicken(network)
    assert [type(layer) for layer in network] == [QuickLinear, QuickElu, QuickLinear]
    plain_layers(network)
    assert [type(layer) for layer in network] == [torch.nn.Linear, torch.nn.ELU, torch.nn.Linear]
    assert all(new is old for new, old in zip(network.parameters(), weights, strict=True))
    assert torch.equal(torch.get_rng_state(), generator)


def test_an_equivariant_network_is_symmetric_to_the_last_bit_and_exports_as_a_plain_one():
    mirror = make_env("spot-handstand", backend="mujoco", num_envs=1).task.mirror
    columns, symmetric = mirror.action_basis()
    sign = [1.0] * symmetric + [-1.0] * (len(columns) - symmetric)
    for outputs in (sign, [1.0], [-1.0]):
        net = EquivariantMLP(mirror.observation_index, mirror.observation_sign, (24, 16), outputs)
        observation = torch.randn(50, len(mirror.observation_index))
        reflected = torch.tensor(mirror.observations(observation), dtype=torch.float32)
        assert torch.equal(net(reflected), net(observation) * torch.tensor(outputs))
        assert torch.allclose(net.dense()(observation), net(observation), atol=1e-6)


@pytest.mark.parametrize("outputs", [[1.0, 1.0, -1.0], [1.0], [-1.0, -1.0]])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4, 8)])
def test_the_gradients_of_an_equivariant_network_are_those_of_finite_differences(outputs, hidden):
    torch.manual_seed(0)
    net = EquivariantMLP((1, 0, 2, 3), (1.0, 1.0, -1.0, 1.0), hidden, outputs).double()
    inputs = net.inputs(torch.randn(5, 4, dtype=torch.float64))
    parameters = list(net.parameters())

    def loss(*values):
        with torch.no_grad():
            for parameter, value in zip(parameters, values, strict=True):
                parameter.copy_(value)
        return net.outputs(inputs, 5).square().sum()

    start = [parameter.detach().clone() for parameter in parameters]
    loss(*start).backward()
    for number, parameter in enumerate(parameters):
        for place in range(parameter.numel()):
            moved = [[value.clone() for value in start] for _ in range(2)]
            for values, step in zip(moved, (1e-6, -1e-6), strict=True):
                values[number].view(-1)[place] += step
            slope = (loss(*moved[0]) - loss(*moved[1])).item() / 2e-6
            assert parameter.grad.view(-1)[place].item() == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_an_exported_equivariant_policy_is_the_trained_one():
    made = runner(EQUIVARIANT)
    made.learn(1)
    policy, observation = made.alg.get_policy(), made.env.get_observations()
    exported = policy.as_onnx(verbose=False)
    assert not any(isinstance(module, (QuickElu, QuickLinear, EquivariantMLP)) for module in exported.modules())
    with torch.no_grad():
        assert torch.allclose(exported(observation["policy"]), policy(observation), atol=1e-6)


def test_equivariant_networks_refuse_what_they_cannot_be():
    with pytest.raises(CurriculumError, match=r"needs ppo\.mirrored"):
        runner(replace(PLAIN, equivariant=True))
    with pytest.raises(ValueError, match="pairs"):
        EquivariantMLP((1, 0), (1.0, 1.0), (3,), (1.0,))
    with pytest.raises(ValueError, match="do not change first"):
        EquivariantMLP((1, 0), (1.0, 1.0), (4,), (-1.0, 1.0))
    with pytest.raises(ValueError, match="some that do not"):
        EquivariantMLP((0,), (-1.0,), (4,), (-1.0,))
