"""The command limiter: what it lets through, what wins, the same in numpy and torch, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.guard import ROBOT_LIMITS, Guard, Moment
from adc_wrappers.backends.guard.guard import torque_limits
from adc_wrappers.backends.limiter import BEYOND, LIMITERS, CommandLimiter, CommandLimits, JointTable
from adc_wrappers.backends.spot_model import NOMINAL_POSE, PLANAR_SPOT, SPOT, knee_torque_limit
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.spot.body import spot_mirror

POSE = np.array(NOMINAL_POSE)
K = np.full((1, 12), 40.0)
B = np.full((1, 12), 3.0)
STILL = np.zeros((1, 12))
HY, KN = 1, 2


def limiter(held=POSE, **changes) -> CommandLimiter:
    return CommandLimiter(CommandLimits(**changes), SPOT, 0.02, np.atleast_2d(held).astype(np.float64))


def wide(**changes) -> dict[str, float]:
    """Limits of which only the changed ones matter."""
    return {"margin": 0.0, "torque_share": 100.0, "reach": 100.0, "slew": 100.0, "slew_change": 100.0, **changes}


def test_what_is_inside_passes_as_it_is():
    asked = POSE[None] + 0.01
    np.testing.assert_allclose(limiter()(asked, POSE[None], STILL, K, B), asked, rtol=0, atol=1e-15)


def test_range_reach_slew_and_torque_each_by_itself():
    far = POSE[None] + 9.0
    assert limiter(**wide(margin=0.03))(far, POSE[None], STILL, K, B)[0, HY] == pytest.approx(
        SPOT.actuated[HY].upper - 0.03
    )
    assert limiter(**wide(reach=0.5))(far, POSE[None], STILL, K, B)[0, 0] == pytest.approx(POSE[0] + 0.5)
    assert limiter(**wide(slew=0.1))(far, POSE[None], STILL, K, B)[0, KN] == pytest.approx(POSE[KN] + 0.1)
    moving = np.full((1, 12), 2.0)
    down = limiter(**wide(torque_share=0.5))(POSE[None] - 9.0, POSE[None], moving, K, B)
    torque = K * (down - POSE) - B * moving
    hips = [0, 1, 3, 4, 6, 7, 9, 10]
    inside = [i for i in hips if down[0, i] > SPOT.actuated[i].lower]
    np.testing.assert_allclose(torque[0, inside], -22.5)
    knee = knee_torque_limit(POSE[KN])
    assert torque[0, KN] == pytest.approx(-0.5 * knee) or down[0, KN] == pytest.approx(SPOT.actuated[KN].lower)


def test_a_training_may_loosen_every_limit():
    far = POSE[None] + 9.0
    for changes, joint, expected in (
        ({"reach": 0.2}, 0, POSE[0] + 0.4),
        ({"slew": 0.1}, KN, POSE[KN] + 0.2),
        ({"torque_share": 0.25}, 0, POSE[0] + 0.5 * 45.0 / 40.0),
        ({"margin": 0.03}, HY, SPOT.actuated[HY].upper - 0.03 + BEYOND),
    ):
        loose = limiter(**wide(**changes))
        loose.looseness = 2.0
        assert loose(far, POSE[None], STILL, K, B)[0, joint] == pytest.approx(expected), changes


def test_a_filter_goes_a_share_of_the_way():
    got = limiter(**wide(filter_seconds=0.06))(POSE[None] + 0.4, POSE[None], STILL, K, B)
    np.testing.assert_allclose(got, POSE[None] + 0.1)


numbers = st.floats(-3.0, 3.0)


@settings(max_examples=150, deadline=None)
@given(
    asked=st.lists(st.lists(numbers, min_size=12, max_size=12), min_size=2, max_size=8),
    offset=numbers, speed=st.floats(-30.0, 30.0),
)  # fmt: skip
def test_slew_and_range_are_kept_whatever_is_asked_and_measured(asked, offset, speed):
    """And the guard for a robot has nothing to say about position, slew and its change, from the first target on."""
    joints, one = JointTable(SPOT), limiter()
    state = RobotState(*[np.zeros((1, 3))] * 5, POSE[None] + offset, np.full((1, 12), speed), STILL, STILL)
    guard = Guard(ROBOT_LIMITS, (1.0, 0.0, 0.0))
    guard.phases.hand_to_policy()
    last, change = POSE[None], STILL
    for targets in asked:
        got = one(np.array([targets]), state.joint_positions, state.joint_velocities, K, B)
        np.testing.assert_array_equal(got, one(np.array([targets]), *state[5:7], K, B))  # asking changes nothing
        assert (np.abs(got - last) <= joints.by_joint(one.limits.slew) + 1e-12).all()
        assert (np.abs(got - last - change) <= joints.by_joint(one.limits.slew_change) + 1e-12).all()
        assert (got >= joints.lower + 0.03 - 1e-12).all() and (got <= joints.upper - 0.03 + 1e-12).all()
        breach = guard.before(Moment(state, got[0], last[0], K[0], B[0], STILL[0]))
        assert breach is None or breach.check in ("reach", "torque")
        if breach is not None:
            return
        one.accept(got)
        last, change = got, got - last


def test_near_the_measured_joints_the_guard_passes_everything():
    """Where joints move as slowly as targets may, nothing contradicts, and torque and reach are kept too."""
    rng = np.random.default_rng(0)
    one, guard = limiter(), Guard(ROBOT_LIMITS, (1.0, 0.0, 0.0))
    guard.phases.hand_to_policy()
    q, last = POSE[None].copy(), POSE[None].copy()
    for _ in range(300):
        speed = rng.uniform(-3.0, 3.0, (1, 12))
        got = one(POSE + rng.uniform(-1.5, 1.5, (1, 12)), q, speed, K, B)
        state = RobotState(*[np.zeros((1, 3))] * 5, q, speed, STILL, STILL)
        assert guard.before(Moment(state, got[0], last[0], K[0], B[0], STILL[0])) is None
        one.accept(got)
        last = got.copy()
        q = q + np.clip(0.3 * (got - q), -0.05, 0.05)


def test_numpy_and_torch_are_the_same():
    rng = np.random.default_rng(1)
    arrays = [POSE + rng.uniform(-1, 1, (5, 12)) for _ in range(3)] + [rng.uniform(-9, 9, (5, 12))]
    held, asked, q, speed = arrays
    gains = (np.full((5, 12), 40.0), np.full((5, 12), 3.0))
    one = CommandLimiter(LIMITERS["robot"], SPOT, 0.02, held)
    other = CommandLimiter(LIMITERS["robot"], SPOT, 0.02, torch.tensor(held))
    for _ in range(3):
        got = one(asked, q, speed, *gains)
        too = other(*(torch.tensor(values) for values in (asked, q, speed, *gains)))
        np.testing.assert_allclose(too.numpy(), got, rtol=1e-12)
        one.accept(got)
        other.accept(too)
    rows = np.array([3, 1])
    one.begin(held[rows], rows)
    other.begin(torch.tensor(held[rows]), torch.tensor(rows))
    np.testing.assert_allclose(other.targets.numpy(), one.targets)
    assert not one.change[rows].any() and one.change[0].any()
    np.testing.assert_array_equal(other.change.numpy() == 0, one.change == 0)


@pytest.mark.parametrize("robot", [SPOT, PLANAR_SPOT])
def test_torque_limits_are_the_tables_of_the_guard(robot):
    joints = JointTable(robot)
    q = np.random.default_rng(2).uniform(-3.2, 2.0, (7, len(joints.names)))
    got = joints.torque_limits(q)
    for i, name in enumerate(joints.names):
        expected = knee_torque_limit(q[:, i]) if name.endswith("_kn") else np.full(7, 45.0)
        np.testing.assert_allclose(got[:, i], expected, rtol=1e-12)
    if robot is SPOT:
        np.testing.assert_allclose(got[0], torque_limits(q[0]))
    assert np.isfinite(joints.torque_limits(np.full_like(q, np.nan))).all()


def test_a_mirrored_robot_is_limited_to_mirrored_targets():
    mirror = spot_mirror([joint.name for joint in SPOT.actuated])
    rng = np.random.default_rng(3)
    held, asked, q = (POSE + rng.uniform(-1.0, 1.0, (6, 12)) for _ in range(3))
    speed = rng.uniform(-9, 9, (6, 12))
    gains = (np.full((6, 12), 40.0), np.full((6, 12), 3.0))
    one = CommandLimiter(LIMITERS["robot"], SPOT, 0.02, held)
    other = CommandLimiter(LIMITERS["robot"], SPOT, 0.02, mirror.actions(held))
    for _ in range(2):
        got = one(asked, q, speed, *gains)
        too = other(*(mirror.actions(values) for values in (asked, q, speed)), *gains)
        np.testing.assert_allclose(too, mirror.actions(got), rtol=1e-12)
        one.accept(got)
        other.accept(too)
        asked = -asked


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"slew": 0.0}, "positive"), ({"slew": [0.1, 0.2]}, "hx, hy and kn"), ({"margin": -1.0}, "not negative"),
        ({"torque_share": 0.0}, "positive"), ({"slew": 0.5, "slew_change": 0.4}, "stopped"), ({"slow": 1.0}, "slew"),
        ({"margin": "wide"}, "margin"), ({"reach": "far"}, "reach"), ({"filter_seconds": float("nan")}, "filter"),
    ],
)  # fmt: skip
def test_bad_numbers_are_refused(values, word):
    with pytest.raises(CurriculumError, match=word):
        CommandLimits.from_dict(values)


def test_numbers_go_through_json_values():
    limits = CommandLimits(slew=(0.1, 0.2, 0.3), slew_change=0.4)
    assert CommandLimits.from_dict(limits.to_dict()) == limits
