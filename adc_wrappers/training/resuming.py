"""Parts of a checkpoint beside weights and curriculum, so that a resumed run goes on as if it had not stopped."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from adc_wrappers.core.env_states import EnvState, EnvStateError, pack_state, part_of, unpack_state
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.core.reading import check_fields
from adc_wrappers.core.wrapper_methods import CurriculumMethods
from adc_wrappers.runs import Checkpoint, CheckpointError

__all__ = [
    "checkpoint_parts",
    "env_parts",
    "kept_random_states",
    "load_random_states",
    "load_running",
    "load_torch_random_state",
    "random_states",
    "read_learning_rate",
    "read_state",
    "running_state",
    "seed_generators",
]

_LAYOUT, _ARRAYS = "envs.json", "envs.bin"
_VERSION = 1


def running_state(wrapper: CurriculumMethods, trainer: EnvState) -> EnvState | None:
    """Return the states of the envs with what a trainer holds of their running episodes; None if they have none.

    Take it once in every iteration, written or not: it may put the envs into that state anew, and a run must not depend
    on how often it is written.
    """
    envs = wrapper.env_state()
    return None if envs is None else {"version": _VERSION, "envs": envs, "trainer": trainer}


def env_parts(state: EnvState | None) -> dict[str, bytes]:
    """Return a running state as parts of a checkpoint; none if there is none."""
    if state is None:
        return {}
    layout, arrays = pack_state(state)
    return {_LAYOUT: layout, _ARRAYS: arrays}


def checkpoint_parts(
    wrapper: CurriculumMethods, *, steps: int, learning_rate: Any, parameters: Any, running: EnvState | None
) -> dict[str, bytes]:
    """Return the parts of a checkpoint, the same for every trainer.

    Args:
        wrapper: The curriculum's wrapper.
        steps: Env steps so far, summed over envs.
        learning_rate: The present one, as the trainer reads it again.
        parameters: Tensors of networks and optimizer, in whatever dicts and lists.
        running: What :func:`running_state` returned when the iteration ended.
    """
    import torch

    from .trained import tensor_bytes

    state = {
        "num_timesteps": steps,
        "curriculum": wrapper.state_dict(),
        "task": None if wrapper.inner_task is None else wrapper.inner_task.state_dict(),
        "learning_rate": learning_rate,
        **random_states(),
    }
    return {
        "state.json": json.dumps(state).encode(),
        "parameters.pt": tensor_bytes(parameters),
        "torch_rng.pt": tensor_bytes(torch.get_rng_state()),
        **env_parts(running),
    }


def load_running(checkpoint: Checkpoint, wrapper: CurriculumMethods) -> EnvState | None:
    """Put the envs where they were, after the curriculum has been loaded, and return the trainer's part.

    Returns:
        None if the checkpoint holds no states of envs, or those of another version: the envs must be reset, and the
        curriculum's averages are protected, which it says in the log.

    Raises:
        CheckpointError: The states are broken, or belong to other envs.
    """
    if _LAYOUT not in checkpoint.files or _ARRAYS not in checkpoint.files:
        return None
    try:
        state = unpack_state(checkpoint.files[_LAYOUT], checkpoint.files[_ARRAYS])
        if state.get("version") != _VERSION:
            return None
        wrapper.load_env_state(part_of(state, "envs"))
        trainer: EnvState = part_of(state, "trainer")
    except (BackendError, CurriculumError, EnvStateError) as error:
        raise CheckpointError(f"{checkpoint.path}: {error}") from error
    return trainer


def seed_generators(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch."""
    import torch

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (the global one is what others may draw from)
    torch.manual_seed(seed)


def random_states() -> dict[str, Any]:
    """Return the states of Python's and numpy's global generators as JSON-ready values."""
    numpy_state: Any = np.random.get_state(legacy=False)  # noqa: NPY002 (SB3 draws its minibatches from it)
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()
    return {"python_rng": random.getstate(), "numpy_rng": numpy_state}


def load_random_states(state: dict[str, Any]) -> None:
    """Restore what :func:`random_states` returned.

    Raises:
        CheckpointError: It is something else; the generators are as they were, or as it says.
    """
    try:
        version, internal, gauss = state["python_rng"]
        random.setstate((version, tuple(internal), gauss))
        numpy_state = state["numpy_rng"]
        key = np.array(numpy_state["state"]["key"], dtype=np.uint32)
        np.random.set_state({**numpy_state, "state": {**numpy_state["state"], "key": key}})  # noqa: NPY002
    except (LookupError, TypeError, ValueError, OverflowError) as error:  # in Python's and numpy's words
        raise CheckpointError(f"the random states cannot be read ({error!r}); use an earlier checkpoint.") from error


@dataclass
class _StateKinds:
    """Kinds of what every trainer keeps in ``state.json``."""

    num_timesteps: int
    curriculum: dict[str, Any]
    task: dict[str, Any] | None = None


def read_state(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the ``state.json`` of a checkpoint that a training goes on from.

    Raises:
        CheckpointError: It lacks what every trainer keeps there.
    """
    state = checkpoint.json("state.json")
    check_fields(_StateKinds, state, f"{checkpoint.path}: state.json", CheckpointError, more=True)
    if state["num_timesteps"] < 0:
        raise CheckpointError(f"{checkpoint.path}: expected steps that are not negative, got {state['num_timesteps']}.")
    return state


def read_learning_rate(checkpoint: Checkpoint, value: Any) -> float:
    """Return a learning rate of a checkpoint.

    Raises:
        CheckpointError: It is not a positive number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < np.inf:
        raise CheckpointError(f"{checkpoint.path}: expected a positive learning rate, got {value!r}.")
    return float(value)


def load_torch_random_state(checkpoint: Checkpoint, state: Any) -> None:
    """Restore torch's generator from what a checkpoint holds of it.

    Raises:
        CheckpointError: It is no state of a generator.
    """
    import torch

    try:
        torch.set_rng_state(state)
    except (TypeError, RuntimeError, AttributeError) as error:
        raise CheckpointError(f"{checkpoint.path}: torch's random state cannot be read ({error}).") from error


@contextmanager
def kept_random_states() -> Iterator[None]:
    """Give the global generators of Python, numpy and torch back as they were: who looks on changes nothing."""
    import torch

    state = random_states()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            load_random_states(state)
