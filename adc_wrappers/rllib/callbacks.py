"""One curriculum in the driver: moved after every iteration, followed by all env runners, kept in checkpoints."""

from __future__ import annotations

import functools
import json
import math
import shutil
import uuid
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from gymnasium.vector import VectorEnv
from gymnasium.wrappers.vector import DictInfoToList
from ray.rllib.callbacks.callbacks import RLlibCallback

from adc_wrappers.core import ActuatorCurriculum, CurriculumConfig, CurriculumError, EpisodeTotals
from adc_wrappers.core.controller import ApplyAt
from adc_wrappers.core.errors import BackendError
from adc_wrappers.core.files import make_folder, sync_folder
from adc_wrappers.runs import RunFolderError

from . import remote
from .runner import RunnerSettings, find_layer, wrap_runner_env

__all__ = [
    "CurriculumCallbacks",
    "add_curriculum",
    "find_curriculum",
    "keep_in_checkpoints",
    "latest_checkpoint",
    "save_checkpoint",
]

_METRICS = "adc"
_TOTALS = ("episodes", "length_sum", "judged", "successes", "measured", "progress_sum")

_KEY = "adc_curriculum"
_PATTERN = "checkpoint_*"
_RLLIB_FILES = ("metadata.json", "class_and_ctor_args.pkl")
"""What RLlib writes into every checkpoint."""


def add_curriculum(
    config: Any,
    curriculum: CurriculumConfig | None = None,
    *,
    backend: Any = None,
    apply_at: ApplyAt = "iteration",
) -> Any:
    """Let the algorithms that ``config`` builds train under the curriculum.

    Envs need no wrapper; those wrapped in ``ActuatorCurriculumWrapper`` (without ``iteration_steps``) are found too.
    Evaluation env runners have the target gains.

    Args:
        config: An ``AlgorithmConfig`` of the new API stack, such as ``PPOConfig()``.
        curriculum: Settings. Default: what the envs recommend, else the paper's.
        backend: A picklable function that makes the actuators from an env runner's vector env; needed where the envs
            carry none and are not wrapped in ``ActuatorPort``.
        apply_at: ``"iteration"`` changes gains after every iteration, ``"reset"`` at each env's next episode.

    Returns:
        The same config.
    """
    present = config.callbacks_class if isinstance(config.callbacks_class, (list, tuple)) else [config.callbacks_class]
    if any(isinstance(each, type) and issubclass(each, CurriculumCallbacks) for each in present):
        raise CurriculumError("this config has a curriculum already: call add_curriculum() once.")
    settings = RunnerSettings(curriculum=curriculum, backend=backend, apply_at=apply_at)
    own = type("CurriculumCallbacks", (CurriculumCallbacks,), {"settings": settings, "__doc__": "With its settings."})
    return config.callbacks(callbacks_class=[*(each for each in present if each is not RLlibCallback), own])


def find_curriculum(algorithm: Any) -> ActuatorCurriculum:
    """Return the curriculum of an algorithm that was built from a config with :func:`add_curriculum`."""
    for callback in algorithm.callbacks:
        if isinstance(callback, CurriculumCallbacks) and callback.curriculum is not None:
            return callback.curriculum
    raise CurriculumError("the algorithm has no curriculum: call add_curriculum(config) before it is built.")


