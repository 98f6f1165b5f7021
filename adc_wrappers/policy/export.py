"""Policy files from a torch module and a live env, or from the newest checkpoint of a run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import adc_wrappers
from adc_wrappers.core import ActuatorCurriculumVectorWrapper
from adc_wrappers.core.actuators import to_numpy
from adc_wrappers.core.controller import CurriculumController
from adc_wrappers.core.errors import BackendError, CurriculumError
from adc_wrappers.core.files import write_atomically
from adc_wrappers.core.joints import JointValues, normalize_joint_values, resolve_joint_values
from adc_wrappers.core.reading import read_object
from adc_wrappers.core.wrapper_methods import find_curriculum, layers
from adc_wrappers.envs.deployment import Deployment
from adc_wrappers.envs.fit import check_env, find_task_of, translates
from adc_wrappers.envs.registry import make_vector_env
from adc_wrappers.policy import FORMAT, VERSION, Policy, PolicyFileError, PolicyMetadata, TrainingRecord
from adc_wrappers.policy.graph import network_digest
from adc_wrappers.runs import RunFolder, RunFolderError
from adc_wrappers.training import TrainedPolicy, load_trained

from .metadata import ExportError
from .network import ClippedPolicy, largest_difference, to_onnx

__all__ = [
    "TOLERANCE",
    "ExportError",
    "ExportReport",
    "export_policy",
    "export_run",
    "find_controller",
    "find_deployment",
    "read_target_gains",
]

if TYPE_CHECKING:
    import onnx
    import torch

    from adc_wrappers.training import TrainConfig

TOLERANCE = 1e-4
"""Largest difference between the actions of the torch policy and of the file, in units of the larger of 1 and the
action; an action is of order 1."""

_RANDOM_OBSERVATIONS = 512

_ENVS = 8
_STEPS = 50

_GAIN_TOLERANCE = 1e-4
"""Relative difference that a backend's own precision may make; as the curriculum's own comparison."""


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """A report of what was written and how it was checked."""

    path: Path
    """The policy file."""

    metadata: PolicyMetadata
    """What it says about itself."""

    largest_difference: float
    """Largest difference between the actions of the torch policy and of the file, as :data:`TOLERANCE` counts it."""

    observations: int
    """Observations on which they were compared."""


def export_policy(
    module: torch.nn.Module,
    env: Any,
    path: str | Path,
    *,
    steps: int,
    config: TrainConfig | None = None,
    commit: str | None = None,
    curriculum: Mapping[str, Any] | None = None,
    commanded_stiffness: JointValues | None = None,
    commanded_damping: JointValues | None = None,
    deployment: Deployment | None = None,
    observation_scale: Sequence[float] | None = None,
    observations: NDArray[Any] | None = None,
) -> ExportReport:
    """Write a policy as ONNX with everything needed to run it.

    The gains are read from the env's backend and must be the target of the env's curriculum: export inside
    ``with env.evaluation():``, or with an env wrapped with ``training=False``. The file is compared with the module
    before it appears at ``path``.

    Args:
        module: From observations ``(n, obs)`` to actions ``(n, act)``, float32; without sampling.
        env: A live env with the curriculum inside; it is not stepped.
        path: Where the file goes; ends in ``.onnx``.
        steps: Env steps that the policy was trained for.
        config: The settings of the training run; with them ``adc eval``, ``play`` and ``view`` can make the env.
        commit: Commit of the source at training.
        curriculum: State of the curriculum at the end of training; by default the env's own.
        commanded_stiffness: K per joint that the robot is sent, where it is known.
        commanded_damping: B per joint that the robot is sent.
        deployment: Joints, pose, scale, rates and observation; by default as the env's task says.
        observation_scale: Factors by which the module multiplies its input; noted in the file.
        observations: Recorded observations on which file and module are compared, beside random ones.

    Raises:
        ExportError: The live gains are not the target's, or the file would not be equal to the module.
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise ExportError(f"expected a file name that ends in .onnx, got {path.name!r}.")
    controller = find_controller(env)
    stiffness, damping = read_target_gains(controller)
    described = deployment if deployment is not None else find_deployment(env)
    joints = tuple(controller.backend.joint_names)
    if described.joint_names != joints:
        raise ExportError(f"the backend has the joints {joints}, the deployment {described.joint_names}.")
    commanded = _commanded(commanded_stiffness, commanded_damping, joints)
    policy = ClippedPolicy(module, described.action_limit)
    model = to_onnx(policy, described.observation_size)
    metadata = PolicyMetadata(
        **{field.name: getattr(described, field.name) for field in dataclasses.fields(Deployment)},
        simulated_stiffness=tuple(stiffness.tolist()),
        simulated_damping=tuple(damping.tolist()),
        commanded_stiffness=commanded[0],
        commanded_damping=commanded[1],
        observation_scale=None if observation_scale is None else tuple(map(float, observation_scale)),
        curriculum=dict(curriculum if curriculum is not None else controller.curriculum.state_dict()),
        training=TrainingRecord(config=None if config is None else config.to_dict(), steps=steps, commit=commit),
        library_version=adc_wrappers.__version__,
        network_sha256=network_digest(model),
    )
    _describe(model, metadata)
    content = model.SerializeToString()
    difference, count = _compare(policy, content, observations)
    write_atomically(path, content)
    return ExportReport(path=path, metadata=metadata, largest_difference=difference, observations=count)


