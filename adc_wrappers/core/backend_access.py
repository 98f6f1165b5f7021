"""Access to the backend and the task of an env: on the env itself, or in children that are reached one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from .actuators import ActuatorBackend, Gains, check_backend_shape, to_numpy
from .errors import BackendError, CurriculumError
from .gym_bases import WrapperBase

__all__ = [
    "ActuatorPort",
    "ActuatorPortMethods",
    "ChildTasks",
    "ChildrenBackend",
    "VectorChildrenBackend",
    "find_backend",
    "find_task",
    "own_task",
]

BACKEND_ATTRIBUTE = "actuator_backend"


def find_backend(env: Any, backend: Any = None) -> ActuatorBackend:
    """Return the backend of ``env``.

    Args:
        env: The env that may carry one as ``actuator_backend``, itself or on an inner wrapper.
        backend: A backend, or a function that makes one from the env; overrides what the env carries.
    """
    if backend is not None:
        return backend if hasattr(backend, "set_gains") and not isinstance(backend, type) else backend(env)  # type: ignore[no-any-return]
    try:
        found: ActuatorBackend = env.get_wrapper_attr(BACKEND_ATTRIBUTE)
    except AttributeError:
        found_plain = getattr(getattr(env, "unwrapped", env), BACKEND_ATTRIBUTE, None)
        if found_plain is None:
            raise BackendError(
                f"{env} has no actuator backend. Pass backend= (an object with num_envs, joint_names, "
                "effective_inertia(), gains() and set_gains(), or a function that makes one from the env), or give "
                f"the env an attribute {BACKEND_ATTRIBUTE!r}."
            ) from None
        found = found_plain
    return found


def own_task(env: Any) -> Any:
    """Return the task of an env of this library, which may keep a state; None for an env that has none."""
    task = getattr(getattr(env, "unwrapped", env), "task", None)
    return task if hasattr(task, "training") and hasattr(task, "state_dict") else None


class ActuatorPortMethods:
    """Plain, picklable calls to a backend, for envs that live in worker processes."""

    def _port_backend(self) -> ActuatorBackend:
        backend: ActuatorBackend = self.actuator_backend  # type: ignore[attr-defined]
        return backend

    def adc_describe(self) -> dict[str, Any]:
        """Return what the curriculum must know about the joints."""
        backend = self._port_backend()
        return {
            "joint_names": tuple(backend.joint_names),
            "effective_inertia": check_backend_shape(backend),
            "explicit_time_step": getattr(backend, "explicit_time_step", None),
            "num_envs": backend.num_envs,
            "config": getattr(self, "adc_config", None),
            "action_joints": None if self._port_term() is None else self._port_term().joint_names,
            "task": self._port_task() is not None,
        }

    def _port_term(self) -> Any:
        return getattr(getattr(self, "unwrapped", self), "action_term", None)

    def _port_task(self) -> Any:
        return own_task(self)

    def adc_task_training(self) -> bool:
        """Return whether what eases in the task goes on easing."""
        return bool(self._port_task().training)

    def adc_train_task(self, training: bool) -> None:
        """Let what eases in the task go on easing, or stand still while a policy is evaluated."""
        self._port_task().training = training

    def adc_task_state(self) -> dict[str, Any]:
        """Return what training has changed in the task."""
        state: dict[str, Any] = self._port_task().state_dict()
        return state

    def adc_load_task(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`adc_task_state` returned; a task without a state has nothing to load."""
        if state:
            self._port_task().load_state_dict(state)

    def adc_change_actions(self, part: str, values: NDArray[np.float64] | None) -> None:
        """Give the action term its ``"factor"`` or its ``"noise"``, of shape ``(actions,)``."""
        set_part = {"factor": self._port_term().set_factor, "noise": self._port_term().set_noise}[part]
        set_part(None if values is None else np.atleast_2d(values))

    def adc_get_gains(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the live stiffness and damping, each of shape ``(joints,)``."""
        gains = self._port_backend().gains()
        return to_numpy(gains.stiffness)[0], to_numpy(gains.damping)[0]

    def adc_set_gains(self, stiffness: NDArray[np.float64], damping: NDArray[np.float64]) -> None:
        """Write stiffness and damping, each of shape ``(joints,)``."""
        self._port_backend().set_gains(np.atleast_2d(stiffness), np.atleast_2d(damping))

    @property
    def adc_gain_pair(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Live gains; assigning writes them (Gymnasium's ``set_attr`` reaches each worker with its own value)."""
        return self.adc_get_gains()

    @adc_gain_pair.setter
    def adc_gain_pair(self, pair: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
        self.adc_set_gains(*pair)

    @property
    def adc_action_change(self) -> tuple[str, NDArray[np.float64] | None]:
        """Assigning calls :meth:`adc_change_actions`, in each worker with its own value; reading says nothing."""
        return "factor", None

    @adc_action_change.setter
    def adc_action_change(self, change: tuple[str, NDArray[np.float64] | None]) -> None:
        self.adc_change_actions(*change)

    @property
    def adc_loaded_task(self) -> dict[str, Any]:
        """State of the task; assigning calls :meth:`adc_load_task`, in each worker with its own value."""
        return self.adc_task_state()

    @adc_loaded_task.setter
    def adc_loaded_task(self, state: dict[str, Any]) -> None:
        self.adc_load_task(state)


class ActuatorPort(ActuatorPortMethods, WrapperBase, gym.utils.RecordConstructorArgs):
    """An opening of one env's backend to a curriculum that lives in another process.

    Wrap each child of an ``AsyncVectorEnv`` or ``SubprocVecEnv`` whose env does not carry a backend itself; the envs
    of this library need no such wrapper.

    Args:
        env: The env.
        backend: Its backend, or a function that makes one from the env.
    """

    def __init__(self, env: gym.Env[Any, Any], backend: Any = None) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, backend=backend, _disable_deepcopy=True)
        self.actuator_backend = find_backend(env, backend)
        WrapperBase.__init__(self, env)


class ChildrenBackend(ABC):
    """A backend over children that are reached one by one; subclasses say how to call them."""

    def __init__(self, num_envs: int, descriptions: Sequence[dict[str, Any]]) -> None:
        first = descriptions[0]
        for i, description in enumerate(descriptions):
            if description["num_envs"] != 1:
                raise BackendError(f"child env {i} holds {description['num_envs']} envs; expected one per child.")
            if description["joint_names"] != first["joint_names"]:
                raise BackendError(
                    f"child env {i} has the joints {description['joint_names']}, child 0 {first['joint_names']}: "
                    "one curriculum needs the same joints everywhere."
                )
        self.num_envs = num_envs
        self.joint_names: tuple[str, ...] = first["joint_names"]
        self.explicit_time_step: float | None = first["explicit_time_step"]
        self.config = first["config"]
        self.action_joints: tuple[str, ...] | None = first.get("action_joints")
        """Joints in the order of the actions, where the children have action terms."""
        self.has_tasks = all(description.get("task", False) for description in descriptions)
        """Whether every child has a task that may keep a state beside the curriculum's."""
        self._inertia = np.mean([description["effective_inertia"] for description in descriptions], axis=0)

    def effective_inertia(self) -> NDArray[np.float64]:
        """Return the mean over the children."""
        return np.asarray(self._inertia, dtype=np.float64)

    def gains(self) -> Gains:
        """Read every child's live gains."""
        pairs = self.call_children("adc_get_gains")
        return Gains(np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs]))

    @abstractmethod
    def send_actions(self, part: str, rows: NDArray[np.float64] | None) -> None:
        """Give every child's action term its row of a factor or of noise."""

    @abstractmethod
    def call_children(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every child, with the same arguments, and return the answers."""

    @abstractmethod
    def load_task_states(self, states: Sequence[dict[str, Any]]) -> None:
        """Give every child's task its state."""


class VectorChildrenBackend(ChildrenBackend):
    """The children of a Gymnasium ``SyncVectorEnv`` or ``AsyncVectorEnv`` as one backend."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        children: Any = env.unwrapped
        self._env = children
        try:
            descriptions = children.call("adc_describe")
        except AttributeError as error:
            raise BackendError(
                f"the children of {env} do not open their actuators. Wrap each with "
                "adc_wrappers.ActuatorPort(env, backend=...), or pass backend= for the whole batch."
            ) from error
        super().__init__(env.num_envs, descriptions)

    def set_gains(
        self,
        stiffness: NDArray[np.float64],
        damping: NDArray[np.float64],
        env_ids: NDArray[np.int64] | None = None,
    ) -> None:
        """Write gains to the children; those not in ``env_ids`` are given what they have."""
        rows = self.gains() if env_ids is not None else Gains(stiffness, damping)
        if env_ids is not None:
            rows.stiffness[env_ids], rows.damping[env_ids] = stiffness, damping
        self._env.set_attr("adc_gain_pair", list(zip(rows.stiffness, rows.damping, strict=True)))

    def send_actions(self, part: str, rows: NDArray[np.float64] | None) -> None:
        """Give every child's action term its row of a factor or of noise."""
        values = [None] * self.num_envs if rows is None else list(rows)
        self._env.set_attr("adc_action_change", [(part, value) for value in values])

    def call_children(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every child, with the same arguments, and return the answers."""
        return list(self._env.call(method, *arguments))

    def load_task_states(self, states: Sequence[dict[str, Any]]) -> None:
        """Give every child's task its state."""
        self._env.set_attr("adc_loaded_task", list(states))


_ENVS = "envs"


class ChildTasks:
    """The tasks of envs that are reached one by one, such as those in worker processes, as one.

    Args:
        backend: The children; every one has a task that may keep a state.
    """

    def __init__(self, backend: ChildrenBackend) -> None:
        self._backend = backend

    @property
    def training(self) -> bool:
        """Whether what eases in training goes on easing, in every child."""
        return all(self._backend.call_children("adc_task_training"))

    @training.setter
    def training(self, training: bool) -> None:
        self._backend.call_children("adc_train_task", training)

    def state_dict(self) -> dict[str, Any]:
        """Return what training has changed in each child's task, as JSON-ready values."""
        return {_ENVS: self._backend.call_children("adc_task_state")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        states = state.get(_ENVS)
        if not isinstance(states, list) or len(states) != self._backend.num_envs:
            raise CurriculumError(
                f"task state: expected a list of {self._backend.num_envs} under {_ENVS!r}, one for each env, got "
                f"{states!r}. Load it into as many envs as it was saved with."
            )
        self._backend.load_task_states(states)


def find_task(env: Any, backend: Any) -> Any:
    """Return the task of an env of this library, or of its children; None for an env that has none.

    Args:
        env: The env, wrapped or not.
        backend: The backend that the env's curriculum writes to.

    Returns:
        An object with ``training``, ``state_dict()`` and ``load_state_dict()``.
    """
    if isinstance(backend, ChildrenBackend):
        return ChildTasks(backend) if backend.has_tasks else None
    return own_task(env)
