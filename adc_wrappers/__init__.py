"""Actuator Dynamics Curriculum: start a robot's joints stiff, soften them as it learns.

The curriculum and the wrappers are here; Stable-Baselines3 is under :mod:`adc_wrappers.sb3`, checks for your own
backend under :mod:`adc_wrappers.testing`.
"""

from importlib.metadata import PackageNotFoundError, version

from .core import (
    ActionNoiseCurriculum,
    ActionScaleCoupling,
    ActuatorBackend,
    ActuatorCurriculum,
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    ActuatorPort,
    BackendError,
    CurriculumConfig,
    CurriculumError,
    EpisodeTotals,
    Gains,
    IterationReport,
    MissingExtraError,
    VectorActionNoiseCurriculum,
    VectorActionScaleCoupling,
)

try:
    from .envs.registry import make_env, register_gymnasium_ids
except ModuleNotFoundError as error:
    if error.name != "adc_wrappers.envs":
        raise
    raise ImportError(
        "adc_wrappers/envs and adc_wrappers/backends must be links to the folders envs and backends, and this checkout "
        "has none: git wrote files in their place. On Windows switch on developer mode and clone again with "
        "`git clone -c core.symlinks=true`, or install a wheel, which needs no links (docs/start.md)."
    ) from error

__all__ = [
    "ActionNoiseCurriculum",
    "ActionScaleCoupling",
    "ActuatorBackend",
    "ActuatorCurriculum",
    "ActuatorCurriculumVectorWrapper",
    "ActuatorCurriculumWrapper",
    "ActuatorPort",
    "BackendError",
    "CurriculumConfig",
    "CurriculumError",
    "EpisodeTotals",
    "Gains",
    "IterationReport",
    "MissingExtraError",
    "VectorActionNoiseCurriculum",
    "VectorActionScaleCoupling",
    "__version__",
    "make_env",
]

try:
    __version__ = version("adc-wrappers")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

register_gymnasium_ids()
