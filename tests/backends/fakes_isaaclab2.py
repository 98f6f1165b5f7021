"""Isaac Lab 2.1 to 2.3.2 without Isaac Sim: classes, tensors, aliasing and failure modes, with a physics of one line.

Written from a description of that release's behaviour, not from its source:

- ``robot.actuators`` is a dict; implicit and explicit groups own tensors ``(num_envs, joints in the group)``;
- explicit groups get zero gains in the solver, and their configured ones in ``data.default_joint_*``;
- a gain that the config leaves out *is* the tensor of the defaults;
- ``write_joint_stiffness_to_sim`` changes the solver and never the group, needs tensors as env ids, and copies the
  whole buffer through the host;
- ``reset`` leaves gains alone; ``randomize_actuator_gains`` starts from the defaults at every call;
- the mass matrix has six coordinates of a floating base before the joints, and no armature.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch


class FakeActuator:
    """A group of joints."""

    is_implicit_model = False

    def __init__(self, joints: Any, stiffness: torch.Tensor, damping: torch.Tensor, limit: float = 1e9) -> None:
        self.joint_indices = joints
        self.stiffness, self.damping = stiffness, damping
        self.limit = limit
        self.applied_effort = torch.zeros_like(stiffness)

    def torque(self, target: torch.Tensor, position: torch.Tensor, velocity: torch.Tensor) -> torch.Tensor:
        effort = self.stiffness * (target - position) - self.damping * velocity
        self.applied_effort = effort.clip(-self.limit, self.limit)
        return self.applied_effort


class ImplicitActuator(FakeActuator):
    is_implicit_model = True


class IdealPDActuator(FakeActuator):
    pass


class ActuatorNetMLP(FakeActuator):
    """A learned actuator: it inherits gains that nothing uses."""


class FakeView:
    """PhysX: joints that are double integrators under drives and torques."""

    def __init__(self, num_envs: int, inertia: torch.Tensor, floating: bool) -> None:
        self._inertia = inertia
        self._offset = 6 if floating else 0
        self.stiffness, self.damping = torch.zeros(num_envs, len(inertia)), torch.zeros(num_envs, len(inertia))
        self.host_copies = 0

    def set_dof_stiffnesses(self, values: torch.Tensor, indices: torch.Tensor) -> None:
        self.host_copies += 1
        self.stiffness[indices] = values[indices]

    def set_dof_dampings(self, values: torch.Tensor, indices: torch.Tensor) -> None:
        self.host_copies += 1
        self.damping[indices] = values[indices]

    def get_generalized_mass_matrices(self) -> torch.Tensor:
        diagonal = torch.cat((torch.full((self._offset,), 30.0), self._inertia))
        return torch.diag(diagonal).repeat(len(self.stiffness), 1, 1)


class FakeArticulation:
    """``Articulation`` of Isaac Lab 2.x."""

    device = "cpu"

    def __init__(self, num_envs: int, inertia: Any, armature: float = 0.0, floating: bool = True) -> None:
        self.inertia = torch.as_tensor(inertia, dtype=torch.float32)
        self.armature = armature
        count = len(self.inertia)
        self.joint_names = [f"j{i}" for i in range(count)]
        shape = (num_envs, count)
        self.root_physx_view = FakeView(num_envs, self.inertia, floating)
        self.data = SimpleNamespace(
            joint_stiffness=torch.zeros(shape),
            joint_damping=torch.zeros(shape),
            default_joint_stiffness=torch.full(shape, 60.0),
            default_joint_damping=torch.full(shape, 1.5),
            joint_armature=torch.full(shape, armature),
            joint_pos=torch.zeros(shape),
            joint_vel=torch.zeros(shape),
            default_joint_pos=torch.zeros(shape),
        )
        self.actuators: dict[str, FakeActuator] = {}

    def add(self, name: str, kind: Any, joints: list[int], stiffness: float | None = 60.0, **more: Any) -> None:
        """Configure a group; a stiffness of None takes the defaults' own tensor, if the group has all joints."""
        whole = len(joints) == len(self.joint_names)
        indices: Any = slice(None) if whole else torch.tensor(joints)
        shape = (len(self.data.joint_pos), len(joints))
        gains = [torch.full(shape, value) for value in (60.0 if stiffness is None else stiffness, 1.5)]
        if stiffness is None and whole:
            gains = [self.data.default_joint_stiffness, self.data.default_joint_damping]
        self.actuators[name] = kind(indices, *gains, **more)
        values = gains if kind.is_implicit_model else [torch.zeros(shape)] * 2
        self.write_joint_stiffness_to_sim(values[0], indices)
        self.write_joint_damping_to_sim(values[1], indices)

    def write_joint_stiffness_to_sim(self, stiffness: Any, joint_ids: Any = None, env_ids: Any = None) -> None:
        self._write("stiffness", stiffness, joint_ids, env_ids, self.root_physx_view.set_dof_stiffnesses)

    def write_joint_damping_to_sim(self, damping: Any, joint_ids: Any = None, env_ids: Any = None) -> None:
        self._write("damping", damping, joint_ids, env_ids, self.root_physx_view.set_dof_dampings)

    def _write(self, name: str, values: Any, joint_ids: Any, env_ids: Any, push: Any) -> None:
        buffer = getattr(self.data, f"joint_{name}")
        joints = slice(None) if joint_ids is None else joint_ids
        if env_ids is None:
            buffer[:, joints] = values
            rows = torch.arange(len(buffer))
        else:
            rows = env_ids
            index = env_ids if isinstance(joints, slice) else env_ids[:, None]  # a list fails here, as there
            buffer[index, joints] = values
        push(buffer.cpu(), indices=rows.cpu())

    def write_joint_state_to_sim(
        self, position: Any, velocity: Any, joint_ids: Any = None, env_ids: Any = None
    ) -> None:
        rows = slice(None) if env_ids is None else env_ids
        self.data.joint_pos[rows], self.data.joint_vel[rows] = position, velocity

    def update(self, dt: float) -> None:
        """Nothing is cached here."""

    def reset(self, env_ids: Any = None) -> None:
        """Delay buffers only: gains survive."""

    def advance(self, targets: torch.Tensor, dt: float) -> None:
        """One physics step: torques of explicit groups, and the solver's drives."""
        data, view = self.data, self.root_physx_view
        effort = view.stiffness * (targets - data.joint_pos) - view.damping * data.joint_vel
        for actuator in self.actuators.values():
            j = actuator.joint_indices
            torque = actuator.torque(targets[:, j], data.joint_pos[:, j], data.joint_vel[:, j])
            if not actuator.is_implicit_model:
                effort[:, j] += torque
        data.joint_vel += dt * effort / (self.inertia + self.armature)
        data.joint_pos += dt * data.joint_vel


