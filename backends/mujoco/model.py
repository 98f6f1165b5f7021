"""Compiled models whose actuators are the PD law, of the generated Spot or of a user's MJCF or URDF."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import PLANE_JOINTS, SPOT, RobotSpec, spot_mjcf
from adc_wrappers.core.errors import BackendError

from .engine import mujoco
from .layout import RobotLayout

__all__ = ["base_body", "compile_robot", "joint_inertia", "load_spec"]

_PLANE_SIZE = (0.0, 0.0, 0.05)  # a plane without end
_FORCE, _NET_FORCE = 2, 3  # what a contact sensor gives (bit 1: force), and how it sums contacts
_UNLIMITED = 1e10  # N·m: the engine wants a finite range


def load_spec(model: Any, self_collision: bool = False, visuals: bool = False, robot: RobotSpec = SPOT) -> Any:
    """Return an ``MjSpec`` of the generated robot (None), an XML text, a file, or a copy of a given ``MjSpec``."""
    if model is None:
        return mujoco.MjSpec.from_string(spot_mjcf(robot, self_collision=self_collision, visuals=visuals))
    if isinstance(model, mujoco.MjSpec):
        return model.copy()
    try:
        if isinstance(model, str) and "<" in model:
            return mujoco.MjSpec.from_string(model)
        if isinstance(model, (str, Path)):
            return mujoco.MjSpec.from_file(str(model))
    except ValueError as error:
        raise BackendError(f"MuJoCo cannot read the model: {error}") from error
    raise BackendError(f"model: expected an MJCF or URDF text or path, or an MjSpec, got {type(model).__name__}.")


def compile_robot(
    spec: Any,
    layout: RobotLayout,
    *,
    physics_step: float,
    self_collision: bool = False,
    fixed_base: bool = False,
    gravity: bool = True,
) -> Any:
    """Compile a robot whose only actuators are the PD law and whose sensors are the ground forces of its links.

    Changed in ``spec``: actuators, sensors and keyframes are replaced; spring, damping and torque limit of the actuated
    joints are removed (they would act beside the PD law; armature and dry friction stay); a robot without a base joint
    gets a free one, a world without shapes a ground plane; the robot's shapes decide the friction of their contacts,
    and are paired with the ground by name where it is flat.

    Raises:
        BackendError: A joint or link is missing, or the robot has joints that nobody commands.
    """
    _check_names(spec, layout)
    spec.compiler.fusestatic = False  # a URDF's feet and its welded base stay bodies of their own
    spec.option.timestep = physics_step
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_ISLAND.value  # one robot is one island: nothing to find
    if spec.option.jacobian == mujoco.mjtJacobian.mjJAC_AUTO and not layout.planar:
        # A foot's contact moves its own leg and the base only; not multiplying the zeros of the other legs saves a
        # tenth of a step. The engine by itself does so from 60 coordinates on. In the plane, with seven, it costs more.
        spec.option.jacobian = mujoco.mjtJacobian.mjJAC_SPARSE
    if not gravity:
        spec.option.gravity = [0.0, 0.0, 0.0]
    for item in (*spec.actuators, *spec.sensors, *spec.keys):
        spec.delete(item)
    _set_base(spec, layout, fixed_base)
    _set_contacts(spec, self_collision)
    if not (self_collision or fixed_base):
        _pair_with_ground(spec, layout)
    _add_actuators(spec, layout)
    _add_contact_sensors(spec, layout.link_names)
    try:
        model = spec.compile()
    except ValueError as error:
        raise BackendError(f"MuJoCo cannot compile the model: {error}") from error
    _check_joints(model, layout, fixed_base)
    return model


def base_body(spec: Any, layout: RobotLayout) -> Any:
    """Return the robot's root: the ancestor of the first joint that hangs on the world."""
    body = spec.joint(layout.joint_names[0]).parent
    while body.parent.name != spec.worldbody.name:
        body = body.parent
    return body


def joint_inertia(model: Any, layout: RobotLayout) -> NDArray[np.float64]:
    """Return the diagonal of the joint-space inertia at the nominal pose, armature included, per joint of one leg."""
    data = mujoco.MjData(model)
    joints = [model.joint(name) for name in layout.joint_names]
    data.qpos[[int(joint.qposadr[0]) for joint in joints]] = layout.nominal_pose
    mujoco.mj_forward(model, data)
    matrix = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, matrix)
    return np.asarray(matrix.diagonal()[[int(joint.dofadr[0]) for joint in joints]] / layout.legs)


def _check_names(spec: Any, layout: RobotLayout) -> None:
    for kind, argument, wanted, items in (
        ("joint", "joint_names", layout.joint_names, spec.joints),
        ("body", "link_names", layout.link_names, spec.bodies),
    ):
        have = [item.name for item in items]
        missing = [name for name in wanted if name not in have]
        if missing:
            raise BackendError(
                f"the model has no {kind} named {', '.join(missing)}; it has {', '.join(filter(None, have))}. "
                f"Rename it in the file, or pass the names it uses as {argument}."
            )


