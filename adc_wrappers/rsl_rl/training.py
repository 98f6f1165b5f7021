"""A training run with RSL-RL in a run folder: first weights, start, resume, load."""

from __future__ import annotations

import contextlib
import io
import math
from pathlib import Path
from typing import Any

import torch

from adc_wrappers.core import ActuatorCurriculumVectorWrapper, ActuatorCurriculumWrapper
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.fit import MadeFor
from adc_wrappers.envs.lift import Lift, lift_from_less, lift_value
from adc_wrappers.envs.registry import make_env, make_vector_env
from adc_wrappers.runs import Checkpoint, RunFolder, holding_folder
from adc_wrappers.training.config import ProgressReporter, TrainConfig
from adc_wrappers.training.deterministic import DeterministicPolicy
from adc_wrappers.training.ppo import wrap_actions
from adc_wrappers.training.resuming import seed_generators
from adc_wrappers.training.trained import check_settings, check_weights, keep_settings, made_for, read_tensors

from .config import runner_config
from .equivariant import EquivariantMLP
from .models import MirrorGaussian
from .ppo import LOWEST_RATE
from .runner import RunFolderRunner, rank
from .vec_env import RslRlVecEnv, TensorVecEnv

__all__ = ["begin_with", "join", "lift_actor", "lift_network", "load_module", "make_training_env", "train"]

Weights = dict[str, torch.Tensor]


@holding_folder
def train(config: TrainConfig, folder: RunFolder, *, resume: bool, reporter: ProgressReporter) -> RunFolderRunner:
    """Train in a run folder, from the start or from its newest whole checkpoint.

    Args:
        config: The run's settings.
        folder: The run folder, already made.
        resume: Go on from the newest checkpoint.
        reporter: Is told about every iteration.

    Returns:
        The runner; its last state is in the newest checkpoint too.
    """
    keep_settings(config, folder, resume=resume)
    return _learn(config, folder, resume=resume, reporter=reporter)


def join(config: TrainConfig, folder: RunFolder, *, resume: bool) -> RunFolderRunner:
    """Train as one of the other processes under ``torchrun``; the first keeps the run folder.

    Args:
        config: The run's settings, the same for all.
        folder: The run folder, which is only read, and only to resume.
        resume: Go on from the newest checkpoint.
    """
    return _learn(config, folder, resume=resume, reporter=None)


def _learn(
    config: TrainConfig, folder: RunFolder, *, resume: bool, reporter: ProgressReporter | None
) -> RunFolderRunner:
    if not config.on_tensors:
        torch.set_num_threads(1)
    seed_generators(config.seed + rank())
    with contextlib.closing(make_training_env(config)) as env:
        runner = _build(config, env, folder, reporter)
        try:
            if resume and not runner.restore():
                env.reset(seed=config.seed + rank() + runner.steps)
            if config.start_from is not None and runner.steps == 0:
                begin_with(runner.alg, env, config)
            remaining = config.iterations - runner.curriculum_env.curriculum.iteration
            if remaining > 0:
                runner.learn(remaining, init_at_random_ep_len=config.on_tensors)
            runner.finish()
        finally:
            runner.close()
    return runner


def make_training_env(config: TrainConfig) -> RslRlVecEnv | TensorVecEnv:
    """Build the vector env, or the batch of tensors, with the curriculum around it, as RSL-RL sees it."""
    seed = config.seed + rank()
    own = {"device": config.device, "seed": seed} if config.on_tensors else {}
    batch = make_env(
        config.task,
        backend=config.backend,
        num_envs=config.ppo.num_envs,
        early_termination=config.early_termination,
        **{**config.training_settings, **own},
    )
    curriculum = ActuatorCurriculumWrapper(batch, config.curriculum)
    wrapped = wrap_actions(curriculum, config.actions, seed)
    if not config.on_tensors:
        scale, privileged = config.ppo.reward_scale, config.ppo.privileged_value
        return RslRlVecEnv(wrapped, reward_scale=scale, seed=seed, privileged=privileged)
    if config.ppo.privileged_value:
        raise CurriculumError(
            f"ppo.privileged_value: expected backend 'mujoco', 'pybullet' or another batch of envs in numpy, got "
            f"{config.backend!r}. Leave it out there."
        )
    return TensorVecEnv(wrapped, reward_scale=config.ppo.reward_scale, seed=seed)


def load_module(config: TrainConfig, checkpoint: Checkpoint) -> torch.nn.Module:
    """Return the policy of a checkpoint: from observations to the mean action, clipped to the action space."""
    envs = make_vector_env(config.task, backend=config.backend, num_envs=1, settings=config.settings)
    wrapped = ActuatorCurriculumVectorWrapper(envs, config.curriculum)
    env = RslRlVecEnv(wrapped, privileged=config.ppo.privileged_value)
    runner = _build(config, env, None, None)
    parameters, where = read_tensors(checkpoint, "parameters.pt"), f"{checkpoint.path}: parameters.pt"
    weights = parameters.get("actor_state_dict") if isinstance(parameters, dict) else None
    check_weights(runner.alg.get_policy().state_dict(), weights, where)
    runner.alg.get_policy().load_state_dict(weights)
    env.close()
    return DeterministicPolicy(runner.alg.get_policy().as_onnx(verbose=False), envs.single_action_space)


