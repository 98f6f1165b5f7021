"""One logic of the stances: numpy and torch alike, one method that moves it, at rest in evaluation, in checkpoints."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers import FakeBackend
from isaac_stubs import fake_spots
from spot_helpers import LEVEL, NOSE_DOWN, fake_task, make_state

from adc_wrappers import ActuatorCurriculumWrapper
from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES
from adc_wrappers.envs.spot import HANDSTAND, HINDSTAND, SpotSettings, Stance, stand
from adc_wrappers.envs.spot.stand import StandLogic
from adc_wrappers.envs.task_env import TaskVectorEnv

N = 6
CPU = {"preset": "cpu", "randomize": False}


def tensors(parts: Any, dtype: torch.dtype = torch.float64) -> Any:
    return type(parts)(*(torch.as_tensor(part, dtype=dtype) for part in parts))


def states(steps: int, seed: int = 0) -> list[RobotState]:
    """Robots that move at random: a third in the stance, some of the others on their bodies."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(steps):
        state = make_state(N)
        for part in state:
            part += rng.normal(scale=0.1, size=part.shape)
        state.base_quaternion[:] /= np.linalg.norm(state.base_quaternion, axis=1, keepdims=True)
        state.contact_forces[:] = np.where(rng.uniform(size=state.contact_forces.shape) < 0.05, 50.0, 0.0)
        standing = rng.uniform(size=N) < 0.35
        state.projected_gravity[standing] = NOSE_DOWN
        state.contact_forces[standing] = 0.0
        state.contact_forces[standing, LINK_NAMES.index("fl_foot")] = 90.0
        found.append(state)
    return found


def make_logic(state: Any, action: Any, stance: Stance = HANDSTAND, **settings: Any) -> StandLogic:
    return StandLogic(SpotSettings(**{**CPU, **settings}), stance, LINK_NAMES, 0.02, state, action)


# --- numpy and torch -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stance", [HANDSTAND, HINDSTAND], ids=lambda stance: stance.name)
@pytest.mark.parametrize("preset", ["paper", "authors", "cpu", "stepping"])
@pytest.mark.parametrize("early_termination", [True, False])
def test_torch_judges_rewards_and_learns_as_numpy_does(preset: str, stance: Stance, early_termination: bool) -> None:
    rng, run = np.random.default_rng(1), states(40)
    actions = rng.uniform(-1, 1, (40, N, 12))
    here = make_logic(run[0], actions[0], stance, preset=preset)
    there = make_logic(tensors(run[0]), torch.as_tensor(actions[0]), stance, preset=preset)
    here.early_termination = there.early_termination = early_termination
    held: Any = np.arange(90, 90 + N)
    for step in range(1, 40):
        here.training = there.training = step < 30
        before = here.moment(run[step - 1], actions[step - 1])
        there_before = there.moment(tensors(run[step - 1]), torch.as_tensor(actions[step - 1]))
        here.step(run[step], before, actions[step], stopped=step == 20)
        there.step(tensors(run[step]), there_before, torch.as_tensor(actions[step]), stopped=step == 20)
        terms, torch_terms = here.reward_terms(), there.reward_terms()
        assert list(terms) == list(torch_terms) == list(here.weights)
        for name, values in terms.items():
            assert torch_terms[name].dtype == torch.float64
            np.testing.assert_allclose(torch_terms[name].numpy(), values, rtol=1e-12, atol=1e-14, err_msg=name)
        for name in ("fallen", "holds", "fell"):
            assert getattr(there, name).tolist() == getattr(here, name).tolist(), name
        assert there.progress().tolist() == here.progress().tolist() == here.holds.astype(float).tolist()
        over = rng.uniform(size=N) < 0.5
        won = here.success(held + step, over)
        assert there.success(torch.as_tensor(held + step), torch.as_tensor(over)).tolist() == won.tolist()
        assert there.state_dict() == here.state_dict()  # to the last digit
        ended = np.flatnonzero(rng.uniform(size=N) < 0.2)
        here.begin(ended)
        there.begin(torch.as_tensor(ended))
    if stance is HANDSTAND:
        assert (here.state_dict()["stance_share"] > 0.0) == (preset in ("cpu", "stepping"))