class CurriculumCallbacks(RLlibCallback):
    """Callbacks in RLlib's driver and in each env runner; :func:`add_curriculum` gives them settings.

    In an env runner it wraps the envs and reports the episodes completed in each sample, in the answer that carries the
    sample. In the driver it closes the iteration: it adds up those episodes, moves the one curriculum, and brings
    every env runner to its state, also those that were restarted and those of a loaded checkpoint.
    """

    settings: ClassVar[RunnerSettings] = RunnerSettings()

    def __init__(self) -> None:
        super().__init__()
        self.curriculum: ActuatorCurriculum | None = None
        """The driver's curriculum; None in env runners."""
        self._inertia: Any = None

    # --- in every env runner ---

    def on_environment_created(self, *, env_runner: Any, **kwargs: Any) -> None:
        """Wrap the new envs and bring them to the state that this runner follows."""
        made = env_runner.env
        if not isinstance(made, VectorEnv):
            raise CurriculumError(
                f"expected RLlib's single-agent env runner on the new API stack, got {type(env_runner).__name__} with "
                f"{type(made).__name__}: one curriculum for several agents is not supported."
            )
        training = not env_runner.config.in_evaluation
        outer = made if isinstance(made, DictInfoToList) else None
        bare = made if outer is None else outer.env
        layer = wrap_runner_env(bare, self.settings, worker=env_runner.worker_index or 0, training=training)
        if training:
            start = ActuatorCurriculum(layer.settings["config"], layer.settings["joint_names"]).state_dict()
            state = getattr(env_runner, remote.STATE_ATTRIBUTE, start)
            layer.follow(state)
            setattr(env_runner, remote.STATE_ATTRIBUTE, state)
        if outer is None:
            env_runner.env = layer
        else:  # goes on to be used: a vector wrapper that is dropped closes the envs inside
            outer.env = layer

    def on_sample_end(self, *, env_runner: Any, metrics_logger: Any, **kwargs: Any) -> None:
        """Report the completed episodes."""
        layer = find_layer(env_runner)
        if layer is not None and layer.training:
            totals = layer.collect()
            for name in _TOTALS:
                metrics_logger.log_value((_METRICS, name), getattr(totals, name), reduce="sum")

    # --- in the driver ---

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Make the curriculum for what the env runners have, and see that it is followed from now on."""
        if not algorithm.config.enable_env_runner_and_connector_v2:
            raise CurriculumError("the curriculum needs RLlib's new API stack; this config has switched it off.")
        found = [each for each in algorithm.env_runner_group.foreach_env_runner(remote.describe) if each is not None]
        if not found:
            raise CurriculumError("no env runner has an env: the curriculum needs envs to act on.")
        first = found[0]
        for other in found[1:]:
            same_settings = other["config"].to_dict() == first["config"].to_dict()  # functions do not survive pickling
            if not same_settings or other["joint_names"] != first["joint_names"]:
                raise CurriculumError("env runners have envs with different joints or settings; expected the same.")
        self.curriculum = ActuatorCurriculum(first["config"], first["joint_names"])
        self._inertia = first["inertia"]
        keep_in_checkpoints(algorithm, self.curriculum.state_dict, functools.partial(self._restore, algorithm))
        self._guard_sampling(algorithm)
        self._broadcast(algorithm)

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """Close the iteration and log it as ``adc/…``."""
        if self.curriculum is None:
            return
        totals = _totals(result.get("env_runners", {}).get(_METRICS, {}))
        self.curriculum.update(totals)
        self._broadcast(algorithm)
        result[_METRICS] = self._report(totals)

    def on_env_runners_recreated(self, *, algorithm: Any, is_evaluation: bool, **kwargs: Any) -> None:
        """Bring restarted env runners to the present state; those for evaluation pin the target by themselves."""
        if not is_evaluation:
            self._broadcast(algorithm)

    def on_evaluate_start(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Check that the evaluation envs are at the target gains."""
        group = algorithm.eval_env_runner_group
        if group is None:
            raise CurriculumError(
                "evaluation would run on the training envs and their present gains: give it env runners of its own "
                "with config.evaluation(evaluation_interval=...) or evaluation_num_env_runners."
            )
        remote.raise_errors(group.foreach_env_runner(remote.verify))

    def _guard_sampling(self, algorithm: Any) -> None:
        """Tell every env runner the state before each sample, too.

        Ray may restart an env runner between two calls without RLlib noticing; it would sample at the start gains.
        """
        plain = algorithm.restore_env_runners

        def restore_env_runners(env_runner_group: Any) -> Any:
            restored = plain(env_runner_group)
            if env_runner_group is algorithm.env_runner_group:
                self._broadcast(algorithm)
            return restored

        algorithm.restore_env_runners = restore_env_runners

    def _broadcast(self, algorithm: Any) -> None:
        if self.curriculum is None:
            return
        follow = functools.partial(remote.follow, state=self.curriculum.state_dict())
        remote.raise_errors(algorithm.env_runner_group.foreach_env_runner(follow))

    def _restore(self, algorithm: Any, state: Mapping[str, Any]) -> None:
        if self.curriculum is None:
            raise BackendError("a state cannot be restored before the algorithm is built.")
        self.curriculum.load_state_dict(state)
        self._broadcast(algorithm)

    def _report(self, totals: EpisodeTotals) -> dict[str, float]:
        curriculum = self.curriculum
        if curriculum is None:
            return {}
        stiffness = curriculum.stiffness
        damping = curriculum.config.damping_at(stiffness, self._inertia, curriculum.joint_names)
        report = {
            "stiffness": float(stiffness.mean()),
            "damping_mean": float(damping.mean()),
            "progress": curriculum.progress,
            "episode_length_ema": curriculum.length_ema,
            "success_ema": curriculum.success_ema,
            "iteration": curriculum.iteration,
            "episodes": totals.episodes,
        }
        return {**report, "episode_length_mean": totals.mean_length} if totals.episodes else report


