"""Failure modes of the stances, from hand-made states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spot_helpers import LEVEL, fake_task, make_state

from adc_wrappers import make_env
from adc_wrappers.envs.spot import HANDSTAND, HINDSTAND
from adc_wrappers.envs.spot.failures import FAILURES, StandSummary, failure_mode, lean_and_side
from adc_wrappers.envs.task_env import TaskVectorEnv

FRONT, HIND = ("fl_foot", "fr_foot"), ("hl_foot", "hr_foot")


def gravity(lean, side=0.0, stance=HANDSTAND):
    """Gravity in the frame of a body that leans towards the stance and is turned onto a side, degrees."""
    lean, side = np.deg2rad(lean), np.deg2rad(side)
    return (stance.gravity[0] * np.sin(lean) * np.cos(side), np.sin(side), -np.cos(lean) * np.cos(side))


def four_feet(steps=10, lean=0.0):
    return [(make_state(touching=FRONT + HIND, projected_gravity=gravity(lean)), steps)]


def up(lean=85.0, steps=10, side=0.0, stance=HANDSTAND, support=FRONT):
    return [(make_state(touching=support, projected_gravity=gravity(lean, side, stance)), steps)]


def fall(leans, side=0.0, stance=HANDSTAND):
    """Lean through the degrees given, one step each, and touch the ground with the body in the last."""
    through = [(make_state(touching=FRONT, projected_gravity=gravity(lean, side, stance)), 1) for lean in leans[:-1]]
    end = make_state(touching=("body", *FRONT), projected_gravity=gravity(leans[-1], side, stance))
    return [*through, (end, 1)]


def roll_over(towards=60):
    through = [(make_state(touching=FRONT, projected_gravity=gravity(88, side)), 1) for side in range(0, towards, 4)]
    return [*through, (make_state(touching=("fl_uleg",), projected_gravity=gravity(88, towards)), 1)]


class LastEpisode:
    """A watcher that asks the task's monitor about every episode that ends."""

    def __init__(self, monitor):
        self.monitor = monitor
        self.modes, self.numbers = [], []

    def begin(self, env_ids):
        self.monitor.begin(env_ids)

    def step(self, outcome):
        self.monitor.step()
        for i in np.flatnonzero(outcome.terminated | outcome.truncated):
            failed = self.monitor.failure(int(i), terminated=bool(outcome.terminated[i]))
            self.modes.append("success" if outcome.success[i] else failed)
            self.numbers.append(self.monitor.numbers(int(i)))


def play(*parts, stance=HANDSTAND):
    """Show a task the states of one episode, each for its number of steps; the time limit is their sum."""
    script = [piece for part in parts for piece in part]
    task, robots = fake_task(stance=stance, time_limit=sum(steps for _, steps in script))
    envs = TaskVectorEnv(task)
    watcher = LastEpisode(task.episode_monitor())
    envs.watchers.append(watcher)
    envs.reset(seed=0)
    for state, steps in script:
        robots.now = state
        for _ in range(steps):
            envs.step(np.zeros((1, 12), np.float32))
    assert len(watcher.modes) == 1
    return watcher.modes[0], watcher.numbers[0]


@pytest.mark.parametrize(
    ("parts", "mode"),
    [
        ((four_feet(), up(85), fall(range(86, 140, 4))), "fell forward"),
        ((four_feet(), up(40), fall(range(40, 80, 4))), "fell forward"),  # a dive over the nose
        ((four_feet(), up(85), fall(range(86, 10, -5))), "fell back"),
        (
            (four_feet(), up(120, 30), fall(range(118, 95, -3))),
            "fell back",
        ),  # too far, then back, still beyond vertical
        ((four_feet(), up(88), roll_over()), "fell sideways"),
        ((four_feet(), fall([2, 1, 0])), "collapsed"),
        ((four_feet(200),), "never lifted"),
        ((four_feet(), up(50, 100)), "never upright"),
        ((four_feet(), up(85, 150), four_feet(60)), "retry"),
        ((four_feet(), up(85, 99)), "retry"),  # in the stance, but too late for two seconds
        ((four_feet(), up(85, 100)), "success"),
    ],
)
def test_every_mode(parts, mode):
    assert play(*parts)[0] == mode
    assert mode in (*FAILURES, "success")


def test_the_hind_leg_stand_falls_the_other_way_round():
    """Forward is the way the body turns to get up, whichever stance it is."""
    lifted = up(85, 30, stance=HINDSTAND, support=HIND)
    over = [(make_state(touching=HIND, projected_gravity=gravity(lean, 0, HINDSTAND)), 1) for lean in (90, 110)]
    end = [(make_state(touching=("body",), projected_gravity=gravity(130, 0, HINDSTAND)), 1)]
    assert play(four_feet(), lifted, over, end, stance=HINDSTAND)[0] == "fell forward"
    down = [(make_state(touching=("body",), projected_gravity=gravity(40, 0, HINDSTAND)), 1)]
    assert play(four_feet(), lifted, down, stance=HINDSTAND)[0] == "fell back"


