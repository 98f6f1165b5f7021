"""Exports the newest policy of a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core import ActuatorCurriculumVectorWrapper
from adc_wrappers.core.joints import JointValues
from adc_wrappers.core.reading import read_object
from adc_wrappers.envs.fit import check_env
from adc_wrappers.envs.registry import make_env
from adc_wrappers.runs import RunFolder, RunFolderError
from adc_wrappers.training import TrainedPolicy, load_trained

from .policy import ExportReport, export_policy

__all__ = ["export_run"]

_ENVS = 8
_STEPS = 50


def export_run(
    folder: RunFolder,
    path: Path,
    *,
    commanded_stiffness: JointValues | None = None,
    commanded_damping: JointValues | None = None,
) -> ExportReport:
    """Write the newest policy of a run as a policy file.

    The task's env is made anew, the target gains are pinned, the policy runs some steps in it, and the gains are read
    back after that.

    Args:
        folder: The run folder.
        path: Where the file goes.
        commanded_stiffness: K per joint that the robot is sent, where it is known.
        commanded_damping: B per joint that the robot is sent.
    """
    trained = load_trained(folder)
    config = trained.config
    env = make_env(config.task, backend=config.backend, num_envs=_ENVS, **config.settings)
    try:
        pinned = ActuatorCurriculumVectorWrapper(env, config.curriculum, training=False)
        check_env(trained, pinned)
        return export_policy(
            trained.module,
            pinned,
            path,
            steps=trained.steps,
            config=config,
            commit=_commit(folder),
            curriculum=trained.curriculum,
            commanded_stiffness=commanded_stiffness,
            commanded_damping=commanded_damping,
            observation_scale=env.task.observation_scale if config.ppo.scale_observations else None,
            observations=_record(trained, pinned),
        )
    finally:
        env.close()


def _record(policy: TrainedPolicy, env: Any) -> NDArray[np.float32]:
    """Return what the policy sees in its first steps at the target gains."""
    observation, _ = env.reset(seed=0)
    seen = [observation]
    for _ in range(_STEPS):
        observation, *_ = env.step(policy(observation))
        seen.append(observation)
    return np.concatenate(seen)


def _commit(folder: RunFolder) -> str | None:
    """Return the commit that the run was started from, if it is known."""
    file = folder.path / "versions.json"
    commit = read_object(file, RunFolderError).get("commit") if file.exists() else None
    return None if commit is None else str(commit)
