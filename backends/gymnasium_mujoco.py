"""Gymnasium's MuJoCo robots with position-controlled joints: torque motors become the PD law whose gains one sets."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.actuators import Gains, damping_for
from adc_wrappers.core.errors import BackendError
from adc_wrappers.core.joints import JointValues, normalize_joint_values, resolve_joint_values

from .mujoco.engine import mujoco

__all__ = ["GymnasiumMujocoBackend"]

_Array = NDArray[np.float64]

FIRST_RISE = 0.2
"""Seconds from 10 to 90 % of a step, at critical damping, of motors that have just become position-controlled."""

_RISE = 3.358
"""ω_n times that rise time, of any critically damped joint."""


_HINGE, _AFFINE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtBias.mjBIAS_AFFINE)  # enums differ from numbers


class GymnasiumMujocoBackend:
    """Joint gains of a Gymnasium MuJoCo env whose actuators each drive one hinge or sliding joint.

    - **Torque motors** (Ant, Walker2d, HalfCheetah, Hopper, Humanoid, …) become position-controlled joints: the force
      is ``K (q_d − q) − B q̇``, and never more than the motor could do before. From then on an action is a vector of
      joint targets, and the env's action space says so: the joints' ranges, or ``action_scale`` around the nominal
      pose. They begin with a rise time of 0.2 s, critically damped.
    - **Position servos** (gymnasium-robotics' hands) keep their targets and action space; their gains are taken over.
    - Damping of the joints themselves goes into B; springs of the joints themselves are removed. Each would be a second
      PD law beside the one whose gains are set.

    It is handed to a wrapper as it is: ``ActuatorCurriculumWrapper(env, config, backend=GymnasiumMujocoBackend)``.

    Args:
        env: The env; its ``unwrapped`` has MuJoCo's ``model`` and ``data``.
        action_scale: α: targets reach so far around the nominal pose, within the joint's range. One number for all
            joints, a sequence, or a mapping from names or patterns. None: the whole range.
        nominal_pose: q_0 in the same forms; by default where the env starts its joints, moved into their ranges.

    Raises:
        BackendError: An actuator is not of these two kinds, or actions of the env are not its motors' controls.

    Example:
        >>> import gymnasium as gym
        >>> env = gym.make("Hopper-v5")
        >>> backend = GymnasiumMujocoBackend(env)
        >>> backend.joint_names
        ('thigh_joint', 'leg_joint', 'foot_joint')
        >>> [round(float(low), 2) for low in env.action_space.low]
        [-2.62, -2.62, -0.79]
        >>> backend.torque_limits.tolist()
        [200.0, 200.0, 200.0]
    """

    num_envs = 1

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        action_scale: JointValues | None = None,
        nominal_pose: JointValues | None = None,
    ) -> None:
        self.env: Any = env.unwrapped
        """The env itself, without wrappers."""
        self.model, self.data = _model_of(env)
        motors = _check_actuators(self.model, env)
        joints = self.model.actuator_trnid[:, 0]
        self._dofs = self.model.jnt_dofadr[joints]
        self._places = self.model.jnt_qposadr[joints]
        self.joint_names = tuple(self.model.joint(joint).name or f"joint_{joint}" for joint in joints)
        limited = self.model.jnt_limited[joints].astype(bool)
        self.joint_range: _Array = np.where(limited[:, None], self.model.jnt_range[joints], [-np.inf, np.inf])
        """Where the joints' stops are, ``(joints, 2)``; infinite where there are none."""
        start = np.asarray(getattr(self.env, "init_qpos", self.model.qpos0), dtype=np.float64)[self._places]
        if nominal_pose is not None:
            start = resolve_joint_values(
                "nominal_pose", normalize_joint_values("nominal_pose", nominal_pose), self.joint_names
            )
        self.nominal_pose: _Array = np.clip(start, *self.joint_range.T)
        """q_0, ``(joints,)``."""
        ends = self._targets(action_scale, motors)
        if motors.any() and not motors.all():
            raise BackendError(
                f"{env}: motors and position servos are mixed ({int(motors.sum())} of {len(motors)} are motors), and "
                "one action space cannot be torques and targets. Write a backend of your own: examples/your_own_env.py."
            )
        if action_scale is not None and not motors.any():
            raise BackendError(
                f"{env}: action_scale is for motors; these are servos with an action space of their own."
            )
        self._own_spring(joints)
        if motors.all():
            self._turn_motors(ends)
        self._gear = self.model.actuator_gear[:, 0].copy()
        self._reach = self.model.actuator_gainprm[:, 0] / -self.model.actuator_biasprm[:, 1]

    def _targets(self, action_scale: JointValues | None, motors: NDArray[np.bool_]) -> _Array:
        """Return the smallest and largest target of every joint, before anything is changed."""
        ends = self.joint_range.copy()
        if action_scale is not None:
            given = normalize_joint_values("action_scale", action_scale)
            scale = resolve_joint_values("action_scale", given, self.joint_names)
            if not (np.isfinite(scale).all() and (scale > 0.0).all()):
                raise BackendError(f"action_scale: expected positive numbers, got {scale.tolist()}.")
            around = self.nominal_pose[:, None] + scale[:, None] * [-1.0, 1.0]
            ends = np.clip(around, ends[:, :1], ends[:, 1:])
        hinges = self.model.jnt_type[self.model.actuator_trnid[:, 0]] == _HINGE
        whole = self.nominal_pose[:, None] + np.pi * np.array([-1.0, 1.0])
        ends = np.where(np.isinf(ends) & hinges[:, None], whole, ends)
        for joint in np.flatnonzero(motors & np.isinf(ends).any(axis=1)).tolist():
            raise BackendError(
                f"joint {self.joint_names[joint]!r} slides without end, so nobody can say how far an action should "
                "reach. Pass action_scale=, in metres."
            )
        return ends

    def _own_spring(self, joints: NDArray[np.int64]) -> None:
        """Move the joints' own damping into the servos' law, and remove their springs."""
        gear = self.model.actuator_gear[:, 0]
        self.model.actuator_biasprm[:, 2] -= self.model.dof_damping[self._dofs] / gear**2
        self.model.dof_damping[self._dofs] = 0.0
        self.model.jnt_stiffness[joints] = 0.0

    def _turn_motors(self, ends: _Array) -> None:
        """Make position-controlled joints of motors, with the forces that they had."""
        model = self.model
        strength = model.actuator_gear[:, 0] * model.actuator_gainprm[:, 0]
        limits = np.where(
            model.actuator_ctrllimited[:, None] != 0, model.actuator_ctrlrange * strength[:, None], np.inf
        )
        limits = np.where(np.isinf(limits), [-np.inf, np.inf], np.sort(limits, axis=1))
        if model.actuator_forcelimited.any():
            own = np.sort(model.actuator_forcerange * model.actuator_gear[:, :1], axis=1)
            own = np.where(model.actuator_forcelimited[:, None] != 0, own, [-np.inf, np.inf])
            limits = np.stack((np.maximum(limits[:, 0], own[:, 0]), np.minimum(limits[:, 1], own[:, 1])), axis=1)
        bounded = np.isfinite(limits).all(axis=1)
        model.actuator_forcelimited[:] = bounded
        model.actuator_forcerange[bounded] = limits[bounded]
        model.actuator_gear[:] = 0.0
        model.actuator_gear[:, 0] = 1.0
        model.actuator_biastype[:] = _AFFINE
        model.actuator_ctrllimited[:] = 1
        model.actuator_ctrlrange[:] = ends
        self._gear = self._reach = np.ones(model.nu)
        inertia = self.effective_inertia()
        first = (inertia * (_RISE / FIRST_RISE) ** 2)[None]
        self.set_gains(first, damping_for(first, inertia))
        space = gym.spaces.Box(*ends.T.astype(np.float32), dtype=np.float32)
        for layer in (self.env, *_inner_envs(self.env)):
            layer.action_space = space

    @property
    def torque_limits(self) -> _Array:
        """Largest torque of every joint, N·m (N), the smaller of both directions; infinite where there is none."""
        model, gear = self.model, np.abs(self._gear)
        given = np.where(model.actuator_forcelimited != 0, np.abs(model.actuator_forcerange).min(axis=1) * gear, np.inf)
        joints = model.actuator_trnid[:, 0]
        passive = np.abs(model.jnt_actfrcrange[joints]).min(axis=1)
        return np.minimum(given, np.where(model.jnt_actfrclimited[joints] != 0, passive, np.inf))

    @property
    def policy_step(self) -> float:
        """Seconds in one step of the env."""
        for layer in (self.env, *_inner_envs(self.env)):
            for name in ("frame_skip", "n_substeps"):
                if hasattr(layer, name):
                    return float(self.model.opt.timestep * getattr(layer, name))
        return float(self.model.opt.timestep)

    @property
    def explicit_time_step(self) -> float | None:
        """The physics step where MuJoCo's Euler integrator takes the PD law explicitly; other integrators: None."""
        euler = self.model.opt.integrator == int(mujoco.mjtIntegrator.mjINT_EULER)
        return float(self.model.opt.timestep) if euler else None

    def controls(self, targets: _Array) -> _Array:
        """Return the actuators' controls for joint targets."""
        return np.asarray(targets / (self._reach / self._gear))

    def effective_inertia(self) -> _Array:
        """Return the diagonal of MuJoCo's mass matrix at the nominal pose."""
        data, inertia = mujoco.MjData(self.model), np.zeros((self.model.nv, self.model.nv))
        data.qpos[self._places] = self.nominal_pose
        mujoco.mj_forward(self.model, data)
        mujoco.mj_fullM(self.model, data, inertia)
        return np.asarray(inertia[self._dofs, self._dofs])

    def gains(self) -> Gains:
        """Return the gains that the engine's actuators have."""
        bias, square = self.model.actuator_biasprm, self._gear**2
        return Gains((-bias[:, 1] * square)[None], (-bias[:, 2] * square)[None])

    def set_gains(self, stiffness: _Array, damping: _Array, env_ids: NDArray[np.int64] | None = None) -> None:
        """Write gains; they act from the next physics step on."""
        k, b = (np.asarray(values, dtype=np.float64) for values in (stiffness, damping))
        if env_ids is not None and len(env_ids) == 0:
            return
        for name, values in (("stiffness", k), ("damping", b)):
            if values.shape != (1, len(self.joint_names)) or not (np.isfinite(values).all() and (values >= 0.0).all()):
                raise BackendError(
                    f"{name}: expected finite numbers of at least 0 in the shape (1, {len(self.joint_names)}), got "
                    f"{values.tolist()}."
                )
        self._refuse_unstable(k[0], b[0])
        square = self._gear**2
        self.model.actuator_gainprm[:, 0] = k[0] / square * self._reach
        self.model.actuator_biasprm[:, 1] = -k[0] / square
        self.model.actuator_biasprm[:, 2] = -b[0] / square

    def _refuse_unstable(self, stiffness: _Array, damping: _Array) -> None:
        """Refuse gains that the integrator cannot hold; Euler's are refused by whoever reads explicit_time_step."""
        step, inertia = float(self.model.opt.timestep), self.effective_inertia()
        a, b = stiffness * step**2 / inertia, damping * step / inertia
        if self.model.opt.integrator == int(mujoco.mjtIntegrator.mjINT_RK4):
            root = np.sqrt((b**2 / 4.0 - a).astype(complex))
            growth = [np.abs(1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24) for z in (-b / 2.0 + root, -b / 2.0 - root)]
            bad = np.maximum(*growth) > 1.0 + 1e-9
        elif self.explicit_time_step is None:
            bad = a >= 4.0 + 2.0 * b
        else:
            return
        for joint in np.flatnonzero(bad).tolist():
            raise BackendError(
                f"joint {self.joint_names[joint]!r}: stiffness {stiffness[joint]:g} with damping {damping[joint]:g} on "
                f"an effective inertia of {inertia[joint]:.4g} is unstable at a physics step of {step:g} s. Use a "
                "lower stiffness, or a smaller model.opt.timestep."
            )


def _model_of(env: gym.Env[Any, Any]) -> tuple[Any, Any]:
    inner: Any = env.unwrapped
    model, data = getattr(inner, "model", None), getattr(inner, "data", None)
    if not isinstance(model, mujoco.MjModel) or not isinstance(data, mujoco.MjData):
        raise BackendError(
            f"{env} is not a Gymnasium MuJoCo env: expected env.unwrapped.model and env.unwrapped.data of the package "
            "mujoco. Other simulators take about twenty lines: examples/your_own_env.py."
        )
    return model, data


def _inner_envs(env: Any) -> list[Any]:
    """Return envs that an env keeps as attributes and steps, as gymnasium-robotics' mazes do."""
    return [value.unwrapped for value in vars(env).values() if isinstance(value, gym.Env)]


def _check_actuators(model: Any, env: gym.Env[Any, Any]) -> NDArray[np.bool_]:
    """Return which actuators are torque motors; refuse whatever is neither a motor nor a position servo on a joint."""
    kinds = {int(value): value.name.removeprefix("mjTRN_").lower() for value in mujoco.mjtTrn.__members__.values()}
    motors = np.zeros(model.nu, dtype=bool)
    if model.nu == 0:
        raise BackendError(f"{env} has no actuators, so there are no gains to set.")
    for index in range(model.nu):
        name = f"actuator {model.actuator(index).name or index!r} of {env}"
        if model.actuator_trntype[index] != int(mujoco.mjtTrn.mjTRN_JOINT):
            raise BackendError(
                f"{name} drives a {kinds[int(model.actuator_trntype[index])]}, not a joint: a joint's gains say "
                "nothing about it. This backend is for actuators that each drive one hinge or sliding joint."
            )
        if model.jnt_type[model.actuator_trnid[index, 0]] not in (_HINGE, int(mujoco.mjtJoint.mjJNT_SLIDE)):
            raise BackendError(f"{name} drives a ball or free joint; expected a hinge or a sliding joint.")
        gain, bias = model.actuator_gainprm[index], model.actuator_biasprm[index]
        fixed = model.actuator_gaintype[index] == int(mujoco.mjtGain.mjGAIN_FIXED)
        plain = fixed and model.actuator_dyntype[index] == int(mujoco.mjtDyn.mjDYN_NONE)
        motors[index] = plain and model.actuator_biastype[index] == int(mujoco.mjtBias.mjBIAS_NONE)
        affine = plain and model.actuator_biastype[index] == _AFFINE
        if not motors[index] and not (affine and bias[0] == 0.0 and bias[1] < 0.0 and gain[0] > 0.0):
            raise BackendError(
                f"{name} is neither a torque motor nor a position servo (a muscle, a velocity servo, or one with a "
                "state of its own), so K and B are not its gains."
            )
    if len(np.unique(model.actuator_trnid[:, 0])) < model.nu:
        raise BackendError(f"{env}: two actuators drive the same joint, so its gains are not one actuator's.")
    if motors.all():
        _check_actions(model, env)
    return motors


def _check_actions(model: Any, env: gym.Env[Any, Any]) -> None:
    """Refuse motors whose controls are not the env's actions: their targets could not be set."""
    space = env.unwrapped.action_space
    limits = np.where(model.actuator_ctrllimited[:, None] != 0, model.actuator_ctrlrange, [-np.inf, np.inf])
    same = isinstance(space, gym.spaces.Box) and space.shape == (model.nu,)
    if not same or not np.allclose(np.stack((space.low, space.high), axis=1), limits, rtol=1e-5):  # type: ignore[attr-defined]
        raise BackendError(
            f"{env}: expected an action space that is the motors' range of controls, {limits.tolist()}, got {space}. "
            "The env makes something else of its actions, so they cannot become joint targets; write your own backend."
        )
