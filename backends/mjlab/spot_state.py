"""The state of Spots in mjlab, in the order of our table, as torch tensors on the env's device."""

from __future__ import annotations

from typing import Any

import torch

from adc_wrappers.backends.base import RobotStart, RobotState
from adc_wrappers.backends.limiter import JointTable
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES, SPOT
from adc_wrappers.backends.spot_tensors import places, turn

__all__ = ["SpotReader"]

_KEPT_STEPS = 3
_FORCE_RANGE = "actuator_forcerange"


class SpotReader:
    """Spots in an mjlab scene, read, placed and commanded, whatever order its model has joints and links in.

    Positions and velocities are MuJoCo's coordinates themselves: what mjlab derives from them lags by one physics step
    until the end of a policy step.

    Args:
        env: mjlab's env.
        robot: The entity; its actuators are MuJoCo's position elements, one per joint.
        contacts: Its contact sensor over all links, with net forces. Its own history would be made anew under RSL-RL's
            inference mode, and could not be cleared outside of it any more; so it is kept here.
    """

    def __init__(self, env: Any, robot: Any, contacts: Any) -> None:
        self._sim, self._robot, self._contacts = env.sim, robot, contacts
        self._origins = env.scene.env_origins
        device, index = env.device, robot.indexing
        joints = places(JOINT_NAMES, robot.joint_names, "joint").to(device)
        self._joints = joints
        self._positions, self._velocities = index.joint_q_adr[joints], index.joint_v_adr[joints]
        self._base_q, self._base_v = index.free_joint_q_adr, index.free_joint_v_adr
        driven = {name: control for a in robot.actuators for name, control in _controls(a)}
        self._controls = torch.tensor([driven[name] for name in JOINT_NAMES], device=device)
        seen = [name.split("/")[-1] for name in contacts.primary_names]
        self._links = places(LINK_NAMES, seen, "link").to(device)
        self._table = JointTable(SPOT)
        self._back = torch.tensor([1.0, -1.0, -1.0, -1.0], device=device)
        self._down = torch.tensor([[0.0, 0.0, -1.0]], device=device)
        self._torques = torch.zeros(env.num_envs, len(JOINT_NAMES), device=device)
        self._recent = torch.zeros(env.num_envs, _KEPT_STEPS, len(LINK_NAMES), device=device)
        """Ground forces at the last physics steps, the newest first."""
        self._noted = True
        if _FORCE_RANGE not in env.sim.expanded_fields:
            env.sim.expand_model_fields((_FORCE_RANGE,))

    def state(self) -> RobotState:
        """Return the present state; torques and contacts of a robot read zero until its first physics step."""
        qpos, qvel = self._sim.data.qpos, self._sim.data.qvel
        base, moving = qpos[:, self._base_q], qvel[:, self._base_v]
        quaternion = base[:, 3:]
        back = quaternion * self._back
        return RobotState(
            base_position=base[:, :3] - self._origins,
            base_quaternion=quaternion,
            base_linear_velocity=turn(back, moving[:, :3]),
            base_angular_velocity=moving[:, 3:],
            projected_gravity=turn(back, self._down.expand(len(base), 3)),
            joint_positions=qpos[:, self._positions],
            joint_velocities=qvel[:, self._velocities],
            joint_torques=self._torques.clone(),
            contact_forces=self._recent.amax(dim=1),
        )

    def note_step(self) -> None:
        """Take up torques and contacts of the last physics step; mjlab soon computes those of one that is not taken."""
        self._note_contacts()
        self._torques.copy_(self._sim.data.actuator_force[:, self._controls])

    def _note_contacts(self) -> None:
        """Take up the contacts of a physics step, once."""
        if self._noted:
            return
        forces = torch.linalg.vector_norm(self._contacts.data.force, dim=-1)[:, self._links]
        self._recent[:, 1:] = self._recent[:, :-1].clone()
        self._recent[:, 0] = forces
        self._noted = True

    def place(self, start: RobotStart, env_ids: torch.Tensor) -> None:
        """Put chosen robots into a state, given as tensors in the table's order."""
        tensors: Any = start
        data, rows = self._sim.data, env_ids[:, None]
        pose = (tensors.base_position + self._origins[env_ids], tensors.base_quaternion)
        data.qpos[rows, self._base_q] = torch.cat(pose, dim=-1)
        data.qvel[rows, self._base_v] = torch.cat((tensors.base_linear_velocity, tensors.base_angular_velocity), dim=-1)
        data.qpos[rows, self._positions] = tensors.joint_positions
        data.qvel[rows, self._velocities] = tensors.joint_velocities
        self._recent.index_fill_(0, env_ids, 0.0)
        self._torques.index_fill_(0, env_ids, 0.0)

    def command(self, targets: torch.Tensor) -> None:
        """Set position targets, in the table's order, and the knees' limits at their angles for the physics step."""
        self._note_contacts()
        self._noted = False
        self._robot.set_joint_position_target(targets, joint_ids=self._joints)
        limits = self._table.torque_limits(self._sim.data.qpos[:, self._positions])
        ranges = getattr(self._sim.model, _FORCE_RANGE)
        ranges[:, self._controls, 0] = -limits
        ranges[:, self._controls, 1] = limits


def _controls(actuator: Any) -> list[tuple[str, int]]:
    return list(zip(actuator.target_names, actuator.global_ctrl_ids.tolist(), strict=True))
