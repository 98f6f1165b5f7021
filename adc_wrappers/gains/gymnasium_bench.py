"""The bench of a Gymnasium MuJoCo env."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.gymnasium_mujoco import GymnasiumMujocoBackend
from adc_wrappers.backends.mujoco import MujocoProbe
from adc_wrappers.backends.mujoco.engine import mujoco, quiet
from adc_wrappers.core.actuators import damping_for
from adc_wrappers.core.errors import BackendError

from .bench import SUNK, Bench, JointWeight, Standing, carried, hanging

__all__ = ["bench_of_env"]

_Array = NDArray[np.float64]

_STANDING = 3.0  # seconds
_FALLEN = np.cos(np.deg2rad(20.0))
_NEAR = 0.15  # leaves within this share of the root's height above the lowest one are feet


def bench_of_env(env: gym.Env[Any, Any], name: str) -> Bench:
    """Return the bench of an env; its motors become position-controlled joints."""
    if getattr(env.unwrapped, "actuator_backend", None) is not None:
        raise BackendError(
            f"{name} has a backend of its own. Write a probe for it (adc_wrappers.testing.JointProbe) and call "
            "adc_wrappers.gains.measure_responses(probe, …)."
        )
    backend = GymnasiumMujocoBackend(env)
    model = backend.model
    ends = model.actuator_ctrlrange * (backend.controls(np.ones(model.nu)) ** -1)[:, None]
    integrators = {int(mujoco.mjtIntegrator.mjINT_EULER): "explicit", int(mujoco.mjtIntegrator.mjINT_RK4): "rk4"}
    tree = _Tree(backend)
    return Bench(
        name=name, engine="mujoco", probe=MujocoProbe(backend, model), inertia=backend.effective_inertia(),
        joint_range=backend.joint_range, torque_limits=backend.torque_limits,
        physics_step=float(model.opt.timestep), policy_step=backend.policy_step,
        integrator=integrators.get(int(model.opt.integrator), "implicit"), action_scale=np.ptp(ends, axis=1) / 2.0,
        weigh=lambda stiffness: _weigh(backend, tree, stiffness),
        stand=(lambda stiffness: _stand(backend, stiffness)) if tree.floating else None, close=env.close,
    )  # fmt: skip


class _Tree:
    """The joints of a model that carry the robot, and on how many feet."""

    def __init__(self, backend: GymnasiumMujocoBackend) -> None:
        model = backend.model
        self.joints = model.actuator_trnid[:, 0]
        self.data = mujoco.MjData(model)
        places = model.jnt_qposadr[self.joints]
        self.data.qpos[places] = backend.nominal_pose
        mujoco.mj_forward(model, self.data)
        self.roots = model.body_rootid[model.jnt_bodyid[self.joints]]
        driven = set(self.joints.tolist())
        self.floating = any(
            joint not in driven and model.jnt_bodyid[joint] in set(self.roots.tolist()) for joint in range(model.njnt)
        )
        parents = set(model.body_parentid[1:].tolist())
        root = int(self.roots[0])
        leaves = [body for body in range(1, model.nbody) if body not in parents and model.body_rootid[body] == root]
        heights = self.data.xipos[leaves, 2]
        reach = self.data.xipos[root, 2] - heights.min()
        feet = [leaf for leaf, height in zip(leaves, heights, strict=True) if height <= heights.min() + _NEAR * reach]
        self.feet = feet if self.floating else []

    def foot_below(self, model: Any, joint: int) -> _Array | None:
        """Return the lowest point of the foot that a joint stands on, the mean of several; None if it has none."""
        points = [
            _lowest(model, self.data, foot)
            for foot in self.feet
            if self._inside(model, foot, int(model.jnt_bodyid[joint]))
        ]
        return np.mean(points, axis=0) if points else None

    def _inside(self, model: Any, body: int, ancestor: int) -> bool:
        while body:
            if body == ancestor:
                return True
            body = int(model.body_parentid[body])
        return False


def _lowest(model: Any, data: Any, body: int) -> _Array:
    """Return the lowest of the centres, and of the ends of rods, of a body's shapes."""
    rods = (int(mujoco.mjtGeom.mjGEOM_CAPSULE), int(mujoco.mjtGeom.mjGEOM_CYLINDER))
    points = [data.xipos[body].copy()]
    for shape in np.flatnonzero(model.geom_bodyid == body).tolist():
        half = model.geom_size[shape, 1] if model.geom_type[shape] in rods else 0.0
        along = half * data.geom_xmat[shape].reshape(3, 3)[:, 2]
        if abs(along[2]) < 1e-3:
            along = 0.0 * along  # a foot that lies flat carries in its middle
        points += [data.geom_xpos[shape] + along, data.geom_xpos[shape] - along]
    return np.asarray(min(points, key=lambda point: float(point[2])))


def _weigh(backend: GymnasiumMujocoBackend, tree: _Tree, stiffness: _Array) -> list[JointWeight]:
    """Return the weight on every joint: of the robot where it stands on it, else of what hangs on it, measured."""
    model, data = backend.model, tree.data
    backend.set_gains(stiffness[None], damping_for(stiffness[None], backend.effective_inertia()))
    probe = MujocoProbe(backend, model, weight=True)
    found = []
    for place, joint in enumerate(tree.joints.tolist()):
        foot = tree.foot_below(model, joint)
        if foot is None:
            found += hanging(probe, np.array([place]))
        else:
            mass = float(model.body_subtreemass[int(tree.roots[place])])
            found.append(carried(data.xaxis[joint], data.xanchor[joint], foot, mass, len(tree.feet)))
    return found


def _stand(backend: GymnasiumMujocoBackend, stiffness: _Array) -> Standing:
    """Put the robot where its episodes begin and tell it to hold its nominal pose."""
    model, joints = backend.model, backend.model.actuator_trnid[:, 0]
    places, dofs = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
    backend.set_gains(stiffness[None], damping_for(stiffness[None], backend.effective_inertia()))
    data = mujoco.MjData(model)
    data.qpos[:] = getattr(backend.env, "init_qpos", model.qpos0)
    data.qpos[places] = backend.nominal_pose
    data.ctrl[:] = backend.controls(backend.nominal_pose)
    mujoco.mj_forward(model, data)
    root = int(model.body_rootid[model.jnt_bodyid[joints[0]]])
    upright = data.xmat[root].reshape(3, 3)[2].copy()
    with quiet():
        mujoco.mj_step(model, data, nstep=round(_STANDING / model.opt.timestep))
    turned = float(upright @ data.xmat[root].reshape(3, 3)[2])
    calm = bool(np.isfinite(data.qvel).all() and np.abs(data.qvel[dofs]).max() < 0.1)
    sag = backend.nominal_pose - data.qpos[places]
    return Standing(sag, bool(calm and turned > _FALLEN and np.abs(sag).max() < SUNK))
