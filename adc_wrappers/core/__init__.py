"""The curriculum and its wrappers: numpy and gymnasium, nothing else."""

from .action_wrappers import (
    ActionNoiseCurriculum,
    ActionScaleCoupling,
    VectorActionNoiseCurriculum,
    VectorActionScaleCoupling,
)
from .actuators import ActuatorBackend, Gains, damping_for
from .backend_access import ActuatorPort
from .config import CurriculumConfig
from .controller import CurriculumController
from .curriculum import ActuatorCurriculum
from .drivers import DRIVERS, IterationReport
from .episode_totals import EpisodeTotals
from .errors import BackendError, CurriculumError, MissingExtraError
from .joints import JointValues
from .vector_wrapper import ActuatorCurriculumVectorWrapper
from .wrapper import ActuatorCurriculumWrapper

__all__ = [
    "DRIVERS",
    "ActionNoiseCurriculum",
    "ActionScaleCoupling",
    "ActuatorBackend",
    "ActuatorCurriculum",
    "ActuatorCurriculumVectorWrapper",
    "ActuatorCurriculumWrapper",
    "ActuatorPort",
    "BackendError",
    "CurriculumConfig",
    "CurriculumController",
    "CurriculumError",
    "EpisodeTotals",
    "Gains",
    "IterationReport",
    "JointValues",
    "MissingExtraError",
    "VectorActionNoiseCurriculum",
    "VectorActionScaleCoupling",
    "damping_for",
]
