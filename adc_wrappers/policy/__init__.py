"""Policy files: ONNX with everything needed to run them, and a runtime that refuses files that do not say.

Needs numpy, onnx and onnxruntime; torch only to write them (:mod:`adc_wrappers.policy.export`).
"""

from adc_wrappers.envs.fit import MadeFor, PolicyEnvError, check_env, env_differences

from .metadata import (
    DIGEST_KEY,
    FORMAT,
    METADATA_KEY,
    VERSION,
    PolicyFileError,
    PolicyMetadata,
    PolicyOutputError,
    TrainingRecord,
)
from .runtime import Policy, load

__all__ = [
    "DIGEST_KEY",
    "FORMAT",
    "METADATA_KEY",
    "VERSION",
    "MadeFor",
    "Policy",
    "PolicyEnvError",
    "PolicyFileError",
    "PolicyMetadata",
    "PolicyOutputError",
    "TrainingRecord",
    "check_env",
    "env_differences",
    "load",
]
