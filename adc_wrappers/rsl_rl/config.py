"""Our PPO settings as the dict that RSL-RL's runner takes (5.x), and the paper's for Isaac Lab's envs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.mirror import Mirror
from adc_wrappers.training.ppo import PpoConfig
from adc_wrappers.training.recipes import PAPER_PPO

from .vec_env import OBSERVATION_GROUP, VALUE_GROUP, RslRlVecEnv, privileged_view

__all__ = ["paper_config", "paper_runner_config", "runner_config"]


def paper_runner_config() -> dict[str, Any]:
    """Return the paper's PPO and network tables as a runner's config.

    >>> paper_runner_config()["algorithm"]["num_mini_batches"]
    4
    """
    return runner_config(PAPER_PPO)


def runner_config(ppo: PpoConfig, env: RslRlVecEnv | None = None) -> dict[str, Any]:
    """Return the config of an RSL-RL runner.

    Args:
        ppo: The settings.
        env: The env to train on; needed where the settings use its symmetry or scales.
    """
    task = getattr(env.unwrapped, "task", None) if env is not None else None
    mirror = _mirror(task) if ppo.mirrored else None
    if ppo.equivariant and mirror is None:
        raise CurriculumError("ppo.equivariant needs ppo.mirrored: it says how the mirrored networks are made.")
    scale = _scale(task) if ppo.scale_observations else None
    actor = _model(ppo, scale, _actor_mirror(mirror))
    actor["output_gain"] = ppo.output_gain
    actor["distribution_cfg"] = _distribution(ppo, mirror)
    return {
        "num_steps_per_env": ppo.n_steps,
        "save_interval": 50,
        "obs_groups": {
            "actor": [OBSERVATION_GROUP],
            "critic": [VALUE_GROUP if ppo.privileged_value else OBSERVATION_GROUP],
        },
        "actor": actor,
        "critic": _critic(ppo, scale, mirror, env),
        "algorithm": {
            "class_name": "adc_wrappers.rsl_rl.ppo:CpuPPO",
            "num_learning_epochs": ppo.n_epochs,
            "num_mini_batches": max(1, round(ppo.iteration_steps / ppo.batch_size)),
            "gamma": ppo.gamma,
            "lam": ppo.gae_lambda,
            "learning_rate": ppo.learning_rate,
            "schedule": "adaptive",
            "desired_kl": ppo.target_kl,
            "clip_param": ppo.clip_range,
            "use_clipped_value_loss": ppo.clip_value,
            "entropy_coef": ppo.entropy_coef,
            "value_loss_coef": ppo.value_coef,
            "max_grad_norm": ppo.max_grad_norm,
        },
    }


def _model(ppo: PpoConfig, scale: list[float] | None, mirror: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "class_name": "adc_wrappers.rsl_rl.models:TaskModel",
        "hidden_dims": list(ppo.hidden),
        "activation": "elu",
        "obs_normalization": False,
        "observation_scale": scale,
        "mirror": mirror,
        **({} if mirror is None else {"equivariant": ppo.equivariant}),
    }


def _actor_mirror(mirror: Mirror | None) -> dict[str, Any] | None:
    if mirror is None:
        return None
    columns, symmetric = mirror.action_basis()
    signs = [1.0] * symmetric + [-1.0] * (len(columns) - symmetric)
    return _seen_in(mirror.observation_index, mirror.observation_sign, signs)


def _critic(ppo: PpoConfig, scale: list[float] | None, mirror: Mirror | None, env: RslRlVecEnv | None) -> Any:
    """The value network, which sees what the policy sees or more; a value is the same in the mirror."""
    if not ppo.privileged_value:
        seen = None if mirror is None else _seen_in(mirror.observation_index, mirror.observation_sign, [1.0])
        return _model(ppo, scale, seen)
    if env is None:
        raise CurriculumError("ppo.privileged_value: needs an env to train on, whose task says what there is to see.")
    view = privileged_view(env)
    seen = None if mirror is None else _seen_in(view.mirror_index, view.mirror_sign, [1.0])
    return _model(ppo, list(view.scale) if ppo.scale_observations else None, seen)


def _seen_in(index: Sequence[int], sign: Sequence[float], output_sign: list[float]) -> dict[str, Any]:
    return {"index": list(index), "sign": list(sign), "output_sign": output_sign}


def _distribution(ppo: PpoConfig, mirror: Mirror | None) -> dict[str, Any]:
    gaussian: dict[str, Any] = {"init_std": ppo.initial_std, "std_type": "log", "std_range": [ppo.min_std, 1e6]}
    if mirror is None:
        if ppo.sideways_std is not None:
            raise CurriculumError("ppo.sideways_std needs ppo.mirrored: without a mirror there is no sideways.")
        return {"class_name": "GaussianDistribution", **gaussian}
    columns, symmetric = mirror.action_basis()
    return {
        "class_name": "adc_wrappers.rsl_rl.models:MirrorGaussian",
        **gaussian,
        "basis": columns.tolist(),
        "symmetric": symmetric,
        "sideways_std": ppo.sideways_std,
    }


def _mirror(task: Any) -> Mirror:
    mirror = getattr(task, "mirror", None)
    if not isinstance(mirror, Mirror):
        raise CurriculumError("ppo.mirrored: the task does not say how it looks in a mirror (Task.mirror is None).")
    return mirror


def _scale(task: Any) -> list[float]:
    scale = getattr(task, "observation_scale", None)
    if scale is None:
        raise CurriculumError("ppo.scale_observations: the task has no scales (Task.observation_scale is None).")
    return [float(value) for value in scale]


_MINIBATCHES = 4


def paper_config(num_envs: int, **changes: Any) -> dict[str, Any]:
    """Return the runner's config of the paper's tables, four minibatches whatever the number of envs.

    Args:
        num_envs: Robots that are stepped together.
        **changes: Other settings of :class:`~adc_wrappers.training.ppo.PpoConfig`.

    >>> paper_config(64)["algorithm"]["num_mini_batches"]
    4
    """
    steps = int(changes.get("n_steps", PAPER_PPO.n_steps))
    batch = max(1, steps * num_envs // _MINIBATCHES)
    return runner_config(dataclasses.replace(PAPER_PPO, num_envs=num_envs, batch_size=batch, **changes))
