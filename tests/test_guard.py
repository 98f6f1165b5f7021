"""The guard: pure numpy, so everything about it is tested without a robot."""

from __future__ import annotations

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
    Envelope,
    Guard,
    Moment,
    find_limits,
    lean_and_side,
)
from adc_wrappers.backends.spot_model import NOMINAL_POSE, SPOT, knee_torque_limit
from adc_wrappers.core.errors import BackendError
from adc_wrappers.envs.spot.failures import lean_and_side as batched_lean_and_side
from adc_wrappers.envs.spot.stances import HANDSTAND

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
    allowed = guard(replace(ROBOT_LIMITS, beyond_stop=2.0, torque_share=1e3)).before(moment(targets, previous=targets))
    assert allowed is None


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
    limits = replace(ROBOT_LIMITS, beyond_stop=1.0)
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
    with pytest.raises(BackendError, match="least, largest"):
        Envelope(lean=(10.0, -10.0), side=1.0, speed=1.0, turn_rate=1.0, height=0.1)
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
    fast = GuardWrapper(env.env, replace(PRACTICE_LIMITS, joint_speed=0.01))
    fast.reset(seed=0)
    _, _, terminated, _, info = fast.step(np.zeros(12, np.float32))
    assert terminated and info["guard"]["check"] == "joint_speed"
    env.close()
    with pytest.raises(TypeError, match="Spot's stands"):
        GuardWrapper(make_env("cartpole", backend="analytic"))
