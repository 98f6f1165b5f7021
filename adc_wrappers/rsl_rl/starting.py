"""The first weights of a training: a policy of the same task, or a smaller task's that is lifted into this one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.lift import Lift
from adc_wrappers.runs import RunFolder
from adc_wrappers.training.config import TrainConfig
from adc_wrappers.training.trained import check_settings, check_weights, made_for, read_tensors

from .equivariant import EquivariantMLP
from .models import MirrorGaussian

__all__ = ["begin_with", "lift_actor", "lift_network"]

Weights = dict[str, torch.Tensor]
_ACTOR, _CRITIC, _STD = "actor_state_dict", "critic_state_dict", "distribution.log_std_param"


def begin_with(algorithm: Any, env: Any, config: TrainConfig) -> None:
    """Give policy and value networks the newest weights of another run; optimizer and curriculum begin anew.

    Args:
        algorithm: RSL-RL's PPO, with networks as it made them.
        env: The training env.
        config: The run's settings; ``start_from`` names the other run.

    Raises:
        CurriculumError: The other run's policy does not fit this task.
    """
    folder = RunFolder.open(Path(config.start_from or ""))
    other = TrainConfig.from_dict(folder.config())
    checkpoint = folder.checkpoints.load_latest()
    check_settings(folder, other, checkpoint)
    if other.trainer != "rsl_rl":
        raise CurriculumError(f"start_from {folder.path}: expected a run of trainer 'rsl_rl', got {other.trainer!r}.")
    if other.ppo.scale_observations != config.ppo.scale_observations:
        raise CurriculumError(
            f"start_from {folder.path}: its networks were trained with --ppo.scale-observations "
            f"{other.ppo.scale_observations}, these with {config.ppo.scale_observations}. Give both the same."
        )
    found = read_tensors(checkpoint, "parameters.pt")
    networks = {_ACTOR: algorithm.get_policy(), _CRITIC: algorithm.critic}
    if other.task != config.task:
        origin = made_for(other, checkpoint)
        lift = None if origin is None else env.unwrapped.task.lift(origin.deployment)
        if lift is None:
            raise CurriculumError(
                f"start_from {folder.path}: a policy of {other.task!r} cannot begin a training of {config.task!r}. "
                "Expected one of the same task, or for spot-handstand one of spot-planar-handstand."
            )
        found = {
            _ACTOR: lift_actor(networks[_ACTOR], found[_ACTOR], lift, config.ppo.sideways_std),
            _CRITIC: lift_network(networks[_CRITIC], found[_CRITIC], lift, torch.ones(1, 1)),
        }
    for name, network in networks.items():
        check_weights(network.state_dict(), found.get(name), f"start_from {folder.path}: {name}")
        network.load_state_dict(found[name])


def lift_actor(actor: Any, smaller: Weights, lift: Lift, other_std: float | None = None) -> Weights:
    """Return a policy's weights that do what a smaller policy does, wherever that one could be.

    Args:
        actor: The larger policy, with the weights that it was made with.
        smaller: The smaller policy's weights.
        lift: From the one to the other.
        other_std: Deviation of what the smaller policy does not move; None leaves it as it was made.
    """
    actions = torch.tensor(lift.actions, dtype=torch.float32)
    if isinstance(actor.distribution, MirrorGaussian):  # the network's outputs are coordinates of its own basis
        actions = actor.distribution.inverse.T @ actions
    lifted = lift_network(actor, smaller, lift, actions)
    moved = actions.abs().sum(dim=1) > 1e-6
    deviations = smaller[_STD].exp()
    if other_std is not None:
        lifted[_STD][~moved] = math.log(other_std)
    lifted[_STD][moved] = ((actions.abs() @ deviations)[moved]).log()
    return lifted


def lift_network(network: Any, smaller: Weights, lift: Lift, outputs: torch.Tensor) -> Weights:
    """Return weights of a network that has, in a state that the smaller one knows, its outputs.

    What the smaller network does not see enters the first layer as it was made, so that it can be learned; outputs that
    the smaller one does not have stay as they were made.

    Args:
        network: The larger one, an actor or a critic.
        smaller: The smaller one's weights.
        lift: From the one to the other.
        outputs: What the smaller outputs are among the larger ones, ``(larger, smaller)``.
    """
    if isinstance(network.mlp, EquivariantMLP):
        raise CurriculumError("start_from: layers that are symmetric themselves (ppo.equivariant) cannot be lifted.")
    lifted: Weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    layers = [name.removesuffix(".weight") for name in lifted if name.endswith(".weight")]
    theirs = [name.removesuffix(".weight") for name in smaller if name.endswith(".weight")]
    _check_room(lifted, smaller, layers, theirs)
    seen = torch.tensor(lift.observations, dtype=torch.float32)
    apart = torch.tensor(lift.apart(), dtype=torch.float32)
    for layer in layers:
        weight, bias = lifted[f"{layer}.weight"], lifted[f"{layer}.bias"]
        their_weight, their_bias = smaller[f"{layer}.weight"], smaller[f"{layer}.bias"]
        rows, columns = their_weight.shape
        if layer == layers[-1]:
            own = outputs.abs().sum(dim=1) > 1e-6
            weight[own] = 0.0
            weight[own, :columns] = (outputs @ their_weight)[own]
            bias[own] = (outputs @ their_bias)[own]
            continue
        if layer == layers[0]:
            weight[:rows] = their_weight @ seen + weight[:rows] @ apart
        else:
            weight[:rows] = 0.0
            weight[:rows, :columns] = their_weight
        bias[:rows] = their_bias
    return lifted


def _check_room(lifted: Weights, smaller: Weights, layers: list[str], theirs: list[str]) -> None:
    """Refuse a smaller network that is not smaller."""
    sizes = [
        [len(weights[f"{name}.weight"]) for name in names] for weights, names in ((lifted, layers), (smaller, theirs))
    ]
    if layers != theirs or any(own < other for own, other in zip(*sizes, strict=True)):
        raise CurriculumError(
            f"start_from: a policy with layers of {sizes[1][:-1]} units does not fit into one of {sizes[0][:-1]}: "
            "give at least as many (--ppo.hidden)."
        )
