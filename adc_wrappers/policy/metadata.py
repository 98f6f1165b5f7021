"""Metadata of a policy file, what it says about itself: one JSON document in the ONNX metadata."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adc_wrappers.backends.limiter import CommandLimits
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.core.reading import parse_json
from adc_wrappers.envs.deployment import Deployment, ObservationPart, check_per_joint

__all__ = [
    "DIGEST_KEY",
    "FORMAT",
    "METADATA_KEY",
    "VERSION",
    "ExportError",
    "PolicyFileError",
    "PolicyMetadata",
    "PolicyOutputError",
    "TrainingRecord",
]


class PolicyFileError(ValueError):
    """A policy file that is missing, broken, foreign, or does not say what is needed to run it."""


class PolicyOutputError(ValueError):
    """A policy that was given, or gave, numbers that are not finite."""


class ExportError(ValueError):
    """A policy that cannot be exported; no file is left behind."""


FORMAT = "adc-policy"
VERSION = 1
METADATA_KEY = "adc_policy"
"""Key of the JSON document; the plain ``adc.*`` keys beside it are for people and are not read."""

DIGEST_KEY = "adc_policy_sha256"
"""Key of the document's SHA-256, so that a damaged number is not taken for a gain."""

_GAINS = ("simulated_stiffness", "simulated_damping", "commanded_stiffness", "commanded_damping")


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """The origin of a policy."""

    config: dict[str, Any] | None
    """The run's ``TrainConfig`` as a dict: task, backend, settings, seed, curriculum, algorithm. None for a training
    loop of the user's own."""

    steps: int
    """Env steps that it was trained for."""

    commit: str | None
    """Commit of the library's source tree at training; None where there was none."""

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 0:
            raise CurriculumError(f"training.steps: expected a whole number, not negative, got {self.steps!r}.")
        if not isinstance(self.config, dict | None):
            raise CurriculumError(f"training.config: expected the settings or null, got {self.config!r}.")
        if not isinstance(self.commit, str | None):
            raise CurriculumError(f"training.commit: expected a text or null, got {self.commit!r}.")


