"""The contracts that physics engines and robots fulfil."""

from __future__ import annotations

from adc_wrappers.core.actuators import ActuatorBackend, Gains
from adc_wrappers.core.errors import BackendError, MissingExtraError

__all__ = ["ActuatorBackend", "BackendError", "Gains", "MissingExtraError"]