def _check_joints(model: Any, layout: RobotLayout, fixed_base: bool) -> None:
    """Refuse joints that would flop, and joints without one angle."""
    base = () if fixed_base else PLANE_JOINTS if layout.planar else ("one free base",)
    expected = len(layout.joint_names) + len(base)
    if model.njnt != expected:
        names = {model.joint(i).name or f"joint {i}" for i in range(model.njnt)} - {*layout.joint_names, *PLANE_JOINTS}
        raise BackendError(
            f"the model has {model.njnt} joints, expected {expected}: the actuated ones"
            f"{''.join(f' and {name}' for name in base)}. Not actuated: {', '.join(sorted(names))}. "
            "Add them to joint_names or remove them from the model."
        )
    for name in layout.joint_names:
        if model.joint(name).type[0] not in (mujoco.mjtJoint.mjJNT_HINGE.value, mujoco.mjtJoint.mjJNT_SLIDE.value):
            raise BackendError(f"joint {name!r}: expected a hinge or slide, which have one coordinate.")


def _set_base(spec: Any, layout: RobotLayout, fixed_base: bool) -> None:
    """Free or weld the base; a welded robot is on a stand, where nothing touches it."""
    base = base_body(spec, layout)
    moving = [joint for joint in base.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE or joint.name in PLANE_JOINTS]
    if fixed_base:
        spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT.value
        for joint in moving:
            spec.delete(joint)
    elif layout.planar and tuple(joint.name for joint in moving) != PLANE_JOINTS:
        raise BackendError(
            f"the model of a planar robot needs the base joints {', '.join(PLANE_JOINTS)}, in this order; it has "
            f"{', '.join(joint.name for joint in moving) or 'none'}."
        )
    elif not moving:
        base.add_freejoint()


def _set_contacts(spec: Any, self_collision: bool) -> None:
    """Give the world a ground, and let the robot's shapes decide friction; by default they meet the world only."""
    ground = [geom for geom in spec.worldbody.geoms if geom.contype or geom.conaffinity]
    if not ground:
        plane = mujoco.mjtGeom.mjGEOM_PLANE
        ground = [spec.worldbody.add_geom(name="ground", type=plane, size=_PLANE_SIZE)]
    priority = 1 + max(geom.priority for geom in ground)
    world = spec.worldbody.name
    for geom in spec.geoms:
        if geom.parent.name != world and (geom.contype or geom.conaffinity):
            geom.priority = priority
            if not self_collision:
                geom.contype, geom.conaffinity = 0, 1
    for geom in () if self_collision else ground:
        geom.contype |= 1


def _pair_with_ground(spec: Any, layout: RobotLayout) -> None:
    """Name the pairs of shapes that may touch, where the ground is planes, so that the engine need not search for them.

    A plane has no end, so the search rules nothing out; without it a step takes about 12 % less time and gives the same
    bits. A model that has pairs, exclusions, margins, or shapes beside the robot and the ground keeps the search.
    """
    robot = base_body(spec, layout)
    shapes = [geom for geom in robot.find_all("geom") if geom.contype or geom.conaffinity]
    others = [geom for geom in spec.geoms if (geom.contype or geom.conaffinity) and geom not in shapes]
    flat = all(g.parent.name == spec.worldbody.name and g.type == mujoco.mjtGeom.mjGEOM_PLANE for g in others)
    plain = not (spec.pairs or spec.excludes or any(geom.margin or geom.gap for geom in (*shapes, *others)))
    if not (flat and plain):
        return
    for index, geom in enumerate((*shapes, *others)):
        geom.name = geom.name or f"unnamed_shape_{index}"
        geom.contype = geom.conaffinity = 0
    for shape in shapes:
        slide, spin, roll = shape.friction
        for plane in others:
            spec.add_pair(
                geomname1=plane.name, geomname2=shape.name, condim=shape.condim, solref=shape.solref,
                solimp=shape.solimp, friction=[slide, slide, spin, roll, roll],
            )  # fmt: skip


def _add_actuators(spec: Any, layout: RobotLayout) -> None:
    limits = np.minimum(layout.torque_limits * layout.legs, _UNLIMITED).tolist()
    for name, limit in zip(layout.joint_names, limits, strict=True):
        joint = spec.joint(name)
        joint.damping = np.zeros_like(joint.damping)
        joint.stiffness = np.zeros_like(joint.stiffness)
        joint.springref = 0.0  # of the springs that KneeLimits uses
        joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE
        spec.add_actuator(
            name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, gaintype=mujoco.mjtGain.mjGAIN_FIXED,
            biastype=mujoco.mjtBias.mjBIAS_AFFINE, ctrllimited=mujoco.mjtLimited.mjLIMITED_FALSE,
            forcelimited=mujoco.mjtLimited.mjLIMITED_TRUE, forcerange=[-limit, limit],
        )  # fmt: skip


def _add_contact_sensors(spec: Any, links: Iterable[str]) -> None:
    """One sensor per link: the net force between it and the world, 3 numbers."""
    for link in links:
        spec.add_sensor(
            name=f"touch_{link}", type=mujoco.mjtSensor.mjSENS_CONTACT, objtype=mujoco.mjtObj.mjOBJ_BODY, objname=link,
            reftype=mujoco.mjtObj.mjOBJ_BODY, refname=spec.worldbody.name, intprm=[_FORCE, _NET_FORCE, 1],
        )  # fmt: skip