def _build(
    config: TrainConfig, env: RslRlVecEnv | TensorVecEnv, folder: RunFolder | None, reporter: ProgressReporter | None
) -> RunFolderRunner:
    with contextlib.redirect_stdout(io.StringIO()):  # RSL-RL prints its networks
        return RunFolderRunner(env, runner_config(config.ppo, env), config, folder, reporter)


_ACTOR, _CRITIC, _STD = "actor_state_dict", "critic_state_dict", "distribution.log_std_param"


def begin_with(algorithm: Any, env: Any, config: TrainConfig) -> None:
    """Give policy and value networks the newest weights of another run; optimizer and curriculum begin anew.

    The other run may be of the same task with fewer moments or another action scale, and its value network may see less
    than this one (``ppo.privileged_value``). A value network that cannot be taken over begins anew.

    A learning rate that follows the KL divergence begins at its lower bound: the first steps of a new optimizer are as
    large as the rate, whatever the gradient, and at a rate for new networks they unlearn all within ten iterations.

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
    if other.task == config.task and other.ppo.mirrored != config.ppo.mirrored:
        raise CurriculumError(
            f"start_from {folder.path}: its networks were trained with --ppo.mirrored {other.ppo.mirrored}, these with "
            f"{config.ppo.mirrored}. Give both the same."
        )
    found = read_tensors(checkpoint, "parameters.pt")
    networks = {_ACTOR: algorithm.get_policy()}
    lift, value_lift = _lifts(env.unwrapped.task, config, other, made_for(other, checkpoint))
    if lift is not None:
        basis = other.task == config.task and other.ppo.mirrored
        side = None if other.task == config.task else config.ppo.sideways_std
        found[_ACTOR] = lift_actor(networks[_ACTOR], found[_ACTOR], lift, side, in_basis=basis)
    if value_lift is not None:
        networks[_CRITIC] = algorithm.critic
        found[_CRITIC] = lift_network(networks[_CRITIC], found[_CRITIC], value_lift, torch.ones(1, 1))
    elif lift is None and other.ppo.privileged_value == config.ppo.privileged_value:
        networks[_CRITIC] = algorithm.critic
    for name, network in networks.items():
        check_weights(network.state_dict(), found.get(name), f"start_from {folder.path}: {name}")
        network.load_state_dict(found[name])
    if algorithm.schedule == "adaptive":
        algorithm.learning_rate = min(algorithm.learning_rate, LOWEST_RATE)
        for group in algorithm.optimizer.param_groups:
            group["lr"] = algorithm.learning_rate


def _lifts(
    task: Any, config: TrainConfig, other: TrainConfig, origin: MadeFor | None
) -> tuple[Lift | None, Lift | None]:
    """Return how another run's policy and value network get into these; None for a network that is not lifted."""
    if other.task != config.task:
        lift = None if origin is None else task.lift(origin.deployment)
        if lift is None:
            raise CurriculumError(
                f"start_from {config.start_from}: a policy of {other.task!r} cannot begin a training of "
                f"{config.task!r}. Expected one of the same task, or for spot-handstand one of spot-planar-handstand."
            )
        return lift, None if config.ppo.privileged_value or other.ppo.privileged_value else lift
    if origin is None:
        return None, None
    own = task.deployment()
    lift = lift_from_less(origin.deployment, own)
    if other.ppo.privileged_value:
        return lift, None
    if not config.ppo.privileged_value:
        return lift, lift
    view = task.privileged()
    if not {part.name for part in origin.deployment.observation} <= {part.name for part in view.parts}:
        return lift, None  # what was measured before is in no view of the truth
    return lift, lift_value(origin.deployment, own, view.parts, len(view.scale))


def lift_actor(
    actor: Any, smaller: Weights, lift: Lift, other_std: float | None = None, *, in_basis: bool = False
) -> Weights:
    """Return a policy's weights that do what a smaller policy does, wherever that one could be.

    Args:
        actor: The larger policy, with the weights that it was made with.
        smaller: The smaller policy's weights.
        lift: From the one to the other.
        other_std: Deviation of what the smaller policy does not move; None leaves it as it was made.
        in_basis: Whether the smaller network's outputs are coordinates of the same basis already.
    """
    actions = torch.tensor(lift.actions, dtype=torch.float32)
    if isinstance(actor.distribution, MirrorGaussian):  # the network's outputs are coordinates of its own basis
        actions = actor.distribution.inverse.T @ actions
        if in_basis:
            actions = actions @ actor.distribution.basis.T
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
    apart = torch.tensor(lift.unseen * lift.apart(), dtype=torch.float32)
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