def test_it_goes_on_after_steps_under_inference_mode() -> None:
    """RSL-RL steps under it; a reset or an evaluation afterwards need not."""
    run, action = [tensors(state) for state in states(3)], torch.zeros(N, 12, dtype=torch.float64)
    logic = make_logic(run[0], action)
    logic.early_termination = False
    with torch.inference_mode():
        logic.step(run[1], logic.moment(run[0], action), action)
    logic.begin(torch.tensor([0, 2]))
    logic.step(run[2], logic.moment(run[1], action), action)
    assert len(logic.reward_terms()) == len(logic.weights)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize(("joint", "way", "stance"), [("hx", 8.0, 8.0), ("hy", 12.0, 12.0), ("kn", 16.0, 12.0)])
def test_joints_that_a_guard_would_soon_stop_end_an_episode_of_training(kind, joint, way, stance) -> None:
    """At 90 % of the guard's speed for the phase, wider while the world is not strict, and in training only."""
    state = make_state(4)
    state.projected_gravity[2:] = NOSE_DOWN
    state.contact_forces[2:] = 0.0
    state.contact_forces[2:, LINK_NAMES.index("fl_foot")] = 90.0
    column = JOINT_NAMES.index(f"hr_{joint}")
    state.joint_velocities[:, column] = 0.9 * np.array([-way, way, -stance, stance])
    state.joint_velocities[:, column] *= [0.999, 1.001, 1.001, 0.999]
    robots = RobotState(*map(kind, state))
    logic = make_logic(robots, kind(np.zeros((4, 12))), preset="robot", speed_stop=True)
    before = logic.moment(robots, kind(np.zeros((4, 12))))

    def stopped(**words: Any) -> list[bool]:
        logic.training = words.get("training", True)
        logic.strictness.level = words.get("level", 1.0)
        logic.look(robots, before, before.action)
        return logic.fallen.tolist()

    assert logic.fallen.tolist() == [False] * 4  # by itself
    assert stopped() == [False, True, True, False]
    assert stopped(level=0.9) == [False] * 4
    assert stopped(training=False) == [False] * 4
    patient = make_logic(robots, kind(np.zeros((4, 12))), preset="robot")
    patient.training, patient.strictness.level = True, 1.0
    patient.look(robots, before, before.action)
    assert patient.fallen.tolist() == [False] * 4


# --- one method moves it ---------------------------------------------------------------------------------------------


def test_asking_moves_nothing() -> None:
    task, robots = fake_task(num_envs=2, preset="cpu")
    task.early_termination = False
    robots.now = make_state(2, touching=("body",))
    task.advance(np.zeros((2, 12), np.float32))
    task.load_state_dict({"stance_share": 0.2})
    first = task.reward_terms()
    for _ in range(3):
        task.observe(), task.terminated(), task.holds(), task.progress(), task.look()
        again = task.reward_terms()
        assert {name: again[name].tolist() for name in again} == {name: first[name].tolist() for name in first}
    assert task.state_dict() == {"stance_share": 0.2}


def test_stance_and_contacts_are_judged_once_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("in_stance", "touching_links"):
        plain = getattr(stand, name)

        def counted(*args: Any, name: str = name, plain: Any = plain, **kwargs: Any) -> Any:
            calls.append(name)
            return plain(*args, **kwargs)

        monkeypatch.setattr(stand, name, counted)
    task, robots = fake_task(num_envs=2, preset="cpu")
    robots.now = make_state(2, touching=("fl_foot", "fr_foot"), projected_gravity=[NOSE_DOWN, LEVEL])
    env = TaskVectorEnv(task)
    env.reset(seed=0)
    calls.clear()
    env.step(np.zeros((2, 12), np.float32))
    assert sorted(calls) == ["in_stance", "touching_links"]