def _commanded(
    stiffness: JointValues | None, damping: JointValues | None, joints: tuple[str, ...]
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    if (stiffness is None) != (damping is None):
        raise CurriculumError("commanded gains: expected stiffness and damping, or neither; got one of them.")
    if stiffness is None:
        return None, None
    named = (("commanded_stiffness", stiffness), ("commanded_damping", damping))
    first, second = (resolve_joint_values(name, normalize_joint_values(name, v), joints) for name, v in named)
    return tuple(first.tolist()), tuple(second.tolist())


def _describe(model: onnx.ModelProto, metadata: PolicyMetadata) -> None:
    """Put the metadata into the model: the document, and a few lines for people who look at it."""
    config = metadata.training.config or {}
    unknown = "unknown: not given at export"
    entries = {
        "adc.format": f"{FORMAT} {VERSION}",
        "adc.task": str(config.get("task", "")),
        "adc.joint_names": " ".join(metadata.joint_names),
        "adc.simulated_stiffness": json.dumps(metadata.simulated_stiffness),
        "adc.simulated_damping": json.dumps(metadata.simulated_damping),
        "adc.commanded_stiffness": json.dumps(metadata.commanded_stiffness)
        if metadata.commanded_stiffness
        else unknown,
        "adc.commanded_damping": json.dumps(metadata.commanded_damping) if metadata.commanded_damping else unknown,
        "adc.policy_rate_hz": f"{metadata.policy_rate:g}",
        **metadata.entries(),
    }
    for key, value in entries.items():
        model.metadata_props.add(key=key, value=value)
    model.producer_name, model.producer_version = "adc-wrappers", metadata.library_version


def _compare(policy: ClippedPolicy, content: bytes, recorded: NDArray[Any] | None) -> tuple[float, int]:
    """Load what would be written and compare it with the module; return the difference and on how many."""
    try:
        loaded = Policy(content)
    except PolicyFileError as error:
        raise ExportError(
            f"the exported policy is not fit to be written: {error} If the network has a fixed batch, look for len(x) "
            "and torch.chunk in the module: x.shape[0] and slices leave it open."
        ) from error
    size = loaded.metadata.observation_size
    random = np.random.default_rng(0).standard_normal((_RANDOM_OBSERVATIONS, size))
    observations = random if recorded is None else np.concatenate((random, np.reshape(recorded, (-1, size))))
    difference = largest_difference(policy, loaded, observations)
    if not difference <= TOLERANCE:
        raise ExportError(
            f"the exported policy differs from the torch policy by {difference:.3g} (at most {TOLERANCE:g} is "
            "accepted), so it is not written. Does the module depend on the batch, or draw random numbers?"
        )
    return difference, len(observations)


def export_run(
    folder: RunFolder,
    path: Path,
    *,
    commanded_stiffness: JointValues | None = None,
    commanded_damping: JointValues | None = None,
    device: str | None = None,
) -> ExportReport:
    """Write the newest policy of a run as a policy file.

    The task's env is made anew, the target gains are pinned, the policy runs some steps in it, and the gains are read
    back after that.

    Args:
        folder: The run folder.
        path: Where the file goes.
        commanded_stiffness: K per joint that the robot is sent, where it is known.
        commanded_damping: B per joint that the robot is sent.
        device: Where a simulator of tensors runs meanwhile; by default where the policy was trained.
    """
    trained = load_trained(folder, device)
    config = trained.config
    env = make_vector_env(config.task, backend=config.backend, num_envs=_ENVS, settings=config.settings, seed=0)
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


def find_controller(env: Any) -> CurriculumController:
    """Return the controller of the curriculum inside ``env``."""
    missing = ExportError(
        f"{type(env).__name__} has no curriculum inside, so its target gains are not known. Wrap the env with "
        "ActuatorCurriculumWrapper(env, config, training=False), which pins them, and export with that."
    )
    return find_curriculum(env, missing).adc


def read_target_gains(controller: CurriculumController) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read the live gains from the backend and return stiffness and damping per joint, if they are the target's.

    Raises:
        ExportError: A joint of some env has other gains than the curriculum's target.
    """
    target = controller.curriculum.target_stiffness
    expected = {"stiffness": target, "damping": controller.damping(target)}
    live = controller.backend.gains()
    for name, wanted in expected.items():
        found = to_numpy(getattr(live, name))
        wrong = np.argwhere(~(np.abs(found - wanted) <= _GAIN_TOLERANCE * wanted))  # NaN is wrong too
        if len(wrong):
            env, joint = wrong[0]
            raise ExportError(
                f"the live gains are not the target's: joint {controller.backend.joint_names[joint]!r} of env {env} "
                f"has {name} {found[env, joint]:g}, and the curriculum's target is {wanted[joint]:g}. A policy file "
                "promises the target gains. Export inside `with env.evaluation():`, or with an env that was wrapped "
                "with training=False, and evaluate the policy there first."
            )
    return to_numpy(live.stiffness)[0], to_numpy(live.damping)[0]


def find_deployment(env: Any) -> Deployment:
    """Return what the task inside ``env`` says about running its policies, if the policy sees the task as it is.

    Raises:
        ExportError: There is no task of this library inside, or a wrapper changes observations or actions.
    """
    for layer in layers(env):
        if translates(layer):
            raise ExportError(
                f"{type(layer).__name__} changes what the policy sees or does, and a policy file has only the network. "
                "Put that change into the module and export with an env without the wrapper, or say with deployment= "
                "what the module's numbers are."
            )
    try:
        task = find_task_of(env)
    except BackendError as error:
        raise ExportError(f"{error} Pass deployment= (adc_wrappers.envs.Deployment).") from error
    found: Deployment = task.deployment()
    return found
