"""PPO in one file, with the curriculum around the envs: read it from top to bottom and change what you like.

Nothing here knows about the curriculum but three lines: the envs are wrapped, ``end_iteration()`` is called after every
update, and the evaluation at the end pins the target stiffness. Any task of ``adc envs`` trains:

    python examples/cleanrl_style.py
    python examples/cleanrl_style.py --task spot-handstand --num-envs 256 --num-steps 24 --total-steps 5000000
"""

import itertools
import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from torch import nn
from torch.distributions import Normal

from adc_wrappers import ActuatorCurriculumVectorWrapper, make_env


@dataclass
class Args:
    """Options; the defaults are for the cart-pole."""

    task: str = "cartpole"
    """Name of the task."""
    backend: str | None = None
    """Engine; by default the closed form for a cart-pole, and a robot's first."""
    total_steps: int = 300_000
    """Env steps in all."""
    num_envs: int = 16
    """Envs that are stepped together."""
    num_steps: int = 128
    """Policy steps per env in one iteration."""
    minibatches: int = 4
    """Minibatches in an epoch."""
    epochs: int = 10
    """Passes over an iteration's samples."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of both networks."""
    learning_rate: float = 1e-3
    """Where the learning rate begins; it falls linearly to 0."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """λ of the advantage estimate."""
    clip: float = 0.2
    """Ratio clip."""
    entropy_coef: float = 0.0
    """Weight of the entropy."""
    value_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Gradient norm clip."""
    initial_std: float = 1.0
    """Standard deviation of the policy at the start."""
    eval_episodes: int = 50
    """Episodes at the target stiffness after training."""
    export: Path | None = None
    """Write the policy to this .onnx file."""
    seed: int = 0
    """Seed of everything."""


def mlp(sizes: list[int], last_gain: float) -> nn.Sequential:
    """Return linear layers with ELU between them, orthogonal at the start."""
    layers: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        linear = nn.Linear(inputs, outputs)
        nn.init.orthogonal_(linear.weight, 2**0.5 if i < len(sizes) - 2 else last_gain)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ELU()]
    return nn.Sequential(*layers[:-1])


class Agent(nn.Module):
    """A Gaussian policy whose deviation does not depend on the state, and a value network."""

    def __init__(self, observations: int, actions: int, hidden: tuple[int, ...], initial_std: float) -> None:
        super().__init__()
        self.mean = mlp([observations, *hidden, actions], 0.01)
        self.value = mlp([observations, *hidden, 1], 1.0)
        self.log_std = nn.Parameter(torch.full((actions,), float(np.log(initial_std))))

    def distribution(self, observation: torch.Tensor) -> Normal:
        mean = self.mean(observation)
        return Normal(mean, self.log_std.exp().expand_as(mean))


@dataclass
class Rollout:
    """One iteration's samples, each of shape ``(steps, envs, …)``."""

    observation: torch.Tensor
    action: torch.Tensor
    log_prob: torch.Tensor
    reward: torch.Tensor
    done: torch.Tensor
    value: torch.Tensor

    @classmethod
    def empty(cls, args: Args, observations: int, actions: int) -> "Rollout":
        shape = (args.num_steps, args.num_envs)
        return cls(torch.zeros(*shape, observations), torch.zeros(*shape, actions), *torch.zeros(4, *shape))


@torch.no_grad()
def collect(agent: Agent, envs: ActuatorCurriculumVectorWrapper, rollout: Rollout, start: np.ndarray, gamma: float):
    """Fill the rollout and return the observation after it."""
    observation = torch.as_tensor(start)
    for t in range(len(rollout.reward)):
        distribution = agent.distribution(observation)
        action = distribution.sample()
        rollout.observation[t], rollout.action[t] = observation, action
        rollout.log_prob[t] = distribution.log_prob(action).sum(-1)
        rollout.value[t] = agent.value(observation).squeeze(-1)
        array, reward, terminated, truncated, infos = envs.step(action.numpy())
        reward = torch.as_tensor(reward, dtype=torch.float32)
        cut = np.flatnonzero(truncated & ~terminated)  # the time limit is no fault: add what was still to come
        if len(cut):  # finished envs are reset in the same step, so their last observation is in the infos
            last = torch.as_tensor(np.stack(infos["final_obs"][cut]))
            reward[cut] += gamma * agent.value(last).squeeze(-1)
        rollout.reward[t], rollout.done[t] = reward, torch.as_tensor(terminated | truncated).float()
        observation = torch.as_tensor(array)
    return observation.numpy()