# --- Isaac Lab's env, without Isaac Lab ------------------------------------------------------------------------------


def test_isaac_labs_env_gives_what_the_others_give() -> None:
    run = states(25, seed=3)
    task, robots = fake_task(num_envs=N, preset="cpu", time_limit=4)
    robots.now = run[0]
    env = TaskVectorEnv(task)
    env.reset(seed=0)
    lab = fake_spots(tensors(run[0], torch.float32), 4, preset="cpu")
    lab.reset()
    task.logic.hold_steps = lab.task.hold_steps = 1
    successes = 0
    for step, state in enumerate(run[1:]):
        action = np.random.default_rng(step).uniform(-1.2, 1.2, (N, 12)).astype(np.float32)
        # the robots arrive while the step is made
        robots.advance = lambda targets, state=state: setattr(robots, "now", state)
        lab.reader.command = lambda targets, state=state: setattr(lab.reader, "now", tensors(state, torch.float32))
        _, reward, terminated, truncated, infos = env.step(action)
        _, lab_reward, lab_terminated, lab_truncated, extras = lab.step(torch.as_tensor(action))
        np.testing.assert_allclose(lab_reward.numpy(), reward, rtol=1e-5, atol=1e-5)
        assert lab_terminated.tolist() == terminated.tolist() and lab_truncated.tolist() == truncated.tolist()
        assert extras["progress"].tolist() == infos["progress"].tolist()
        if (terminated | truncated).any():
            won = infos["final_info"]["is_success"]
            assert extras["is_success"].tolist() == won.tolist()
            successes += int(won.sum())
        assert lab.task.state_dict() == task.state_dict()
    assert successes and lab.task.state_dict()["stance_share"] > 0.0


def test_isaac_labs_env_rests_in_evaluation_and_its_state_can_be_saved() -> None:
    """In evaluation it charged the training's cost and eased it, and nobody could save it."""
    lab = fake_spots(tensors(make_state(2, touching=("body",)), torch.float32), preset="cpu")
    env = ActuatorCurriculumWrapper(lab, backend=FakeBackend(num_envs=2, joints=12))
    lab.task.load_state_dict({"stance_share": 0.02})
    still = torch.zeros(2, 12)

    def fall_paid() -> list[float]:
        env.step(still)
        paid: list[float] = lab.reward_terms()["fall"].tolist()
        return paid

    with env.evaluation():
        env.reset()
        assert fall_paid() == [-10.0, -10.0]
        assert lab.task.state_dict() == {"stance_share": 0.02}
    env.reset()
    assert fall_paid() == pytest.approx([-24.0, -24.0], abs=0.01)
    state = json.loads(json.dumps(env.inner_task.state_dict()))
    assert 0.0 < state["stance_share"] < 0.02
    other = fake_spots(tensors(make_state(2), torch.float32), preset="cpu")
    ActuatorCurriculumWrapper(other, backend=FakeBackend(num_envs=2, joints=12)).inner_task.load_state_dict(state)
    assert other.task.state_dict() == state


def test_isaac_labs_env_pinned_at_the_target_charges_the_late_cost() -> None:
    lab = fake_spots(tensors(make_state(1, touching=("body",)), torch.float32), preset="cpu")
    env = ActuatorCurriculumWrapper(lab, backend=FakeBackend(num_envs=1, joints=12), training=False)
    env.reset()
    env.step(torch.zeros(1, 12))
    assert lab.reward_terms()["fall"].tolist() == [-10.0]


@pytest.mark.parametrize("step", [0.02, 0.005, 1.0 / 30.0, 0.0125])
def test_simulators_that_round_up_take_no_step_too_many(step):
    """1000 steps of 0.02 s divided by 0.02 s are 1000 or a little more: ceil() made 1001 of some limits."""
    for limit in range(1, 1200):
        settings = SpotSettings(time_limit=limit, physics_step=step / 10, decimation=10)
        assert math.ceil(settings.episode_seconds / (settings.physics_step * 10)) == limit
