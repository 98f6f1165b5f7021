"""Spot as a table: against its source, its symmetry, its knees, and what the generators promise."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import math
import subprocess
import sys
from typing import Any

import mujoco
import numpy as np
import pytest
from spot_model_helpers import Array, Mujoco, random_poses, spot_in_mujoco, tensor

from adc_wrappers.backends.spot_model import (
    FOOT_NAMES,
    FOOT_RADIUS,
    JOINT_NAMES,
    KNEE_ANGLES,
    KNEE_PEAK_TORQUE,
    KNEE_TORQUES,
    LINK_NAMES,
    NOMINAL_POSE,
    SPOT,
    ShapeSpec,
    foot_positions,
    knee_torque_limit,
    link_poses,
    spot_mjcf,
    spot_urdf,
)

mj = pytest.fixture(scope="module")(spot_in_mujoco)


# --- the table against its source --------------------------------------------------------------------------------


def test_names_are_leg_by_leg_in_sdk_order() -> None:
    expected = "fl_hx fl_hy fl_kn fr_hx fr_hy fr_kn hl_hx hl_hy hl_kn hr_hx hr_hy hr_kn"
    assert expected.split() == list(JOINT_NAMES)
    assert tuple(joint.name for joint in SPOT.actuated) == JOINT_NAMES
    assert tuple(link.name for link in SPOT.links) == LINK_NAMES
    assert len(LINK_NAMES) == 17


def test_total_mass_is_31_6_kg() -> None:
    assert SPOT.total_mass == pytest.approx(31.6, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "com", "products"),
    [
        ("fl_hip", (-0.01586739, 0.00855842, 0.00000903), (-0.00017754, 0.00000043, -0.00000049)),
        ("fr_hip", (-0.01586739, -0.00855842, 0.00000903), (0.00017754, 0.00000043, 0.00000049)),
        ("hl_hip", (0.01586739, 0.00855842, 0.00000903), (0.00017754, -0.00000043, -0.00000049)),
        ("hr_hip", (0.01586739, -0.00855842, 0.00000903), (-0.00017754, -0.00000043, 0.00000049)),
        ("hl_uleg", (0.00214442, -0.01110184, -0.07881204), (-0.00008782, 0.00054873, 0.00207146)),
        ("fr_uleg", (0.00214442, 0.01110184, -0.07881204), (0.00008782, 0.00054873, -0.00207146)),
        ("hr_lleg", (0.00597360, 0.0, -0.17466427), (0.0, 0.00006600, 0.0)),
    ],
)
def test_signs_of_the_legs_are_those_of_the_sdk(name: str, com: tuple[float, ...], products: tuple[float, ...]) -> None:
    link = SPOT.link(name)
    assert link.com == pytest.approx(com, abs=1e-12)
    assert link.inertia[3:] == pytest.approx(products, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "origin", "lower", "upper"),
    [
        ("fl_hx", (0.29785, 0.055, 0.0), -0.785398, 0.785398),
        ("hr_hx", (-0.29785, -0.055, 0.0), -0.785398, 0.785398),
        ("fr_hy", (0.0, -0.110945, 0.0), -0.898845, 2.295108),
        ("hl_kn", (0.025, 0.0, -0.3205), -2.7929, -0.2471),
    ],
)
def test_joints_are_those_of_the_sdk(name: str, origin: tuple[float, ...], lower: float, upper: float) -> None:
    joint = SPOT.actuated[JOINT_NAMES.index(name)]
    assert (joint.origin, joint.lower, joint.upper, joint.armature) == (origin, lower, upper, 0.0)


def test_left_and_right_are_mirror_images() -> None:
    mirror = np.diag([1.0, -1.0, 1.0])

    def along(shape: ShapeSpec) -> Array:
        """The shape's z axis."""
        roll, pitch, _ = shape.rpy
        return np.array(
            [math.sin(pitch) * math.cos(roll), -math.sin(roll), math.cos(pitch) * math.cos(roll)], dtype=np.float64
        )

    for left in SPOT.links[1:]:
        if left.name[1] == "r":
            continue
        right = SPOT.link(left.name[0] + "r" + left.name[2:])
        assert right.mass == left.mass
        np.testing.assert_allclose(right.com, mirror @ left.com, atol=1e-15)
        np.testing.assert_allclose(tensor(right), mirror @ tensor(left) @ mirror, atol=1e-15)
        shapes = zip((*left.collision, *left.visual), (*right.collision, *right.visual), strict=True)
        for one, other in shapes:
            assert (one.kind, one.color) == (other.kind, other.color)
            np.testing.assert_allclose(other.size, one.size, atol=1e-15)
            np.testing.assert_allclose(other.position, mirror @ one.position, atol=1e-15)
            np.testing.assert_allclose(along(other), mirror @ along(one), atol=1e-12)


