"""A robot with hidden parameters, to rehearse an identification before the real robot is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotBackend, RobotParameters, RobotStart, RobotState
from adc_wrappers.core.actuators import Gains

__all__ = ["HiddenParameters", "HiddenRobot"]

_Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class HiddenParameters:
    """Parameters that the robot does not tell."""

    stiffness_scale: float = 1.0
    """Stiffness that acts, as a multiple of the commanded one."""

    damping_scale: float = 1.0
    """Damping that acts, as a multiple of the commanded one."""

    coulomb: float = 0.0
    """Dry friction of every joint, N·m."""

    viscous: float = 0.0
    """Viscous friction of every joint, N·m·s/rad."""

    delay_steps: int = 0
    """Physics steps by which targets act late."""

    position_noise: float = 0.0
    """Standard deviation of measured positions, rad."""

    velocity_noise: float = 0.0
    """Standard deviation of measured velocities, rad/s."""

    torque_noise: float = 0.0
    """Standard deviation of measured torques, N·m."""

    seed: int = 0
    """Of the noise."""


class HiddenRobot(RobotBackend):
    """Any backend behind gains that are not what they seem, with joint friction, delay and noise.

    It reports the gains it was commanded, as a robot does.

    Args:
        robot: The backend that is hidden.
        hidden: What it does not tell.
    """

    def __init__(self, robot: RobotBackend, hidden: HiddenParameters) -> None:
        self._robot, self._hidden = robot, hidden
        self.num_envs = robot.num_envs
        self.joint_names, self.link_names = robot.joint_names, robot.link_names
        self.physics_step, self.decimation = robot.physics_step, robot.decimation
        self.nominal_pose = robot.nominal_pose
        self._rng = np.random.default_rng(hidden.seed)
        self._measured: RobotState | None = None
        shape = (robot.num_envs, len(robot.joint_names))
        robot.set_parameters(
            RobotParameters(
                joint_coulomb=np.full(shape, hidden.coulomb),
                joint_viscous=np.full(shape, hidden.viscous),
                command_delay=np.full(robot.num_envs, hidden.delay_steps),
            ),
            np.arange(robot.num_envs),
        )
        commanded = robot.gains()
        self._commanded = Gains(commanded.stiffness.copy(), commanded.damping.copy())
        self.set_gains(commanded.stiffness, commanded.damping)

    def effective_inertia(self) -> _Array:
        """Return that of the hidden robot."""
        return self._robot.effective_inertia()

    def gains(self) -> Gains:
        """Return the commanded gains."""
        return Gains(self._commanded.stiffness.copy(), self._commanded.damping.copy())

    def set_gains(self, stiffness: _Array, damping: _Array, env_ids: NDArray[np.int64] | None = None) -> None:
        """Command gains; others act."""
        rows = np.arange(self.num_envs) if env_ids is None else env_ids
        hidden = self._hidden
        self._robot.set_gains(hidden.stiffness_scale * stiffness, hidden.damping_scale * damping, env_ids)
        self._commanded.stiffness[rows], self._commanded.damping[rows] = stiffness, damping

    def reset(self, start: RobotStart, env_ids: NDArray[np.int64] | None = None) -> None:
        """Reset the hidden robot."""
        self._robot.reset(start, env_ids)
        self._measured = None

    def advance(self, targets: _Array) -> None:
        """Advance the hidden robot."""
        self._robot.advance(targets)
        self._measured = None

    def state(self) -> RobotState:
        """Return the state with noise on joint positions, velocities and torques; one draw per step."""
        if self._measured is None:
            true, hidden = self._robot.state(), self._hidden
            noise = self._rng.standard_normal((3, *true.joint_positions.shape))
            self._measured = true._replace(
                joint_positions=true.joint_positions + hidden.position_noise * noise[0],
                joint_velocities=true.joint_velocities + hidden.velocity_noise * noise[1],
                joint_torques=true.joint_torques + hidden.torque_noise * noise[2],
            )
        return self._measured

    def push(self, velocity_change: _Array, env_ids: NDArray[np.int64]) -> None:
        """Push the hidden robot."""
        self._robot.push(velocity_change, env_ids)
        self._measured = None

    def set_parameters(self, parameters: RobotParameters, env_ids: NDArray[np.int64]) -> None:
        """Change the hidden robot's parameters."""
        self._robot.set_parameters(parameters, env_ids)

    def render(self, env_id: int = 0) -> Any:
        """Return the hidden robot's picture."""
        return self._robot.render(env_id)

    def close(self) -> None:
        """Close the hidden robot."""
        self._robot.close()
