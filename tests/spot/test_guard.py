"""The guard: pure numpy, so everything about it is tested without a robot."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spot_helpers import NOSE_DOWN, make_state

from adc_wrappers import make_env
from adc_wrappers.backends.guard import (
    PRACTICE_LIMITS,
    ROBOT_LIMITS,
    ByKind,
    Guard,
    Moment,
    find_limits,
    lean_and_side,
)
from adc_wrappers.backends.spot_model import JOINT_NAMES, NOMINAL_POSE, SPOT, knee_torque_limit
from adc_wrappers.core.errors import BackendError
from adc_wrappers.envs.spot.failures import lean_and_side as batched_lean_and_side
from adc_wrappers.envs.spot.terms import HANDSTAND

POSE = np.array(NOMINAL_POSE)
SOFT = np.full(12, 40.0)
FEET = ("fl_foot", "fr_foot", "hl_foot", "hr_foot")


def moment(targets=POSE, previous=POSE, state=None, stiffness=SOFT, **more):
    state = make_state(touching=FEET) if state is None else state
    return Moment(state, np.array(targets), np.array(previous), stiffness, np.full(12, 2.0), np.zeros(12), **more)


def guard(limits=ROBOT_LIMITS):
    found = Guard(limits, HANDSTAND.gravity)
    found.phases.hand_to_policy()
    return found


def test_a_quiet_robot_passes():
    assert guard().before(moment()) is None
    assert guard().after(make_state(touching=FEET)) is None
    assert guard().ages(state_age=0.01, policy_age=0.02, echo_lag=0.01) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_stop_it(bad):
    targets = POSE.copy()
    targets[3] = bad
    assert guard().before(moment(targets)).check == "finite"
    assert guard().after(make_state(joint_velocities=bad)).check == "finite"


@given(joint=st.integers(0, 11), share=st.floats(0.001, 1.0), up=st.booleans())
def test_a_target_beyond_the_range_of_its_joint_stops_it(joint, share, up):
    spec = SPOT.actuated[joint]
    targets = POSE.copy()
    targets[joint] = spec.upper + share if up else spec.lower - share
    breach = guard().before(moment(targets, previous=targets))
    assert breach.check == "position" and spec.name in breach.reason
    wide = replace(ROBOT_LIMITS, beyond_stop=2.0, torque_share=1e3).in_every_phase(reach=10.0)
    assert guard(wide).before(moment(targets, previous=targets)) is None


def test_a_target_that_jumps_stops_it():
    previous = POSE.copy()
    previous[5] += 0.4
    breach = guard().before(moment(previous=previous))
    assert breach.check == "slew" and "fr_kn" in breach.reason


@given(angle=st.floats(-2.7, -0.3), share=st.floats(0.2, 1.8))
def test_predicted_torque_is_judged_by_the_knees_table(angle, share):
    positions = POSE.copy()
    positions[2] = angle
    state = make_state(touching=FEET, joint_positions=positions)
    stiffness = np.full(12, 1000.0)
    targets = positions.copy()
    targets[2] += share * float(knee_torque_limit(angle)) / 1000.0
    limits = replace(ROBOT_LIMITS, beyond_stop=1.0).in_every_phase(reach=10.0)
    breach = guard(limits).before(moment(targets, previous=targets, state=state, stiffness=stiffness))
    assert (breach is not None and breach.check == "torque") == (share > 1.0 + 1e-9) or abs(share - 1.0) < 1e-6


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"projected_gravity": (0.0, 0.6, -0.8)}, "side"),
        ({"projected_gravity": (-0.6, 0.0, -0.8)}, "lean"),
        ({"base_linear_velocity": 3.0}, "speed"),
        ({"base_angular_velocity": 9.0}, "turn_rate"),
        ({"base_position": 0.1}, "height"),
        ({"joint_velocities": 25.0}, "joint_speed"),
        ({"touching": ("fl_uleg",)}, "fall"),
    ],
)
def test_every_envelope_stops_it(changes, check):
    breach = guard().after(make_state(**{"touching": FEET, **changes}))
    assert breach.check == check and breach.phase == "transition" and breach.reason


def test_phases_have_their_own_envelopes():
    found = guard()
    found.phases.take_over()
    leaning = (np.sin(0.4), 0.0, -np.cos(0.4))
    assert found.after(make_state(touching=FEET, projected_gravity=leaning)).check == "lean"  # while it is taken over
    found.phases.hand_to_policy()
    assert found.after(make_state(touching=FEET, projected_gravity=leaning)) is None
    for _ in range(5):
        assert found.after(make_state(touching=("fl_foot",), projected_gravity=NOSE_DOWN)) is None
    assert found.phases.phase == "stance"
    assert found.after(make_state(touching=FEET, projected_gravity=leaning)) is None  # left: a new transition
    assert found.phases.phase == "transition"


@pytest.mark.parametrize("part", ["targets", "previous", "stiffness", "damping", "load"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nothing_that_is_not_finite_is_sent(part, bad):
    now = moment()
    values = getattr(now, part).copy()
    values[7] = bad
    assert guard().before(now._replace(**{part: values})).check == "finite"


@pytest.mark.parametrize("part", ["joint_positions", "joint_velocities"])
def test_no_command_comes_from_a_state_that_is_not_finite(part):
    values = POSE.copy()
    values[7] = np.nan
    assert guard().before(moment(state=make_state(touching=FEET, **{part: values}))).check == "finite"


def test_negative_gains_are_not_sent():
    assert "damping" in guard().before(moment()._replace(damping=np.full(12, -1.0))).reason


@pytest.mark.parametrize(
    ("joint", "jump", "check"),
    [("fl_hx", 0.32, "slew"), ("fl_hy", 0.25, None), ("fl_hy", 0.32, "slew"), ("fl_kn", 0.32, None)],
)
def test_hips_and_knees_have_their_own_slew(joint, jump, check):
    previous = POSE.copy()
    previous[JOINT_NAMES.index(joint)] += jump
    breach = guard(replace(ROBOT_LIMITS, torque_share=10.0)).before(moment(previous=previous))
    assert (breach and breach.check) == check


@pytest.mark.parametrize(
    ("phase", "joint", "speed", "stops"),
    [
        ("takeover", "hl_hy", 4.5, True),
        ("takeover", "hl_kn", 4.5, False),
        ("takeover", "hl_kn", 8.5, True),
        ("transition", "hl_hy", 10.0, False),
        ("transition", "hl_hx", 10.0, True),
        ("transition", "hl_kn", 15.0, False),
        ("stance", "hl_kn", 15.0, True),
    ],
)
def test_joint_speed_is_judged_by_joint_and_phase(phase, joint, speed, stops):
    found = guard()
    found.phases.phase = phase
    speeds = np.zeros(12)
    speeds[JOINT_NAMES.index(joint)] = -speed
    gravity = NOSE_DOWN if phase == "stance" else (0.0, 0.0, -1.0)
    breach = found.after(make_state(touching=FEET, joint_velocities=speeds, projected_gravity=gravity))
    assert (breach is not None and breach.check == "joint_speed" and joint in breach.reason) == stops


def test_the_robots_own_speed_limit_is_not_the_least_of_the_joints():
    """One number for all joints is sent: the least would fault the robot where a knee does what it may."""
    assert ROBOT_LIMITS.velocity_safety_limit == 16.0
    assert ROBOT_LIMITS.velocity_safety_limit >= max(max(e.joint_speed) for e in ROBOT_LIMITS.envelopes.values())


@pytest.mark.parametrize(
    ("joint", "away", "stops"), [("fr_hx", 1.1, True), ("fr_kn", 0.8, False), ("fr_kn", 1.1, True)]
)
def test_a_target_far_from_where_the_joint_is_stops_it(joint, away, stops):
    found = guard(replace(ROBOT_LIMITS, torque_share=10.0))
    found.phases.take_over()
    positions = POSE.copy()
    positions[JOINT_NAMES.index(joint)] += away
    breach = found.before(moment(state=make_state(touching=FEET, joint_positions=positions)))
    assert (breach is not None and breach.check == "reach") == stops


@pytest.mark.parametrize(
    ("joint", "away", "stops"),
    [("fr_hx", 1.1, True), ("fr_hy", 1.1, False), ("fr_hy", 1.3, True), ("fr_kn", 1.7, True)],
)
def test_a_soft_joint_that_the_policy_moves_may_be_further_from_its_target(joint, away, stops):
    found = guard(replace(ROBOT_LIMITS, torque_share=10.0))
    positions = POSE.copy()
    positions[JOINT_NAMES.index(joint)] += away
    breach = found.before(moment(state=make_state(touching=FEET, joint_positions=positions)))
    assert (breach is not None and breach.check == "reach") == stops


def test_a_target_that_turns_round_at_once_stops_it():
    """Each step is within the slew; the change from one to the next is not."""
    found = guard(replace(ROBOT_LIMITS, torque_share=10.0))
    step = np.zeros(12)
    step[JOINT_NAMES.index("fl_kn")] = 0.3
    assert found.before(moment(POSE + step, previous=POSE)) is None
    assert found.before(moment(POSE, previous=POSE + step)).check == "slew_change"
    found.forget()
    assert found.before(moment(POSE, previous=POSE + step)) is None  # from rest it is one step


def test_measured_torque_and_position_stop_it():
    torques = np.zeros(12)
    torques[JOINT_NAMES.index("hr_hy")] = 1.2 * 45.0
    breach = guard().after(make_state(touching=FEET, joint_torques=torques))
    assert breach.check == "joint_torque" and "hr_hy" in breach.reason
    positions = POSE.copy()
    positions[JOINT_NAMES.index("fl_kn")] = SPOT.actuated[JOINT_NAMES.index("fl_kn")].upper + 0.1
    breach = guard().after(make_state(touching=FEET, joint_positions=positions))
    assert breach.check == "joint_range" and "fl_kn" in breach.reason


def test_limits_have_names_and_plain_values():
    assert ROBOT_LIMITS.name == "robot" and replace(ROBOT_LIMITS).name == "robot" and PRACTICE_LIMITS.name == "practice"
    own, other = replace(ROBOT_LIMITS, slew=0.1), replace(ROBOT_LIMITS, slew=0.2)
    assert own.slew == ByKind(0.1, 0.1, 0.1) and own.name != other.name and own.name.startswith("own ")
    values = json.loads(json.dumps(ROBOT_LIMITS.to_dict()))
    assert values["slew"]["hx"] == 0.3 and values["envelopes"]["takeover"]["joint_speed"]["kn"] == 8.0


@pytest.mark.parametrize("name", ["state_age", "policy_age", "echo_lag"])
def test_every_clock_stops_it(name):
    ages = {"state_age": 0.0, "policy_age": 0.0, "echo_lag": 0.0, name: 1.0}
    assert guard().ages(**ages).check == name
    assert guard().ages(**{**ages, name: float("nan")}).check == name  # what cannot be compared is not fresh


def test_lean_and_side_are_those_of_the_task():
    rng = np.random.default_rng(0)
    gravity = rng.normal(size=(200, 3))
    gravity /= np.linalg.norm(gravity, axis=1, keepdims=True)
    leans, sides = batched_lean_and_side(gravity, HANDSTAND)
    for row, lean, side in zip(gravity, np.rad2deg(leans), np.rad2deg(sides), strict=True):
        assert np.allclose(lean_and_side(row, HANDSTAND.gravity), (lean, side), atol=1e-9)


def test_limits_that_are_off_are_refused():
    with pytest.raises(BackendError, match="slew"):
        replace(ROBOT_LIMITS, slew=float("nan"))
    with pytest.raises(BackendError, match="one for each"):
        replace(ROBOT_LIMITS, envelopes={})
    stance = ROBOT_LIMITS.envelopes["stance"]
    with pytest.raises(BackendError, match="least, largest"):
        replace(stance, lean=(10.0, -10.0))
    with pytest.raises(BackendError, match="joint_speed: expected one positive number, or three"):
        replace(stance, joint_speed=(1.0, 2.0))
    with pytest.raises(BackendError, match="motor_temperature"):
        replace(ROBOT_LIMITS, motor_temperature=float("nan"))
    with pytest.raises(BackendError, match="Did you mean 'robot'"):
        find_limits("robott")
    assert find_limits("practice") is PRACTICE_LIMITS


def test_in_simulation_the_shipped_policy_passes_the_practice_limits_and_not_the_robots():
    """Why it is not for hardware as it is: it asks for jumps, and for more than the joints' range and torque."""
    from spot_robot_helpers import POLICY

    from adc_wrappers.policy import load

    policy = load(POLICY)
    metadata = policy.metadata
    env = make_env("spot-handstand", backend="mujoco", preset="cpu", randomize=False)
    backend = env.actuator_backend
    stiffness, damping = np.array(metadata.simulated_stiffness), np.array(metadata.simulated_damping)
    backend.set_gains(stiffness[None], damping[None])
    wide, strict = guard(PRACTICE_LIMITS), guard(ROBOT_LIMITS)
    refused = []
    previous = POSE
    observation, _ = env.reset(seed=0)
    for _ in range(60):
        action = policy(observation)
        targets = policy.targets(action)
        now = Moment(backend.state(), targets, previous, stiffness, damping, np.zeros(12))
        assert wide.before(now) is None
        refused.append(strict.before(now) is not None)
        previous = targets
        observation, *_ = env.step(action)
        assert wide.after(backend.state()) is None
    env.close()
    assert refused[0] and np.mean(refused) > 0.5


def test_the_wrapper_ends_a_simulated_episode_as_the_robots_would_end():
    from adc_wrappers.envs.guarded import GuardWrapper

    env = GuardWrapper(make_env("spot-handstand", backend="mujoco", randomize=False), PRACTICE_LIMITS)
    env.reset(seed=0)
    observation, _, terminated, truncated, info = env.step(np.zeros(12, np.float32))
    assert not terminated and "guard" not in info
    strict = GuardWrapper(env.env, replace(PRACTICE_LIMITS, slew=0.1))
    before, _ = strict.reset(seed=0)
    observation, reward, terminated, truncated, info = strict.step(np.full(12, 0.5, np.float32))
    assert terminated and not truncated and reward == 0.0 and info["guard"]["check"] == "slew"
    assert np.array_equal(observation, before)  # nothing was simulated
    fast = GuardWrapper(env.env, PRACTICE_LIMITS.in_every_phase(joint_speed=0.01))
    fast.reset(seed=0)
    _, _, terminated, _, info = fast.step(np.zeros(12, np.float32))
    assert terminated and info["guard"]["check"] == "joint_speed"
    env.close()
    with pytest.raises(TypeError, match="Spot's stands"):
        GuardWrapper(make_env("cartpole", backend="analytic"))