def test_mirrored_angles_give_mirrored_feet() -> None:
    for pose in (np.array(NOMINAL_POSE), *random_poses(3)):
        legs = pose.reshape(4, 3)
        swapped = (legs[[1, 0, 3, 2]] * [-1.0, 1.0, 1.0]).ravel()
        np.testing.assert_allclose(
            foot_positions(swapped)[[1, 0, 3, 2]], foot_positions(pose) * [1.0, -1.0, 1.0], atol=1e-12
        )
    np.testing.assert_array_equal(
        np.reshape(NOMINAL_POSE, (4, 3))[[1, 3], 1:], np.reshape(NOMINAL_POSE, (4, 3))[[0, 2], 1:]
    )
    assert [NOMINAL_POSE[i] for i in (0, 3, 6, 9)] == [0.1, -0.1, 0.1, -0.1]


def test_inertias_are_physical() -> None:
    for link in SPOT.links:
        if link.mass > 0.0:
            a, b, c = np.linalg.eigvalsh(tensor(link))
            assert a > 0.0
            assert a + b >= c


# --- the knee ----------------------------------------------------------------------------------------------------


def test_knee_table_has_the_sources_ends_peak_and_spacing() -> None:
    assert KNEE_ANGLES.shape == KNEE_TORQUES.shape == (101,)
    np.testing.assert_allclose(np.diff(KNEE_ANGLES), 0.025458, atol=1e-12)
    np.testing.assert_allclose(knee_torque_limit([-2.7929, -0.2471]), [37.165077, 30.6025], atol=1e-9)
    assert pytest.approx(113.236015) == KNEE_PEAK_TORQUE
    assert KNEE_ANGLES[KNEE_TORQUES.argmax()] == pytest.approx(-1.443626, abs=1e-9)
    assert knee_torque_limit(-1.01084) == pytest.approx(102.372505, abs=1e-6)


def test_knee_limit_rises_to_its_peak_then_falls_and_stays_near_the_quartic_fit() -> None:
    angles = np.linspace(-2.7929, -0.2471, 4001)
    limits = knee_torque_limit(angles)
    peak = int(limits.argmax())
    assert (np.diff(limits[: peak + 1]) > 0.0).all()
    assert (np.diff(limits[peak:]) < 0.0).all()
    fit = np.polyval([4.05218, 17.4423, -31.8942, -152.3839, -5.5081], angles)
    assert np.abs(limits - fit).max() < 0.71


def test_knee_limit_keeps_shape_clamps_outside_and_passes_nan_on() -> None:
    assert knee_torque_limit(np.full((3, 4), -1.0)).shape == (3, 4)
    np.testing.assert_allclose(knee_torque_limit([-9.0, 9.0]), [37.165077, 30.6025])
    assert np.isnan(knee_torque_limit(math.nan))


# --- what the generators promise ---------------------------------------------------------------------------------


def test_actuators_are_the_pd_law_with_torque_limits() -> None:
    robot = Mujoco(fixed_base=True, stiffness=50.0, damping=2.0)
    generator = np.random.default_rng(1)
    for scale in (0.3, 5.0):
        robot.data.qpos[:] = NOMINAL_POSE
        robot.data.qvel[:] = generator.normal(size=12)
        robot.data.ctrl[:] = NOMINAL_POSE + scale * generator.normal(size=12)
        mujoco.mj_forward(robot.model, robot.data)
        torque = 50.0 * (robot.data.ctrl - robot.data.qpos) - 2.0 * robot.data.qvel
        limit = np.tile([45.0, 45.0, KNEE_PEAK_TORQUE], 4)
        np.testing.assert_allclose(robot.data.actuator_force, np.clip(torque, -limit, limit), atol=1e-9)
        assert (np.abs(torque) > limit).any() == (scale > 1.0)
    np.testing.assert_allclose(robot.data.qfrc_actuator, robot.data.actuator_force)


