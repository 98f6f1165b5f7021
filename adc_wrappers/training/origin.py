"""One truth about a run: every checkpoint holds the settings and the env that it was trained with.

``config.json`` is for people and for commands to read before a checkpoint is; where it says something else than the
newest checkpoint, that is an error.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from adc_wrappers.core import ActuatorCurriculumVectorWrapper, CurriculumConfig, CurriculumError
from adc_wrappers.core.errors import BackendError
from adc_wrappers.core.reading import parse_json
from adc_wrappers.envs.fit import MadeFor, find_task_of
from adc_wrappers.envs.registry import make_env
from adc_wrappers.runs import Checkpoint, CheckpointError, RunFolder, RunFolderError

from .config import TrainConfig

__all__ = ["check_settings", "env_of", "keep_settings", "made_for"]

_SETTINGS, _ENV = "config.json", "made_for.json"


def keep_settings(config: TrainConfig, folder: RunFolder, *, resume: bool) -> None:
    """Let every checkpoint of a training that begins hold its settings and its env.

    Args:
        config: The run's settings.
        folder: The run folder.
        resume: Compare them with the newest checkpoint first, if there is one.

    Raises:
        RunFolderError: The newest checkpoint was trained with other settings.
    """
    if resume and folder.checkpoints.paths():
        check_settings(folder, config, folder.checkpoints.load_latest())
    origin = env_of(config)
    folder.checkpoints.common = {
        _SETTINGS: json.dumps(config.to_dict()).encode(),
        _ENV: json.dumps(None if origin is None else origin.to_dict()).encode(),
    }


def check_settings(folder: RunFolder, config: TrainConfig, checkpoint: Checkpoint) -> None:
    """Refuse settings that are not those of a checkpoint; the length of the training may be another.

    Args:
        folder: The run folder, for the message.
        config: What its ``config.json`` says.
        checkpoint: A checkpoint of it. One of an older version knows the settings of its curriculum only.

    Raises:
        RunFolderError: Lists what differs.
    """
    try:
        trained = _plain(_trained_with(config, checkpoint).to_dict())
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # a CurriculumError is a ValueError
        raise CheckpointError(f"{checkpoint.path}: its settings cannot be read ({error}).") from error
    differing = _differences("", trained, _plain(config.to_dict()))
    if differing:
        raise RunFolderError(
            f"{folder.config_file} is not what {checkpoint.path.name} was trained with: {'; '.join(differing)}. Put "
            "the old values back. To evaluate at another stiffness or with other settings, use `adc eval --stiffness` "
            "and `--set`; to train with others, begin a new run (--out)."
        )


def _trained_with(config: TrainConfig, checkpoint: Checkpoint) -> TrainConfig:
    """Return the settings of a checkpoint, with the length of the training as ``config`` has it."""
    stored = config
    if _SETTINGS in checkpoint.files:
        stored = TrainConfig.from_dict(checkpoint.json(_SETTINGS))
    curriculum = CurriculumConfig.from_dict(checkpoint.json("state.json")["curriculum"]["config"])
    ppo = dataclasses.replace(stored.ppo, total_steps=config.ppo.total_steps)
    return dataclasses.replace(stored, curriculum=curriculum, ppo=ppo, checkpoint_every=config.checkpoint_every)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def _differences(where: str, trained: Any, said: Any) -> list[str]:
    if isinstance(trained, dict) and isinstance(said, dict):
        names = sorted(trained.keys() | said.keys())
        return [text for name in names for text in _differences(f"{where}.{name}", trained.get(name), said.get(name))]
    if trained == said:
        return []
    return [f"{where[1:]}: the checkpoint has {trained!r}, config.json {said!r}"]


def made_for(config: TrainConfig, checkpoint: Checkpoint) -> MadeFor | None:
    """Return the env that a checkpoint's policy was made for; None where the task does not say.

    A checkpoint of an older version does not hold it; then it is the env that its settings make today.

    Raises:
        CheckpointError: What it holds cannot be read.
    """
    if _ENV not in checkpoint.files:
        return env_of(config)
    try:
        values = parse_json(checkpoint.part(_ENV), _ENV, CurriculumError)
        return None if values is None else MadeFor.from_dict(values)
    except (CurriculumError, ValueError) as error:
        raise CheckpointError(f"{checkpoint.path}: {error}") from error


def env_of(config: TrainConfig) -> MadeFor | None:
    """Return the env that settings make, at its target gains; None where the task does not say what it is."""
    envs = make_env(config.task, backend=config.backend, num_envs=1, **config.settings)
    try:
        pinned = ActuatorCurriculumVectorWrapper(envs, config.curriculum, training=False)
        return MadeFor.of(pinned) if _says_what_it_is(pinned) else None
    finally:
        envs.close()


def _says_what_it_is(env: Any) -> bool:
    """Whether an env's task says how its policies are run elsewhere; one of somebody's own need not."""
    try:
        find_task_of(env).deployment()
    except BackendError:
        return False
    return True
