"""Spot's two-legged stances as a task."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotBackend, RobotStart
from adc_wrappers.backends.limiter import CommandLimiter
from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.core.action_term import ActionTerm
from adc_wrappers.core.env_states import EnvState, part_of, put_array
from adc_wrappers.core.errors import BackendError
from adc_wrappers.envs.deployment import Deployment
from adc_wrappers.envs.lift import Lift
from adc_wrappers.envs.task import PrivilegedView, Snapshot, Task

from .body import (
    PLANAR,
    SPATIAL,
    SpotBody,
    observation_scale,
    robot_poses,
    rotate,
    spot_mirror,
    start_at,
)
from .failures import StandMonitor
from .privileged import spot_privileged
from .randomization import HELD, SpotRandomization
from .sensing import ObservationHistory, SpotSensing
from .settings import SpotSettings
from .stand import StandLogic, stand_deployment, stand_lift
from .terms import HANDSTAND, HINDSTAND, Stance, observation

__all__ = ["SpotStandTask", "make_handstand_task", "make_hindstand_task", "make_planar_handstand_task"]


class SpotStandTask(Task):
    """The task that goes from standing on four feet to balancing on two.

    - Observation, 45: base linear and angular velocity and gravity in the body frame, joint positions relative to the
      nominal pose, joint velocities, last action; with ``moments``, those of earlier policy steps after them.
    - Action, 12: joint targets ``q_0 + α clip(a)``. With a command limiter, what it lets through of them; the last
      action in the observation, and in what a change of actions costs, is then that.
    - Success: within 20° of the wanted orientation, lifted feet off the ground and nothing but the supporting feet on
      it, for the last 2 s of an episode that did not terminate.

    Args:
        backend: The robots.
        settings: The task's numbers.
        stance: Which stance.
        body: The robot's build. In the plane there are 17 observations and 4 actions.
    """

    def __init__(self, backend: RobotBackend, settings: SpotSettings, stance: Stance, body: SpotBody = SPATIAL) -> None:
        preset = settings.preset_values()
        self.body = body
        self.backend: RobotBackend = backend
        self.settings = settings
        self.stance = stance
        self.time_limit = settings.time_limit
        self.policy_step = backend.policy_step
        self.adc_config = settings.recommended_curriculum()
        self.action_scale, self.action_limit = settings.effective_actions()
        joints = len(backend.joint_names)
        self._velocity, moments = settings.effective_observation()
        self.observation_scale = observation_scale(joints, body, velocity=self._velocity, moments=moments)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (len(self.observation_scale),), np.float32)
        self.action_space = gym.spaces.Box(-self.action_limit, self.action_limit, (joints,), np.float32)
        kinds = settings.randomized()
        self._randomization = SpotRandomization(backend, kinds, preset.push_axes, body, settings.command_latency)
        self.mirror = None
        if not body.robot.planar:
            self.mirror = spot_mirror(backend.joint_names, velocity=self._velocity, moments=moments)
        self.action_term: ActionTerm = ActionTerm(backend.num_envs, backend.joint_names)
        self._rng = np.random.default_rng(0)
        self._action: NDArray[np.float64] = np.zeros((backend.num_envs, joints))
        state = backend.state()
        estimate, _ = settings.effective_sensing()
        self.sensing = SpotSensing(state, kinds, estimate, self.policy_step, settings.state_latency)
        """What the robots measure."""
        self.history = ObservationHistory(self._frame(), moments)
        """What they measured before."""
        limits = settings.command_limits()
        self.limiter: CommandLimiter | None = None
        """What stands between targets and joints."""
        if limits is not None:
            self.limiter = CommandLimiter(limits, body.robot, self.policy_step, self._held())
        self.logic = StandLogic(settings, stance, backend.link_names, self.policy_step, state, self._action, body)
        """Rewards, falls, success and what is learned, the same on every simulator."""
        self._before = self.logic.moment(state, self._action)

    @property
    def training(self) -> bool:
        """Whether the cost of a fall eases."""
        return self.logic.training

    @training.setter
    def training(self, training: bool) -> None:
        self.logic.training = training

    @property
    def early_termination(self) -> bool:
        """Whether an episode ends with a fall."""
        return self.logic.early_termination

    @early_termination.setter
    def early_termination(self, early_termination: bool) -> None:
        self.logic.early_termination = early_termination

    @property
    def hold_steps(self) -> int:
        """Two seconds."""
        return self.logic.hold_steps

    def begin(self, env_ids: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Stand chosen robots on the ground, randomized."""
        self._rng = rng
        level = self.logic.level
        self._randomization.begin(env_ids, rng, level)
        self.sensing.begin(self.backend.state(), env_ids, self._draw, level)
        self._action[env_ids] = 0.0
        if self.limiter is not None:
            held = self._held()[env_ids]
            if "held" in self.settings.randomized():
                held = self.limiter.around(held, HELD, self._draw(held.shape))
            self.limiter.begin(held, env_ids)
            self._action[env_ids] = self._as_action(held)
        self.history.begin(self._frame(), env_ids)
        self.logic.begin(env_ids)
        self.look()

    def _held(self) -> NDArray[np.float64]:
        """Return the targets that the robots hold before a policy's first."""
        held = self.backend.held_targets()
        positions: NDArray[np.float64] = self.backend.state().joint_positions
        return positions if held is None else held

    def _draw(self, shape: tuple[int, int]) -> NDArray[np.float64]:
        return self._rng.uniform(-1.0, 1.0, shape)

    def _as_action(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        return (targets - self.backend.nominal_pose) / self.action_scale

    def advance(self, actions: NDArray[np.float32]) -> None:
        """Push robots whose time has come, and hold the joint targets for one policy step."""
        self._randomization.maybe_push(self._rng)
        self._before = self.logic.moment(self.backend.state(), self._action)
        if self.history.past is not None:
            self.history.step(self._frame())
        asked = actions.astype(np.float64).clip(-self.action_limit, self.action_limit)
        targets = self.targets(asked)
        self.backend.advance(targets)
        self.action_term.end_step()
        self._action = asked
        if self.limiter is not None:
            self.limiter.accept(targets)
            self._action = self._as_action(targets)
        self.sensing.step(self.backend.state(), self._draw, self.logic.level)
        self.logic.step(self.backend.state(), self._before, self._action, stopped=self.incident() is not None)

    def look(self) -> None:
        """Judge the robots where they are; for those that were put there, not stepped."""
        self.logic.look(self.backend.state(), self._before, self._action, stopped=self.incident() is not None)

    def targets(self, actions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the joint targets of clipped actions: q_0, and α times what the action term makes of them, limited.

        Nothing is remembered: asking twice gives the same.
        """
        applied: NDArray[np.float64] = self.action_term(actions, self.action_limit)
        targets = self.backend.nominal_pose + self.action_scale * applied
        if self.limiter is None:
            return targets
        seen, gains = self.sensing.seen(self.backend.state()), self.backend.gains()
        self.limiter.looseness = self.logic.looseness
        limited: NDArray[np.float64] = self.limiter(targets, seen.joint_positions, seen.joint_velocities, *gains)
        return limited

    def observe(self) -> NDArray[np.float32]:
        """Return what the policy of every env sees."""
        return np.asarray(self.history.seen(self._frame()), dtype=np.float32)

    def _frame(self) -> Any:
        """Return what is observed of the present."""
        seen = self.sensing.seen(self.backend.state())
        return observation(seen, self.backend.nominal_pose, self._action, self.body, velocity=self._velocity)

    def reward_terms(self) -> dict[str, NDArray[np.float64]]:
        """Return the weighted terms of the last step; of an episode that goes on after a fall, the first is paid."""
        return self.logic.reward_terms()

    def terminated(self) -> NDArray[np.bool_]:
        """Return which robots touch the ground with a link that must not, or were stopped by a guard."""
        fallen: NDArray[np.bool_] = self.logic.fallen
        # a guard does not wait for the end of a step
        return fallen if self.incident() is None else np.ones_like(fallen)

    def holds(self) -> NDArray[np.bool_]:
        """Return which robots are in the stance now."""
        inside: NDArray[np.bool_] = self.logic.holds
        return inside

    def progress(self) -> NDArray[np.float64]:
        """Return 1 for robots in the stance and 0 for others: its mean is the share of steps in it."""
        share: NDArray[np.float64] = self.logic.progress()
        return share

    def success(self, held: NDArray[np.int64], truncated: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which episodes have reached their time limit and end in the stance, for two seconds."""
        judged: NDArray[np.bool_] = self.logic.success(held, truncated)
        return judged

    def describe(self) -> dict[str, NDArray[np.float64]]:
        """Return the randomized parameters of every env."""
        found = self._randomization.describe()
        if "latency" in self.settings.randomized():
            found["state_latency"] = self.sensing.age[:, 0] * self.policy_step
        return found

    @property
    def last_action(self) -> NDArray[np.float64]:
        """What the observation calls the last action."""
        return self._action

    def drawn(self) -> NDArray[np.float64]:
        """Return what was drawn for every robot and lasts for its episode, each number about in [−1, 1]."""
        return np.concatenate((self._randomization.standardized(), self.sensing.age), axis=1)

    def privileged(self) -> PrivilegedView:
        """Return the view of the robots as they are, and of what was drawn for them."""
        return spot_privileged(self)

    def incident(self) -> dict[str, Any] | None:
        """Return why the backend's guard has ended the episode."""
        return self.backend.incident()

    def episode_monitor(self) -> StandMonitor:
        """Return what tells falls forward, back and sideways, and stances never reached or lost, apart."""
        return StandMonitor(self.backend, self.logic)

    def poses(self) -> NDArray[np.float64]:
        """Return base pose and joint positions of every robot."""
        return robot_poses(self.backend.state())

    def draw_pose(self, pose: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Put the first robot into a pose and return its picture."""
        self.backend.reset(start_at(pose), np.array([0]))
        return self.backend.render(0)

    def state_dict(self) -> dict[str, Any]:
        """Return how far the cost of a fall has eased."""
        return self.logic.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self.logic.load_state_dict(state)

    def snapshot(self, env_ids: NDArray[np.int64]) -> Snapshot:
        """Return pose, motion, last action and physical parameters; refuses what is random or still under way."""
        state = self.backend.state()
        world = rotate(state.base_quaternion, state.base_linear_velocity[:, np.newaxis])[:, 0]
        parts = (state.base_position, state.base_quaternion, world, state.base_angular_velocity)
        start = RobotStart(*parts, state.joint_positions, state.joint_velocities)
        values = {name: part[env_ids] for name, part in start._asdict().items()}
        values |= {"action": self._action[env_ids], "fell": self.logic.fell[env_ids].astype(np.float64)}
        if self.limiter is not None:
            values |= {"targets": self.limiter.targets[env_ids], "change": self.limiter.change[env_ids]}
        if self.history.past is not None:
            values["past"] = self.history.past[env_ids]
        return {**values, **self._randomization.save(env_ids)}

    def restore(self, snapshot: Snapshot, env_ids: NDArray[np.int64]) -> None:
        """Put saved robots into envs; torques and contacts read zero until the next step, as after a reset."""
        self._randomization.load(snapshot, env_ids)
        self.backend.reset(RobotStart(*(snapshot[name] for name in RobotStart._fields)), env_ids)
        self._action[env_ids] = snapshot["action"]
        if self.limiter is not None:
            self.limiter.begin(snapshot["targets"], env_ids)
            self.limiter.change[env_ids] = snapshot["change"]
        if self.history.past is not None:
            self.history.past[env_ids] = snapshot["past"]
        self.logic.fell[env_ids] = snapshot["fell"].astype(bool)
        self.look()

    def env_state(self) -> EnvState | None:
        """Return robots, randomization and last actions; None on a robot, or an engine that cannot be saved."""
        physics = self.backend.physics_state()
        if physics is None:
            return None
        return {
            "action": self._action.copy(),
            "fell": self.logic.fell.copy(),
            "randomization": self._randomization.env_state(),
            "sensing": self.sensing.env_state(),
            **({} if self.limiter is None else {"limiter": self.limiter.env_state()}),
            **({} if self.history.past is None else {"past": self.history.past.copy()}),
            "physics": physics,
        }

    def load_env_state(self, state: EnvState, rng: np.random.Generator) -> None:
        """Restore them."""
        self._rng = rng
        put_array(self._action, state, "action")
        put_array(self.logic.fell, state, "fell")
        self._randomization.load_env_state(part_of(state, "randomization"))
        if self.sensing.active:
            self.sensing.load_env_state(part_of(state, "sensing"))
        if self.limiter is not None:
            self.limiter.load_env_state(part_of(state, "limiter"))
        if self.history.past is not None:
            put_array(self.history.past, state, "past")
        self.backend.load_physics_state(part_of(state, "physics"))
        self.look()

    def render(self, env_id: int) -> NDArray[np.uint8]:
        """Return the backend's picture."""
        return self.backend.render(env_id)

    def deployment(self) -> Deployment:
        """Return the joints, nominal pose, action scale, rates and the layout of the observation."""
        return stand_deployment(
            self.settings,
            self.backend.joint_names,
            self.backend.nominal_pose,
            (self.policy_step, self.backend.physics_step),
            self.body,
        )

    def lift(self, other: Deployment) -> Lift | None:
        """Return what makes a policy of the plane of symmetry one of Spot in space."""
        return stand_lift(self.stance, self.deployment(), other)


def make_handstand_task(backend: str, num_envs: int, settings: SpotSettings, **robot: Any) -> SpotStandTask:
    """Build the handstand on a named engine, or on a robot with its settings."""
    return _make_task(backend, num_envs, settings, HANDSTAND, robot)


def make_hindstand_task(backend: str, num_envs: int, settings: SpotSettings, **robot: Any) -> SpotStandTask:
    """Build the hind-leg stand on a named engine, or on a robot with its settings."""
    return _make_task(backend, num_envs, settings, HINDSTAND, robot)


def make_planar_handstand_task(backend: str, num_envs: int, settings: SpotSettings) -> SpotStandTask:
    """Build the handstand of a Spot in its plane of symmetry on a named engine."""
    return _make_task(backend, num_envs, settings, HANDSTAND, {}, PLANAR)


def _make_task(
    name: str,
    num_envs: int,
    settings: SpotSettings,
    stance: Stance,
    robot: dict[str, Any],
    body: SpotBody = SPATIAL,
) -> SpotStandTask:
    arguments: dict[str, Any] = {"physics_step": settings.physics_step, "decimation": settings.decimation}
    if name == "spot":
        _check_for_robot(settings, robot)
        arguments.update(wanted=stance.gravity, **robot)
    else:
        arguments.update(model=settings.model, robot=body.robot)
    backend = make_robot_backend(name, num_envs, **arguments)
    try:
        return SpotStandTask(backend, settings, stance, body)
    except BackendError:
        backend.close()
        raise


def _check_for_robot(settings: SpotSettings, robot: dict[str, Any]) -> None:
    """Refuse what a robot cannot do."""
    if settings.command_limits() is not None and robot.get("soft_start_steps"):
        raise BackendError(
            "a command limiter is its own soft start, and targets that are blended are not the limited ones: expected "
            f"soft_start_steps=0, got {robot['soft_start_steps']}."
        )
    if settings.randomized():
        raise BackendError(
            f"a robot cannot be randomized, got randomize={settings.randomize!r}: make the env with randomize=False."
        )
    if settings.model is not None:
        raise BackendError(f"a robot is its own model, got model={settings.model!r}.")