def _totals(metrics: Mapping[str, Any]) -> EpisodeTotals:
    """The sums over all samples of the iteration; an iteration without a sample has none."""
    values = [float(metrics.get(name, 0.0)) for name in _TOTALS]
    return EpisodeTotals.from_sums([0.0 if math.isnan(value) else value for value in values])


def keep_in_checkpoints(
    algorithm: Any, state: Callable[[], dict[str, Any]], restore: Callable[[dict[str, Any]], None]
) -> None:
    """Let every checkpoint of ``algorithm`` hold the curriculum, however it is written and read.

    RLlib's callback for a loaded checkpoint is not called by ``from_checkpoint`` and ``restore_from_path``, and
    callbacks have no state of their own; all ways go through ``get_state`` and ``set_state``.

    Args:
        algorithm: The algorithm.
        state: Returns the curriculum's state.
        restore: Called with a state that was read.
    """
    plain_get, plain_set = algorithm.get_state, algorithm.set_state

    def get_state(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**plain_get(*args, **kwargs), _KEY: json.dumps(state())}

    def set_state(values: dict[str, Any]) -> None:
        plain_set({name: value for name, value in values.items() if name != _KEY})
        if _KEY in values:
            restore(json.loads(values[_KEY]))
        else:
            warnings.warn("the checkpoint has no curriculum in it: the stiffness stays where it is.", stacklevel=2)

    algorithm.get_state, algorithm.set_state = get_state, set_state


def save_checkpoint(algorithm: Any, folder: str | Path) -> Path:
    """Save ``algorithm`` as ``folder/checkpoint_<iteration>``: a run killed while saving leaves no half of one.

    One of the same iteration is replaced if it is a checkpoint. Load it with ``Algorithm.from_checkpoint(path)``.
    RLlib's checkpoints are pickles: load only your own.

    Raises:
        RunFolderError: A folder of that name is there which is no checkpoint of RLlib's.
    """
    parent = Path(folder).resolve()
    path = parent / f"checkpoint_{algorithm.training_iteration:06d}"
    if path.exists() and not all((path / name).is_file() for name in _RLLIB_FILES):
        found = ", ".join(sorted(entry.name for entry in path.iterdir())[:12]) if path.is_dir() else "it is a file"
        raise RunFolderError(
            f"{path} is in the way and no checkpoint of RLlib's ({found or 'it is empty'}), so it is not replaced. "
            "Move it away, or save into another folder."
        )
    make_folder(parent)
    stem = f".{path.name}.{uuid.uuid4().hex[:12]}"
    beside, old = parent / f"{stem}.part", parent / f"{stem}.old.part"
    algorithm.save_to_path(beside)
    if path.exists():
        path.rename(old)
    beside.rename(path)
    sync_folder(parent)
    shutil.rmtree(old, ignore_errors=True)
    return path


def latest_checkpoint(folder: str | Path) -> Path | None:
    """Return the last whole checkpoint that :func:`save_checkpoint` left in ``folder``; None if there is none."""
    return max(Path(folder).resolve().glob(_PATTERN), default=None)