@dataclass(frozen=True, kw_only=True)
class PolicyMetadata(Deployment):
    """Everything needed to run a policy, beside its weights."""

    simulated_stiffness: tuple[float, ...]
    """K per joint at which the simulator behaves like the robot, as read from it at export: the curriculum's target."""

    simulated_damping: tuple[float, ...]
    """B per joint, likewise."""

    commanded_stiffness: tuple[float, ...] | None
    """K per joint that is sent to the robot: another number than the simulated one. None: not known."""

    commanded_damping: tuple[float, ...] | None
    """B per joint that is sent to the robot; None: not known."""

    observation_scale: tuple[float, ...] | None
    """Factors by which the network multiplies its input, one per number; None if it takes it as it is. They are
    inside the network: the caller never scales."""

    curriculum: dict[str, Any]
    """State of the curriculum at the end of training, its settings included."""

    training: TrainingRecord
    """Where the policy comes from."""

    library_version: str
    """Version of adc-wrappers that exported it."""

    network_sha256: str
    """SHA-256 over operators, connections and weights: :func:`adc_wrappers.policy.graph.network_digest`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _GAINS:
            values = getattr(self, name)
            if values is not None:
                check_per_joint(name, values, len(self.joint_names), positive=True)
        if (self.commanded_stiffness is None) != (self.commanded_damping is None):
            raise CurriculumError("commanded gains: expected stiffness and damping, or neither; got one of them.")
        if self.observation_scale is not None and len(self.observation_scale) != self.observation_size:
            raise CurriculumError(
                f"observation_scale: expected {self.observation_size} factors, one per number of the observation, "
                f"got {len(self.observation_scale)}."
            )

    def to_json(self) -> str:
        """Return the document that is stored in the file."""
        values = {"format": FORMAT, "version": VERSION, **dataclasses.asdict(self)}
        if self.limiter is None:
            del values["limiter"]  # as files of versions without one are
        else:
            values["limiter"] = self.limiter.to_dict()
        return json.dumps(values, indent=1, allow_nan=False)

    def entries(self) -> dict[str, str]:
        """Return the entries of the ONNX metadata that the runtime reads, in the order in which they are stored.

        The document is last in the file, so that a file that is cut off anywhere lacks it.
        """
        text = self.to_json()
        return {DIGEST_KEY: hashlib.sha256(text.encode()).hexdigest(), METADATA_KEY: text}

    @classmethod
    def from_entries(cls, entries: Mapping[str, str]) -> PolicyMetadata:
        """Read what :meth:`entries` returned.

        Raises:
            PolicyFileError: An entry is missing, damaged, or does not say everything.
        """
        missing = [key for key in (METADATA_KEY, DIGEST_KEY) if key not in entries]
        if missing:
            raise PolicyFileError(
                f"the ONNX metadata lacks {' and '.join(missing)}. The file does not say which joints, gains and rates "
                "it is for, so it is not run: export the policy with `adc export`."
            )
        text = entries[METADATA_KEY]
        if hashlib.sha256(text.encode()).hexdigest() != entries[DIGEST_KEY]:
            raise PolicyFileError(
                f"the metadata is not what was exported (its SHA-256 is not the one under {DIGEST_KEY}). The file is "
                "damaged or was changed: get it again, or export the policy again."
            )
        return cls.from_json(text)

    @classmethod
    def from_json(cls, text: str) -> PolicyMetadata:
        """Read the document; whatever is missing, unknown or of another kind raises.

        Raises:
            PolicyFileError: Says which keys.
        """
        values = parse_json(text, "the policy's metadata", PolicyFileError, constants=False)
        if not isinstance(values, dict):
            raise PolicyFileError(f"the policy's metadata: expected a JSON object, got {type(values).__name__}.")
        _check_format(values)
        values.setdefault("limiter", None)
        _check_keys("", values, {"format", "version", *_names(cls)})
        try:
            return cls(**{name: _value(name, values[name]) for name in _names(cls)})
        except CurriculumError as error:
            raise PolicyFileError(f"the policy's metadata cannot be used: {error}") from error


def _names(cls: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def _check_format(values: Mapping[str, Any]) -> None:
    found = values.get("format"), values.get("version")
    if found != (FORMAT, VERSION):
        raise PolicyFileError(
            f"expected a policy file of format {FORMAT!r} version {VERSION}, got {found[0]!r} version {found[1]!r}. "
            "Use the library version that wrote it, or export the policy again."
        )


def _check_keys(where: str, values: Mapping[str, Any], expected: set[str]) -> None:
    """Raise unless ``values`` has exactly the expected keys."""
    missing, unknown = sorted(expected - values.keys()), sorted(values.keys() - expected)
    problems = []
    if missing:
        problems.append("lacks " + ", ".join(where + name for name in missing))
    if unknown:
        problems.append("has unknown " + ", ".join(where + name for name in unknown))
    if problems:
        raise PolicyFileError(
            f"the policy's metadata {' and '.join(problems)}. A policy is run only if its file says everything: "
            "export it again with this library."
        )


def _value(name: str, value: Any) -> Any:
    """Return a JSON value as the field's own type."""
    if name == "joint_names":
        return tuple(_text(f"{name}[{i}]", item) for i, item in enumerate(_list(name, value)))
    if name in ("nominal_pose", "action_scale", "simulated_stiffness", "simulated_damping"):
        return _numbers(name, value)
    if name in ("commanded_stiffness", "commanded_damping", "observation_scale"):
        return None if value is None else _numbers(name, value)
    if name in ("action_limit", "policy_step", "physics_step"):
        return _number(name, value)
    if name == "observation":
        return tuple(_part(f"{name}[{i}].", item) for i, item in enumerate(_list(name, value)))
    if name == "limiter":
        return None if value is None else _limiter(_dict(name, value))
    if name == "training":
        _check_keys("training.", _dict(name, value), set(_names(TrainingRecord)))
        return TrainingRecord(**value)
    return _dict(name, value) if name == "curriculum" else _text(name, value)


def _limiter(value: dict[str, Any]) -> CommandLimits:
    _check_keys("limiter.", value, set(_names(CommandLimits)))
    return CommandLimits.from_dict(value)


def _part(where: str, value: Any) -> ObservationPart:
    _check_keys(where, _dict(where, value), set(_names(ObservationPart)))
    texts = {name: _text(where + name, value[name]) for name in ("name", "unit", "meaning")}
    if isinstance(value["size"], bool) or not isinstance(value["size"], int):
        raise CurriculumError(f"{where}size: expected a whole number, got {value['size']!r}.")
    return ObservationPart(size=value["size"], **texts)


def _dict(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CurriculumError(f"{name}: expected an object, got {value!r}.")
    return value


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise CurriculumError(f"{name}: expected a list, got {value!r}.")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise CurriculumError(f"{name}: expected a text, got {value!r}.")
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CurriculumError(f"{name}: expected a number, got {value!r}.")
    return float(value)


def _numbers(name: str, value: Any) -> tuple[float, ...]:
    return tuple(_number(f"{name}[{i}]", item) for i, item in enumerate(_list(name, value)))
