"""The state of Spots in Isaac Lab, in the order of our table, as torch tensors on the env's device."""

from __future__ import annotations

from typing import Any

import torch

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES
from adc_wrappers.backends.spot_tensors import places, turn

from .groups import as_tensor

__all__ = ["SpotReader"]


class SpotReader:
    """A reader and placer of Spots in an Isaac Lab scene, whatever order its engine has joints and links in.

    Args:
        robot: Isaac Lab's articulation.
        contacts: Its contact sensor, over all links, with a history of three.
        origins: Where each env is in the world, m, ``(num_envs, 3)``.
        latest_only: Use the last physics step's contact forces only: where the engine takes all physics steps of a
            policy step in one call, the sensor's history is one of policy steps.
    """

    def __init__(self, robot: Any, contacts: Any, origins: torch.Tensor, *, latest_only: bool = False) -> None:
        self._robot, self._contacts, self._origins = robot, contacts, origins
        self._latest_only = latest_only
        self._modern = hasattr(robot, "write_joint_position_to_sim_index")  # Isaac Lab 3
        device = robot.device
        sensed = getattr(contacts, "sensor_names", None) or contacts.body_names
        self.joints = places(JOINT_NAMES, robot.joint_names, "joint").to(device)
        self.links = places(LINK_NAMES, sensed, "link").to(device)
        self._from_table = torch.argsort(self.joints)
        self._base = list(robot.body_names).index(LINK_NAMES[0])
        self._back = torch.tensor([1.0, -1.0, -1.0, -1.0], device=device)
        self._moved = torch.zeros(len(origins), 1, dtype=torch.bool, device=device)
        """Which robots have taken a physics step since they were placed."""

    def state(self) -> RobotState:
        """Return the present state; torques and contacts of a robot read zero until its first physics step."""
        data = self._robot.data
        joints = self.joints
        quaternion = self._w_first(as_tensor(data.root_link_quat_w))
        linear, angular = self._base_velocity(quaternion)
        return RobotState(
            base_position=as_tensor(data.root_link_pos_w) - self._origins,
            base_quaternion=quaternion,
            base_linear_velocity=linear,
            base_angular_velocity=angular,
            projected_gravity=as_tensor(data.projected_gravity_b),
            joint_positions=as_tensor(data.joint_pos)[:, joints],
            joint_velocities=as_tensor(data.joint_vel)[:, joints],
            joint_torques=torch.where(self._moved, self._torques()[:, joints], 0.0),
            contact_forces=torch.where(self._moved, self._forces()[:, self.links], 0.0),
        )

    def _base_velocity(self, quaternion: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the velocity of the base link's origin and its angular velocity, in the base frame.

        From the centre of mass's: what PhysX without Isaac Sim (Isaac Lab 3.0) calls the link's is that, too.
        """
        data = self._robot.data
        back = quaternion * self._back
        centre = turn(back, as_tensor(data.root_com_lin_vel_w))
        angular = turn(back, as_tensor(data.root_com_ang_vel_w))
        return centre - torch.cross(angular, as_tensor(data.body_com_pos_b)[:, self._base], dim=-1), angular

    def _torques(self) -> torch.Tensor:
        if self._modern:
            return as_tensor(self._robot.actuators.applied_effort)
        return as_tensor(self._robot.data.applied_torque)

    def _forces(self) -> torch.Tensor:
        """Largest force on each link over the last three physics steps."""
        data = self._contacts.data
        if self._latest_only:
            latest: torch.Tensor = torch.linalg.vector_norm(as_tensor(data.net_forces_w), dim=-1)
            return latest
        largest: torch.Tensor = torch.linalg.vector_norm(as_tensor(data.net_forces_w_history), dim=-1).amax(dim=1)
        return largest

    def _w_first(self, quaternion: torch.Tensor) -> torch.Tensor:
        """Isaac Lab 3 has x y z w, before it was w x y z."""
        return quaternion.roll(1, dims=-1) if self._modern else quaternion

    def in_engine_order(self, values: torch.Tensor) -> torch.Tensor:
        """Return joint values given in the table's order in the robot's."""
        return values[:, self._from_table]

    def place(
        self,
        env_ids: torch.Tensor,
        position: torch.Tensor,
        quaternion: torch.Tensor,
        linear: torch.Tensor,
        angular: torch.Tensor,
        joints: torch.Tensor,
        joint_velocities: torch.Tensor,
    ) -> None:
        """Put chosen robots into a state.

        Args:
            env_ids: The envs.
            position: Of the base in its env, m.
            quaternion: w x y z.
            linear: Velocity of the base link's origin in the world frame, m/s.
            angular: Angular velocity in the world frame, rad/s.
            joints: rad, in the table's order.
            joint_velocities: rad/s, likewise.
        """
        robot = self._robot
        turned = quaternion.roll(-1, dims=-1) if self._modern else quaternion
        pose = torch.cat((position + self._origins[env_ids], turned), dim=-1)
        # engines take the velocity of the centre of mass
        lever = turn(quaternion, as_tensor(robot.data.body_com_pos_b)[env_ids, self._base])
        velocity = torch.cat((linear + torch.cross(angular, lever, dim=-1), angular), dim=-1)
        positions, speeds = self.in_engine_order(joints), self.in_engine_order(joint_velocities)
        if self._modern:
            robot.write_root_link_pose_to_sim_index(root_pose=pose, env_ids=env_ids)
            robot.write_root_com_velocity_to_sim_index(root_velocity=velocity, env_ids=env_ids)
            robot.write_joint_position_to_sim_index(position=positions, env_ids=env_ids)
            robot.write_joint_velocity_to_sim_index(velocity=speeds, env_ids=env_ids)
        else:
            robot.write_root_link_pose_to_sim(pose, env_ids)
            robot.write_root_com_velocity_to_sim(velocity, env_ids)
            robot.write_joint_state_to_sim(positions, speeds, None, env_ids)
        self._moved.index_fill_(0, env_ids, False)

    def command(self, targets: torch.Tensor) -> None:
        """Set position targets of all robots, in the table's order, for the physics step that follows."""
        self._moved.fill_(True)
        values = self.in_engine_order(targets)
        if self._modern:
            self._robot.actuators.target_command.set_position_index(value=values)
        else:
            self._robot.set_joint_position_target(values)