class randomize_actuator_gains:  # noqa: N801 (Isaac Lab's name)
    """The event term of 2.3: an instance that is called; it always starts from the defaults."""

    def __init__(self, robot: FakeArticulation, scale: float) -> None:
        self._robot, self._scale = robot, scale

    def __call__(self, env: Any, env_ids: Any, **_: Any) -> None:
        for actuator in self._robot.actuators.values():
            defaults = self._robot.data.default_joint_stiffness[env_ids][:, actuator.joint_indices]
            actuator.stiffness[env_ids] = self._scale * defaults


class FakeEventManager:
    def __init__(self, terms: dict[str, tuple[str, Any, dict[str, Any]]]) -> None:
        self._terms = terms

    @property
    def active_terms(self) -> dict[str, list[str]]:
        modes: dict[str, list[str]] = {}
        for name, (mode, _, _) in self._terms.items():
            modes.setdefault(mode, []).append(name)
        return modes

    def get_term_cfg(self, name: str) -> Any:
        mode, function, params = self._terms[name]
        return SimpleNamespace(func=function, mode=mode, params=params)

    def apply(self, env: Any, mode: str, env_ids: Any) -> None:
        for term_mode, function, params in self._terms.values():
            if term_mode == mode:
                function(env, env_ids, **params)


class FakeIsaacEnv(gym.Env):
    """``ManagerBasedRLEnv`` of 2.x: tensors, same-step resets, a log that is replaced at resets."""

    is_vector_env = True
    physics_dt = 0.002

    def __init__(self, robot: FakeArticulation, episode: int = 10**9, events: Any = None, decimation: int = 5) -> None:
        self.num_envs, joints = robot.data.joint_pos.shape
        self.device = "cpu"
        self.scene = SimpleNamespace(articulations={"robot": robot})
        self.sim = SimpleNamespace(forward=lambda: None)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (self.num_envs, joints))
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (self.num_envs, joints))
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.extras: dict[str, Any] = {}
        self.decimation = decimation
        self._episode, self._robot = episode, robot
        if events is not None:
            self.event_manager = FakeEventManager(events)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._reset_idx(torch.arange(self.num_envs))
        return {"policy": self._robot.data.joint_pos.clone()}, self.extras

    def _reset_idx(self, env_ids: torch.Tensor) -> None:
        self._robot.write_joint_state_to_sim(0.0, 0.0, None, env_ids)
        self._robot.reset(env_ids)
        if hasattr(self, "event_manager"):
            self.event_manager.apply(self, "reset", env_ids)
        self.episode_length_buf[env_ids] = 0
        self.extras["log"] = {}

    def step(self, action: torch.Tensor) -> Any:
        for _ in range(self.decimation):
            self._robot.advance(action, self.physics_dt)
        self.episode_length_buf += 1
        truncated = self.episode_length_buf >= self._episode
        terminated = torch.zeros_like(truncated)
        ended = truncated.nonzero().flatten()
        if len(ended):
            self._reset_idx(ended)
        observation = {"policy": self._robot.data.joint_pos.clone()}
        return observation, torch.ones(self.num_envs), terminated, truncated, self.extras