def test_attempts_count_touchdowns_not_flickers():
    airborne = [(make_state(projected_gravity=gravity(85)), 2)]
    once = play(four_feet(), up(steps=20), airborne, up(steps=20), four_feet())[1]
    assert once["attempts"] == 1 and once["stance_seconds"] == pytest.approx(0.8)
    thrice = play(four_feet(), *([*up(steps=20), *four_feet()] for _ in range(3)))[1]
    assert thrice["attempts"] == 3
    brief = play(four_feet(), up(steps=4), four_feet())
    assert brief[1]["attempts"] == 0 and brief[0] == "never lifted"
    assert brief[1]["least_tilt_deg"] == pytest.approx(5.0, abs=0.01)


def test_a_jump_with_all_feet_in_the_air_lifts_nothing():
    assert play(four_feet(), [(make_state(projected_gravity=LEVEL), 20)], four_feet())[0] == "never lifted"


def test_nothing_is_carried_over_from_the_episode_before():
    task, robots = fake_task(num_envs=2, time_limit=20)
    envs = TaskVectorEnv(task)
    watcher = LastEpisode(task.episode_monitor())
    envs.watchers.append(watcher)
    envs.reset(seed=0)
    for steps in ([*up(85, 20), *four_feet(20)],):
        for state, count in steps:
            robots.now = type(state)(*(np.repeat(part, 2, axis=0) for part in state))
            for _ in range(count):
                envs.step(np.zeros((2, 12), np.float32))
    assert watcher.modes == ["retry"] * 2 + ["never lifted"] * 2
    assert [numbers["attempts"] for numbers in watcher.numbers] == [1, 1, 0, 0]


@given(lean=st.floats(-89.0, 269.0), side=st.floats(-80.0, 80.0), stance=st.sampled_from([HANDSTAND, HINDSTAND]))
def test_lean_and_side_are_read_from_gravity(lean, side, stance):
    found = lean_and_side(np.array([gravity(lean, side, stance)]), stance)
    np.testing.assert_allclose(np.rad2deg(found), [[lean], [side]], atol=1e-6)


@given(
    fell=st.booleans(),
    lifted=st.booleans(),
    attempts=st.integers(0, 5),
    turns=st.tuples(*[st.floats(-3.2, 3.2)] * 2),
    side=st.floats(-1.57, 1.57),
)
def test_every_summary_has_one_mode_and_falls_are_told_from_time_outs(fell, lifted, attempts, turns, side):
    mode = failure_mode(StandSummary(fell, lifted, attempts, *turns, side))
    assert (mode in FAILURES[:4]) == fell and mode in FAILURES
    if fell and lifted and "sideways" not in mode:
        assert (mode == "fell forward") == (turns[0] > 0)


@pytest.fixture(scope="module")
def static():
    """A handstand in which everything is in balance."""
    from adc_wrappers.feasibility import find_stance, smallest_action_scale

    return smallest_action_scale(find_stance("spot-handstand"), 40.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("push", "mode"),
    [((0.8, 0.0), "fell forward"), ((-0.8, 0.0), "fell back"), ((-0.3, 0.74), "fell sideways")],
)
def test_real_falls_from_a_static_handstand(static, push, mode):
    """A robot that balances on its front feet, nose down and its back to +x, is pushed over."""
    from adc_wrappers.backends.base import RobotStart
    from adc_wrappers.envs.spot.body import touchdown_height

    envs = make_env("spot-handstand", backend="mujoco", num_envs=1, randomize=False, action_scale=1.0)
    watcher = LastEpisode(envs.task.episode_monitor())
    envs.watchers.append(watcher)
    envs.reset(seed=0)
    robots = envs.task.backend
    stiffness = np.full((1, 12), 40.0)
    robots.set_gains(stiffness, 2 * np.sqrt(stiffness * robots.effective_inertia()))
    quaternion, joints, still = static.quaternion[None], static.positions[None], np.zeros((1, 3))
    position = np.array([[0.0, 0.0, float(touchdown_height(quaternion, joints)[0])]])
    robots.reset(RobotStart(position, quaternion, still, still, joints, np.zeros((1, 12))))
    robots.push(np.array([[*push, 0.0]]), np.array([0]))
    action = (static.commands - robots.nominal_pose)[None].astype(np.float32)
    while not watcher.modes:
        envs.step(action)
    envs.close()
    assert watcher.modes == [mode]


def test_poses_are_drawn_again():
    envs = make_env("spot-handstand", backend="mujoco", num_envs=2, randomize=False)
    envs.reset(seed=0)
    for _ in range(10):
        envs.step(np.full((2, 12), 0.5, np.float32))
    pose = envs.task.poses()[1].copy()
    wanted = envs.task.render(1).astype(int)
    one = make_env("spot-handstand", backend="mujoco", num_envs=1, randomize=False)
    found = one.task.draw_pose(pose).astype(int)
    envs.close()
    one.close()
    assert pose.shape == (19,)
    assert np.abs(found - wanted).mean() < 1.0
