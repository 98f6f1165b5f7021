"""Functions that the driver runs in env runners.

RLlib ends an env runner in which such a function raises and may restart it for ever. Errors of the curriculum are
therefore returned, and raised in the driver, where the user sees them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adc_wrappers.core.errors import BackendError, CurriculumError

from .runner import find_layer

__all__ = ["STATE_ATTRIBUTE", "describe", "follow", "raise_errors", "verify"]

STATE_ATTRIBUTE = "adc_state"
"""Where an env runner keeps the state that it follows, for envs that it makes anew."""


def describe(env_runner: Any) -> dict[str, Any] | None:
    """Return the settings of the runner's curriculum; None if the runner has no env."""
    layer = find_layer(env_runner)
    return None if layer is None else layer.settings


def follow(env_runner: Any, state: dict[str, Any]) -> str | None:
    """Bring the runner's envs to ``state``, unless they are there; return what went wrong."""
    layer = find_layer(env_runner)
    if layer is None or getattr(env_runner, STATE_ATTRIBUTE, None) == state:
        return None
    try:
        layer.follow(state)
    except (BackendError, CurriculumError) as error:
        return f"env runner {env_runner.worker_index}: {error}"
    setattr(env_runner, STATE_ATTRIBUTE, state)
    return None


def verify(env_runner: Any) -> str | None:
    """Compare the runner's live gains with what was written; return what went wrong."""
    layer = find_layer(env_runner)
    if layer is None:
        return None
    try:
        layer.verify()
    except BackendError as error:
        return f"env runner {env_runner.worker_index}: {error}"
    return None


def raise_errors(answers: Iterable[str | None]) -> None:
    """Raise what the env runners answered, if anything went wrong."""
    errors = [answer for answer in answers if answer is not None]
    if errors:
        raise BackendError("\n".join(errors))