def test_options_reach_the_compiled_model() -> None:
    plain = Mujoco()
    assert plain.model.opt.timestep == 0.002
    assert plain.model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert plain.model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert plain.model.opt.impratio == 10.0
    assert plain.model.geom("fl_foot").solref == pytest.approx([0.004, 1.0])
    assert plain.model.nv == 18
    assert plain.model.actuator_gainprm[0, 0] == 60.0
    armoured = dataclasses.replace(
        SPOT, joints=tuple(dataclasses.replace(j, armature=0.01) if j.axis else j for j in SPOT.joints)
    )
    other = Mujoco(
        robot=armoured, timestep=0.004, integrator="Euler", fixed_base=True, ground=False, visuals=False,
        cone="pyramidal", impratio=2.0, solref=(0.02, 0.9),
    )  # fmt: skip
    assert other.model.opt.timestep == 0.004
    assert other.model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    assert other.model.opt.impratio == 2.0
    assert other.model.geom("fl_foot").solref == pytest.approx([0.02, 0.9])
    assert other.model.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER
    assert other.model.nv == 12
    assert other.model.ngeom == len(LINK_NAMES)
    assert other.model.dof_armature == pytest.approx(0.01)
    assert plain.model.dof_armature == pytest.approx(0.0)
    assert mujoco.mj_name2id(other.model, mujoco.mjtObj.mjOBJ_GEOM, "ground") == -1
    assert "<visual>" not in spot_urdf(visuals=False)


def test_keyframe_stands_on_its_lowest_feet(mj: Mujoco) -> None:
    mujoco.mj_resetDataKeyframe(mj.model, mj.data, mj.model.key("nominal").id)
    mujoco.mj_forward(mj.model, mj.data)
    np.testing.assert_allclose(mj.data.qpos[7:], NOMINAL_POSE, atol=1e-9)
    np.testing.assert_allclose(mj.data.ctrl, NOMINAL_POSE, atol=1e-9)
    feet = [mj.data.body(name).xpos[2] for name in FOOT_NAMES]
    assert min(feet) == pytest.approx(FOOT_RADIUS, abs=1e-9)


def test_drawn_robot_has_spots_size_and_colours(mj: Mujoco) -> None:
    """The data sheet says 1.1 m long and 0.5 m wide."""
    mj.place((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), NOMINAL_POSE)
    drawn = [i for i in range(mj.model.ngeom) if mj.model.geom_group[i] == 2]
    corners = []
    for geom in drawn:
        centre = mj.data.geom_xpos[geom] + mj.data.geom_xmat[geom].reshape(3, 3) @ mj.model.geom_aabb[geom, :3]
        reach = np.abs(mj.data.geom_xmat[geom].reshape(3, 3)) @ mj.model.geom_aabb[geom, 3:]
        corners += [centre - reach, centre + reach]
    length, width, _ = np.max(corners, axis=0) - np.min(corners, axis=0)
    assert length == pytest.approx(1.1, abs=0.1)
    assert width == pytest.approx(0.5, abs=0.05)
    yellow = [shape for shape in SPOT.link("body").visual if shape.color[0] > 0.9 and shape.color[2] < 0.2]
    assert max(math.prod(shape.size) for shape in yellow if shape.kind == "box") > 0.006
    face = [shape for shape in SPOT.link("body").visual if abs(shape.position[0]) > 0.41]
    assert face
    assert all(shape.position[0] > 0.0 and max(shape.color) <= 0.5 for shape in face)  # dark, and only in front


@pytest.mark.parametrize(
    "options",
    [
        {"timestep": 0.0},
        {"timestep": math.nan},
        {"stiffness": -1.0},
        {"damping": math.inf},
        {"friction": -0.1},
        {"integrator": "leapfrog"},
        {"cone": "square"},
        {"impratio": 0.0},
    ],
)
def test_bad_options_raise(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        spot_mjcf(**options)


def test_other_bad_arguments_raise() -> None:
    with pytest.raises(ValueError, match="friction"):
        spot_urdf(friction=math.nan)
    with pytest.raises(ValueError, match="12 joint positions"):
        link_poses(np.zeros(7))
    with pytest.raises(KeyError, match="no link 'tail'"):
        SPOT.link("tail")


@pytest.mark.parametrize("name", ["knee", "mechanics"])
def test_examples_in_docstrings_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"adc_wrappers.backends.spot_model.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_no_engine_is_imported() -> None:
    code = (
        "import sys, adc_wrappers.backends.spot_model as s; s.spot_mjcf(); s.spot_urdf();"
        "assert not {'mujoco', 'pybullet'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
