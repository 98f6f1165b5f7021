"""RSL-RL's PPO with the same arithmetic in less time on a CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.modules import GaussianDistribution
from torch import nn

from adc_wrappers.core.cores import available_cores

from .models import TaskModel

__all__ = ["LOWEST_RATE", "CpuPPO"]

LOWEST_RATE, _HIGHEST_RATE, _RATE_FACTOR = 1e-5, 1e-2, 1.5  # RSL-RL's own
_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


class _Minibatch(NamedTuple):
    """Samples of one gradient step; the networks' inputs are scaled and mirrored already."""

    policy_inputs: torch.Tensor
    value_inputs: torch.Tensor
    coordinates: torch.Tensor
    means: torch.Tensor
    log_probs: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    values: torch.Tensor


class CpuPPO(PPO):
    """PPO as RSL-RL has it, for networks of a few hundred units on some cores.

    The losses, the order of samples, the learning rate's rule and Adam are RSL-RL's. What differs is when things are
    computed:

    - The values of a rollout are computed after it, in one batch: nobody needs them before.
    - An iteration's samples are put into the order of their minibatches once, scaled and mirrored once.
    - The value network's pass runs on a thread beside the policy's: they share no parameter, so the result is the same
      to the last bit whether there are two threads or one.
    - No actions are drawn in the update, where RSL-RL draws some that it does not use.

    Whatever this cannot do (a GPU, several ranks, recurrent networks, random network distillation, RSL-RL's symmetry,
    mixed precision, other distributions) is left to RSL-RL's own code.

    Args:
        *args: As of ``PPO``.
        **settings: As of ``PPO``.
    """

    optimizer: Any
    learning_rate: float

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._own = self._can()
        self._thread: ThreadPoolExecutor | None = None
        if not self._own:
            return
        self._policy_parameters = list(self.actor.parameters())
        self._value_parameters = list(self.critic.parameters())
        if type(self.optimizer) is torch.optim.Adam:
            parameters = chain(self._policy_parameters, self._value_parameters)
            self.optimizer = torch.optim.Adam(parameters, lr=self.learning_rate, fused=True)
        storage = self.storage
        shape = (storage.num_transitions_per_env, storage.num_envs)
        self._observations = dict(storage.observations.items())
        self._time_outs = torch.zeros(*shape, 1)
        self._means = torch.zeros(*shape, *storage.actions_shape)
        storage.distribution_params = (self._means, torch.zeros_like(self._means))
        self._mean: torch.Tensor | None = None
        if available_cores() > 1:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="value-network")

    def _can(self) -> bool:
        models = (self.actor, self.critic)
        names = ("is_multi_gpu", "rnd", "symmetry", "use_mixed_precision", "normalize_advantage_per_mini_batch")
        plain = not any(getattr(self, name, False) for name in names)  # not every version has all of them
        known = all(isinstance(model, TaskModel) and not model.obs_normalization for model in models)
        gaussian = self.actor.distribution
        return (
            plain
            and known
            and torch.device(self.device).type == "cpu"
            and isinstance(gaussian, GaussianDistribution)
            and hasattr(gaussian, "log_std_param")
            and hasattr(gaussian, "log_std_range")
            and hasattr(self.storage, "distribution_params")
        )

    def close(self) -> None:
        """End the value network's thread; without it, updates take longer and give the same."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def act(self, obs: Any) -> torch.Tensor:
        """Draw actions."""
        if not self._own:
            drawn: torch.Tensor = super().act(obs)
            return drawn
        self.transition.observations = obs
        mean: torch.Tensor = self.actor.mlp(self.actor.get_latent(obs))
        coordinates = mean + self._log_std().exp() * torch.randn_like(mean)
        actions: torch.Tensor = self.actor.distribution.deterministic_output(coordinates)
        self._mean, self.transition.actions = mean, actions
        return actions

    def process_env_step(self, obs: Any, rewards: torch.Tensor, dones: torch.Tensor, extras: dict[str, Any]) -> None:
        """Keep one step of the envs."""
        if not self._own:
            super().process_env_step(obs, rewards, dones, extras)
            return
        storage, step = self.storage, self.storage.step
        if step >= storage.num_transitions_per_env or self._mean is None:
            raise OverflowError("expected act() before each step, and an update after each rollout.")
        for name, kept in self._observations.items():
            kept[step].copy_(self.transition.observations[name])
        storage.actions[step].copy_(self.transition.actions)
        storage.rewards[step, :, 0].copy_(rewards)
        storage.dones[step, :, 0].copy_(dones)
        self._means[step].copy_(self._mean)
        if "time_outs" in extras:
            self._time_outs[step, :, 0].copy_(extras["time_outs"])
        else:
            self._time_outs[step].zero_()
        self._mean = None
        storage.step += 1

    def compute_returns(self, obs: Any) -> None:
        """Compute the values of all steps, then returns and advantages."""
        if self._own:
            storage = self.storage
            flat = self.critic.get_latent(storage.observations.flatten(0, 1))
            storage.values.copy_(self.critic.mlp(flat).view_as(storage.values))
            storage.rewards += self.gamma * storage.values * self._time_outs
            log_std = self._log_std()
            storage.distribution_params[1].copy_(log_std.exp().expand_as(self._means))
            coordinates = _coordinates(self.actor.distribution, storage.actions)
            log_probs = _log_probs(coordinates, self._means, log_std)
            storage.actions_log_prob.copy_(log_probs.unsqueeze(-1))
        super().compute_returns(obs)

    def update(self) -> dict[str, float]:
        """Take the gradient steps of one iteration and return the mean losses."""
        if not self._own:
            losses: dict[str, float] = super().update()
            return losses
        sums = [0.0, 0.0, 0.0]
        minibatches = self._minibatches()
        for _ in range(self.num_learning_epochs):
            for minibatch in minibatches:
                value = self._beside(self._value_pass, minibatch)
                surrogate, entropy = self._policy_pass(minibatch)
                for index, loss in enumerate((value(), surrogate, entropy)):
                    sums[index] += loss
                self.optimizer.step()
        self.storage.clear()
        with torch.no_grad():
            self.actor.distribution.update(torch.zeros_like(self._means[0, :1]))  # whose deviation the runner reads
        steps = self.num_learning_epochs * self.num_mini_batches
        return dict(zip(("value", "surrogate", "entropy"), (total / steps for total in sums), strict=True))

    def load(self, loaded_dict: dict[str, Any], load_cfg: dict[str, Any] | None, strict: bool) -> bool:
        """Load what any PPO of RSL-RL has saved."""
        result: bool = super().load(loaded_dict, load_cfg, strict)
        if self._own and type(self.optimizer) is torch.optim.Adam:
            for group in self.optimizer.param_groups:
                group["fused"], group["foreach"] = True, None
        return result

    def _minibatches(self) -> list[_Minibatch]:
        """Return the samples in a random order, which every epoch repeats, as RSL-RL has it."""
        storage = self.storage
        count = storage.num_envs * storage.num_transitions_per_env
        size = count // self.num_mini_batches
        order = torch.randperm(self.num_mini_batches * size)
        observations = storage.observations.flatten(0, 1)
        actor, critic = self.actor.get_latent(observations), self.critic.get_latent(observations)
        coordinates = _coordinates(self.actor.distribution, storage.actions.flatten(0, 1))
        scalars = (storage.actions_log_prob, storage.advantages, storage.returns, storage.values)
        parts = (coordinates, self._means.flatten(0, 1), *(part.flatten() for part in scalars))
        minibatches = []
        for rows in order.view(self.num_mini_batches, size):
            inputs = self.actor.mlp.inputs(actor[rows]), self.critic.mlp.inputs(critic[rows])
            minibatches.append(_Minibatch(*inputs, *(part[rows] for part in parts)))
        return minibatches

    def _beside(self, function: Callable[[_Minibatch], float], minibatch: _Minibatch) -> Callable[[], float]:
        """Begin a pass on the other thread, if there is one, and return what waits for its loss."""
        if self._thread is None:
            return lambda: function(minibatch)
        future: Future[float] = self._thread.submit(function, minibatch)
        return future.result

    def _policy_pass(self, minibatch: _Minibatch) -> tuple[float, float]:
        """Leave the policy's gradients, set the learning rate, and return surrogate loss and entropy."""
        model = self.actor.mlp
        mean, log_std = model.outputs(minibatch.policy_inputs, len(minibatch.means)), self._log_std()
        if self.desired_kl is not None and self.schedule == "adaptive":
            self._follow_divergence(minibatch, mean.detach(), log_std.detach())
        # The surrogate's gradient by hand: autograd's graph of these small steps takes a third of the pass.
        with torch.no_grad():
            slope = torch.exp(-log_std)
            deviation = (minibatch.coordinates - mean) * slope
            squares = deviation.square()
            log_probs = -0.5 * squares.sum(-1) - (log_std.sum() + len(log_std) * _HALF_LOG_TAU)
            ratio = torch.exp(log_probs - minibatch.log_probs)
            gain = minibatch.advantages * ratio
            clipped = minibatch.advantages * ratio.clamp(1.0 - self.clip_param, 1.0 + self.clip_param)
            surrogate = -torch.min(gain, clipped).mean()
            pull = (torch.where(gain <= clipped, gain, 0.0) / -len(gain)).unsqueeze(-1)
            mean_gradient = pull * deviation.mul_(slope)
            std_gradient = (pull * squares.sub_(1.0)).sum(0) - self.entropy_coef
            entropy = log_std.sum() + len(log_std) * (0.5 + _HALF_LOG_TAU)
        _leave_gradients((mean, log_std), (mean_gradient, std_gradient), self._policy_parameters, self.max_grad_norm)
        return float(surrogate), float(entropy)

    def _value_pass(self, minibatch: _Minibatch) -> float:
        """Leave the value network's gradients and return the value loss."""
        model = self.critic.mlp
        values = model.outputs(minibatch.value_inputs, len(minibatch.returns)).squeeze(-1)
        errors = (minibatch.returns - values).square()
        if self.use_clipped_value_loss:
            change = (values - minibatch.values).clamp(-self.clip_param, self.clip_param)
            errors = torch.max(errors, (minibatch.values + change - minibatch.returns).square())
        loss = errors.mean()
        _leave_gradients((self.value_loss_coef * loss,), (None,), self._value_parameters, self.max_grad_norm)
        return float(loss.detach())

    @torch.no_grad()
    def _follow_divergence(self, minibatch: _Minibatch, mean: torch.Tensor, log_std: torch.Tensor) -> None:
        """Let the learning rate follow the KL divergence from the policy that acted, by RSL-RL's rule."""
        std = log_std.exp()
        ratio = (self.storage.distribution_params[1][0, 0] / std).square()
        spread = ratio - 1.0 - ratio.log()  # exactly zero at the first minibatch, where RSL-RL's rule leaves the rate
        shift = ((minibatch.means - mean) / std).square().sum(-1).mean()
        divergence = 0.5 * float(spread.sum() + shift)
        if divergence > 2.0 * self.desired_kl:
            self.learning_rate = max(LOWEST_RATE, self.learning_rate / _RATE_FACTOR)
        elif 0.0 < divergence < 0.5 * self.desired_kl:
            self.learning_rate = min(_HIGHEST_RATE, self.learning_rate * _RATE_FACTOR)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate

    def _log_std(self) -> torch.Tensor:
        gaussian = self.actor.distribution
        log_std: torch.Tensor = gaussian.log_std_param.clamp(*gaussian.log_std_range)
        return log_std


def _leave_gradients(
    results: tuple[torch.Tensor, ...],
    gradients: tuple[torch.Tensor | None, ...],
    parameters: list[nn.Parameter],
    max_norm: float,
) -> None:
    """Take gradients of results back to their parameters and leave them there, clipped together."""
    for parameter in parameters:
        parameter.grad = None
    torch.autograd.backward(results, gradients)
    nn.utils.clip_grad_norm_(parameters, max_norm)


def _log_probs(coordinates: torch.Tensor, mean: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
    """The log probability of a Gaussian's coordinates, summed over the last axis."""
    deviation = (coordinates - mean) * torch.exp(-log_std)
    return -0.5 * deviation.square().sum(-1) - (log_std.sum() + len(log_std) * _HALF_LOG_TAU)


def _coordinates(gaussian: Any, actions: torch.Tensor) -> torch.Tensor:
    inverse = getattr(gaussian, "inverse", None)
    return actions if inverse is None else actions @ inverse