@torch.no_grad()
def advantages(agent: Agent, rollout: Rollout, after: np.ndarray, args: Args) -> torch.Tensor:
    """Return the generalized advantage estimate."""
    result, advantage = torch.zeros_like(rollout.reward), torch.zeros(args.num_envs)
    next_value = agent.value(torch.as_tensor(after)).squeeze(-1)
    for t in reversed(range(args.num_steps)):
        alive = 1.0 - rollout.done[t]
        delta = rollout.reward[t] + args.gamma * alive * next_value - rollout.value[t]
        advantage = delta + args.gamma * args.gae_lambda * alive * advantage
        result[t], next_value = advantage, rollout.value[t]
    return result


def update(agent: Agent, optimizer: torch.optim.Optimizer, rollout: Rollout, advantage: torch.Tensor, args: Args):
    """Do the epochs of one iteration and return the last KL estimate."""
    observation, action = rollout.observation.flatten(0, 1), rollout.action.flatten(0, 1)
    log_prob, target = rollout.log_prob.flatten(), (advantage + rollout.value).flatten()
    advantage = advantage.flatten()
    kl = 0.0
    for _ in range(args.epochs):
        for batch in torch.randperm(len(log_prob)).chunk(args.minibatches):
            distribution = agent.distribution(observation[batch])
            log_ratio = distribution.log_prob(action[batch]).sum(-1) - log_prob[batch]
            ratio = log_ratio.exp()
            gain = (advantage[batch] - advantage[batch].mean()) / (advantage[batch].std() + 1e-8)
            policy_loss = -torch.min(gain * ratio, gain * ratio.clamp(1 - args.clip, 1 + args.clip)).mean()
            value_loss = (agent.value(observation[batch]).squeeze(-1) - target[batch]).square().mean()
            entropy = distribution.entropy().sum(-1).mean()
            loss = policy_loss + args.value_coef * value_loss - args.entropy_coef * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimizer.step()
            kl = float((ratio - 1 - log_ratio).detach().mean())
    return kl


@torch.no_grad()
def evaluate(agent: Agent, envs: ActuatorCurriculumVectorWrapper, args: Args) -> tuple[float, float]:
    """Return mean length and success rate at exactly the target stiffness, equally many episodes from every env."""
    share = -(-args.eval_episodes // args.num_envs)
    length, left = np.zeros(args.num_envs), np.full(args.num_envs, share)
    lengths, successes = [], []
    with envs.evaluation():
        observation, _ = envs.reset(seed=args.seed + 1)
        while left.any():
            action = agent.mean(torch.as_tensor(observation)).numpy()
            observation, _, terminated, truncated, infos = envs.step(action)
            length += 1
            for i in np.flatnonzero(terminated | truncated):
                if left[i]:
                    lengths.append(length[i])
                    successes.append(infos["final_info"]["is_success"][i])
                    left[i] -= 1
                length[i] = 0
    return float(np.mean(lengths)), float(np.mean(successes))


def main(args: Args) -> None:
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    backend = args.backend or ("analytic" if "cartpole" in args.task else None)
    envs = make_env(args.task, backend=backend, num_envs=args.num_envs)
    envs = ActuatorCurriculumVectorWrapper(envs)  # 1: the curriculum, as the task recommends it
    observations, actions = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    agent = Agent(observations, actions, args.hidden, args.initial_std)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    rollout = Rollout.empty(args, observations, actions)
    observation, _ = envs.reset(seed=args.seed)
    per_iteration = args.num_envs * args.num_steps
    iterations = max(1, args.total_steps // per_iteration)
    began = time.perf_counter()
    for iteration in range(iterations):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - iteration / iterations)
        observation = collect(agent, envs, rollout, observation, args.gamma)
        kl = update(agent, optimizer, rollout, advantages(agent, rollout, observation, args), args)
        report = envs.end_iteration()  # 2: the iteration is over, the stiffness moves
        if iteration % max(1, iterations // 20) == 0 or iteration == iterations - 1:
            steps = (iteration + 1) * per_iteration
            speed = steps / (time.perf_counter() - began)
            length = envs.adc.last_totals.mean_length
            print(f"{steps:>9} steps  K {report['stiffness']:6.2f}  length {length:6.1f}  kl {kl:.4f}  {speed:.0f}/s")
    print(f"K came to {report['stiffness']:.2f}")
    if args.eval_episodes:
        length, success = evaluate(agent, envs, args)  # 3: at the target stiffness, whatever the curriculum says
        print(f"at the target stiffness an episode lasts {length:.0f} steps, {success:.0%} succeed")
    if args.export is not None:
        from adc_wrappers.policy.export import export_policy

        with envs.evaluation():  # a policy file promises the target gains: they must be live
            export_policy(agent.mean, envs, args.export, steps=iterations * per_iteration)
        print(f"policy {args.export}")
    envs.close()


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
