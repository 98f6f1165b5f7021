"""The runtime of policy files, with onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adc_wrappers.backends.limiter import CommandLimiter
from adc_wrappers.backends.spot_model import PLANAR_SPOT, SPOT
from adc_wrappers.core.errors import CurriculumError, MissingExtraError
from adc_wrappers.envs.fit import MadeFor

from . import graph
from .metadata import PolicyFileError, PolicyMetadata, PolicyOutputError

try:
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as states
except ImportError as error:
    raise MissingExtraError("onnxruntime", "export", "Running a policy file") from error

if TYPE_CHECKING:
    from adc_wrappers.training import TrainConfig

__all__ = ["Policy", "load"]

_PROBE_BATCH = 3

_RUNTIME_ERRORS = (
    states.EPFail,
    states.Fail,
    states.InvalidArgument,
    states.InvalidGraph,
    states.InvalidProtobuf,
    states.NoSuchFile,
    states.NotImplemented,
    states.RuntimeException,
)
"""What onnxruntime raises; its exceptions have no base of their own."""


class Policy:
    """A policy from a file; call it with observations for actions.

    Args:
        content: The bytes of the ONNX file.
        threads: Threads of onnxruntime; one is fastest for networks of this size.

    Raises:
        PolicyFileError: The file is broken, foreign, incomplete, or its network has other sizes than it says.
    """

    def __init__(self, content: bytes, *, threads: int = 1) -> None:
        if threads < 1:
            raise ValueError(f"threads: expected at least 1, got {threads}.")
        model = graph.parse(content)
        self.metadata = PolicyMetadata.from_entries(graph.metadata_entries(model))
        """What the file says about itself."""
        graph.check_sizes(model, self.metadata.observation_size, len(self.metadata.joint_names))
        graph.check_network(model, self.metadata.network_sha256)
        self._session = _session(model.SerializeToString(), threads)  # what was checked, and nothing else
        self._input: str = self._session.get_inputs()[0].name
        self._nominal = np.array(self.metadata.nominal_pose)
        self._scale = np.array(self.metadata.action_scale)
        self._probe()

    def _probe(self) -> None:
        """Run once, so that a network that cannot run says so here."""
        zeros = np.zeros((_PROBE_BATCH, self.metadata.observation_size), dtype=np.float32)
        expected = (_PROBE_BATCH, len(self.metadata.joint_names))
        try:
            actions = self._session.run(None, {self._input: zeros})[0]
        except _RUNTIME_ERRORS as error:
            raise PolicyFileError(f"the network cannot be run: {error}") from error
        if actions.shape != expected or not np.isfinite(actions).all():
            raise PolicyFileError(
                f"the network answers {_PROBE_BATCH} observations of zeros with an array of shape {actions.shape}; "
                f"expected finite numbers of shape {expected}."
            )

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints in the order of actions and targets."""
        return self.metadata.joint_names

    @property
    def steps(self) -> int:
        """Env steps that it was trained for."""
        return self.metadata.training.steps

    @property
    def curriculum(self) -> dict[str, Any]:
        """State of the curriculum at the end of training."""
        return self.metadata.curriculum

    @property
    def made_for(self) -> MadeFor:
        """The env that it was made for; :func:`adc_wrappers.policy.check_env` compares it with another."""
        metadata = self.metadata
        return MadeFor(deployment=metadata, stiffness=metadata.simulated_stiffness, damping=metadata.simulated_damping)

    @property
    def config(self) -> TrainConfig:
        """The settings of its training run, enough to make its env again.

        Raises:
            PolicyFileError: It was exported from a training loop that has none.
        """
        from adc_wrappers.training import TrainConfig

        values = self.metadata.training.config
        if values is None:
            raise PolicyFileError(
                "this policy was exported without the settings of a training run, so its env cannot be made from the "
                "file. Make the env yourself, or export with config= (a TrainConfig)."
            )
        try:
            return TrainConfig.from_dict(values)
        except CurriculumError as error:
            raise PolicyFileError(f"the training settings in the file cannot be used: {error}") from error

    def __call__(self, observation: ArrayLike) -> NDArray[np.float32]:
        """Return the action for one observation ``(obs,)``, or the actions for a batch ``(n, obs)``.

        Raises:
            ValueError: The observation has another shape.
            PolicyOutputError: The observation or the answer is not finite.
        """
        values = np.ascontiguousarray(observation, dtype=np.float32)
        size = self.metadata.observation_size
        if values.ndim not in (1, 2) or values.shape[-1] != size:
            raise ValueError(f"observation: expected the shape ({size},) or (n, {size}), got {values.shape}.")
        if not np.isfinite(values).all():
            raise PolicyOutputError("the observation is not all finite numbers; the policy is not asked.")
        actions: NDArray[np.float32] = self._session.run(None, {self._input: values.reshape(-1, size)})[0]
        if not np.isfinite(actions).all():
            raise PolicyOutputError("the policy's answer is not all finite numbers; it must not be sent to a robot.")
        return actions[0] if values.ndim == 1 else actions

    def limiter(self, held: ArrayLike) -> CommandLimiter:
        """Return the command limiter that the policy was trained behind, for robots that hold these targets.

        Args:
            held: ``(n, joints)``, rad: the targets before the policy's first.

        Raises:
            PolicyFileError: The file names none, or joints that no table of this library has.
        """
        limits = self.metadata.limiter
        if limits is None:
            raise PolicyFileError("this policy was trained without a command limiter: its targets act as they are.")
        robot = next((spec for spec in (SPOT, PLANAR_SPOT) if spec.joint_names == self.joint_names), None)
        if robot is None:
            raise PolicyFileError(f"no table of joints is known for {', '.join(self.joint_names)}.")
        return CommandLimiter(limits, robot, self.metadata.policy_step, np.array(held, dtype=np.float64, ndmin=2))

    def targets(self, action: ArrayLike) -> NDArray[np.float64]:
        """Return joint targets ``q_0 + α clip(a)`` for an action or a batch of them.

        Raises:
            PolicyFileError: The policy was trained behind a command limiter; see :meth:`limited_targets`.
        """
        if self.metadata.limiter is not None:
            raise PolicyFileError(
                "this policy was trained behind a command limiter, and its targets must not reach joints without it: "
                "make the limiter with policy.limiter(held) and use policy.limited_targets()."
            )
        return self._asked(action)

    def limited_targets(
        self, action: ArrayLike, limiter: CommandLimiter, positions: Any, velocities: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the limiter lets through of the targets of a batch of actions, and remember it there.

        Args:
            action: ``(n, joints)``.
            limiter: What :meth:`limiter` made.
            positions: Measured joint positions, rad.
            velocities: Measured joint velocities, rad/s.

        Returns:
            The targets, and what the next observation has as the last action.

        Raises:
            PolicyFileError: It is another limiter than the policy was trained behind.
        """
        if limiter.limits != self.metadata.limiter:
            raise PolicyFileError(
                f"the policy was trained behind the command limiter {self.metadata.limiter}, and this is "
                f"{limiter.limits}: make it with policy.limiter(held)."
            )
        gains = (np.array(self.metadata.simulated_stiffness), np.array(self.metadata.simulated_damping))
        targets = limiter(self._asked(action), positions, velocities, *gains)
        limiter.accept(targets)
        return targets, (targets - self._nominal) / self._scale

    def _asked(self, action: ArrayLike) -> NDArray[np.float64]:
        values = np.asarray(action, dtype=np.float64)
        joints = len(self.joint_names)
        if values.shape[-1:] != (joints,) or not np.isfinite(values).all():
            raise ValueError(f"action: expected {joints} finite numbers, one per joint, got {values}.")
        limit = self.metadata.action_limit
        return np.asarray(self._nominal + self._scale * np.clip(values, -limit, limit))


def _session(content: bytes, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except _RUNTIME_ERRORS as error:
        raise PolicyFileError(f"onnxruntime does not accept the network: {error}") from error


def load(path: str | Path, *, threads: int = 1) -> Policy:
    """Load a policy that ``adc export`` wrote.

    Only weights and a graph of standard operators are read: no pickles, no other files.

    Args:
        path: The ``.onnx`` file.
        threads: Threads of onnxruntime.

    Raises:
        PolicyFileError: The file is missing, broken, foreign or incomplete; says what.
    """
    file = Path(path)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise PolicyFileError(
            f"{file} cannot be read ({error.strerror}). Policies are made by `adc export`."
        ) from error
    try:
        return Policy(content, threads=threads)
    except PolicyFileError as error:
        raise PolicyFileError(f"{file}: {error}") from error
