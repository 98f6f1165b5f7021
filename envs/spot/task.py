"""Spot's two-legged stances as a task."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import BackendError, RobotBackend, RobotStart
from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.core import CurriculumConfig
from adc_wrappers.core.action_term import ActionTerm
from adc_wrappers.core.states import EnvState, part_of, put_array
from adc_wrappers.envs.deployment import Deployment
from adc_wrappers.envs.task import Snapshot, Task

from .body import PLANAR, SPATIAL, SpotBody, rotate
from .failures import StandMonitor
from .layout import observation_layout
from .poses import robot_poses, start_at
from .randomization import SpotRandomization
from .rewards import RewardInputs, reward_terms
from .settings import SUCCESS_SECONDS, SpotSettings
from .stances import HANDSTAND, HINDSTAND, Stance
from .symmetry import observation_scale, spot_mirror
from .terms import any_contact, in_stance, observation

__all__ = ["SpotStandTask", "make_handstand_task", "make_hindstand_task", "make_planar_handstand_task"]


class SpotStandTask(Task):
    """From standing on four feet to balancing on two.

    - Observation, 45: base linear and angular velocity and gravity in the body frame, joint positions relative to the
      nominal pose, joint velocities, last action.
    - Action, 12: joint targets ``q_0 + α clip(a)``.
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
        self._body = body
        self.backend: RobotBackend = backend
        self.settings = settings
        self.stance = stance
        self.time_limit = settings.time_limit
        self.policy_step = backend.policy_step
        self.adc_config = CurriculumConfig(length_max=float(settings.time_limit))
        self.action_scale = settings.action_scale if settings.action_scale is not None else preset.action_scale
        self.action_limit = settings.action_limit if settings.action_limit is not None else preset.action_limit
        joints = len(backend.joint_names)
        size = 2 * len(body.linear_axes) + len(body.angular_axes) + 3 * joints
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = gym.spaces.Box(-self.action_limit, self.action_limit, (joints,), np.float32)
        links = list(backend.link_names)
        self._fall_links = [i for i, name in enumerate(links) if name.endswith(preset.fall_links)]
        self._support = [links.index(name) for name in body.own_feet(stance.support_feet)]
        self._lifted = [links.index(name) for name in body.own_feet(stance.lifted_feet)]
        self._feet = [i for i, name in enumerate(links) if name.endswith("foot")]
        self._weights, self._fall_cost = settings.effective_weights(self.policy_step)
        self._angular_axes = list(preset.angular_axes)
        self._randomization = SpotRandomization(backend, settings.randomized(), preset.push_axes, body)
        self.mirror = None if body.robot.planar else spot_mirror(backend.joint_names)
        self.observation_scale = observation_scale(joints, body)
        self.action_term: ActionTerm = ActionTerm(backend.num_envs, backend.joint_names)
        self._rng = np.random.default_rng(0)
        self._action: NDArray[np.float64] = np.zeros((backend.num_envs, joints))
        self._before = self._snapshot()
        # Where a fall does not end an episode: in which one was paid before this step, and in which up to now.
        self._fell_before: NDArray[np.bool_] = np.zeros(backend.num_envs, dtype=bool)
        self._fell: NDArray[np.bool_] = np.zeros(backend.num_envs, dtype=bool)

    @property
    def hold_steps(self) -> int:
        """Two seconds."""
        return max(1, round(SUCCESS_SECONDS / self.policy_step))

    def begin(self, env_ids: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Stand chosen robots on the ground, randomized."""
        self._rng = rng
        self._randomization.begin(env_ids, rng)
        self._action[env_ids] = 0.0
        self._fell[env_ids] = False

    def advance(self, actions: NDArray[np.float32]) -> None:
        """Push robots whose time has come, and hold the joint targets for one policy step."""
        self._randomization.maybe_push(self._rng)
        self._before = self._snapshot()
        self._action = actions.astype(np.float64).clip(-self.action_limit, self.action_limit)
        self.backend.advance(self.targets(self._action))
        self.action_term.end_step()
        self._fell_before = self._fell
        if not self.early_termination:
            self._fell = self._fell | self.terminated()

    def targets(self, actions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the joint targets of clipped actions: q_0, and α times what the action term makes of them."""
        applied: NDArray[np.float64] = self.action_term(actions, self.action_limit)
        return self.backend.nominal_pose + self.action_scale * applied

    def _snapshot(self) -> RewardInputs:
        """What the next reward needs to know about the present."""
        state = self.backend.state()
        return RewardInputs(
            action=self._action.copy(),
            joint_velocities=state.joint_velocities.copy(),
            base_position=state.base_position.copy(),
            base_quaternion=state.base_quaternion.copy(),
            joint_positions=state.joint_positions.copy(),
        )

    def observe(self) -> NDArray[np.float32]:
        """Return what the policy of every env sees."""
        values = observation(self.backend.state(), self.backend.nominal_pose, self._action, self._body)
        return np.asarray(values, dtype=np.float32)

    def reward_terms(self) -> dict[str, NDArray[np.float64]]:
        """Return the weighted terms of the last step; of an episode that goes on after a fall, the first is paid."""
        state = self.backend.state()
        raw = reward_terms(
            self._weights,
            state,
            before=self._before,
            action=self._action,
            fallen=self.terminated() & ~self._fell_before,
            gravity=self.stance.gravity,
            height=self.stance.height,
            lifted=self._lifted,
            support=self._support,
            feet=self._feet,
            angular_axes=self._angular_axes,
            policy_step=self.policy_step,
            body=self._body,
        )
        if self.training and self._fall_cost.eases:
            self._fall_cost.note(raw["stance"] > 0.0 if "stance" in raw else self.holds())
        fall_cost = self._fall_cost.now if self.training else self._fall_cost.late
        return {name: (-fall_cost if name == "fall" else self._weights[name]) * value for name, value in raw.items()}

    def terminated(self) -> NDArray[np.bool_]:
        """Return which robots touch the ground with a link that must not, or were stopped by a guard."""
        fallen = np.asarray(any_contact(self.backend.state(), self._fall_links))
        return fallen if self.incident() is None else np.ones_like(fallen)

    def holds(self) -> NDArray[np.bool_]:
        """Return which robots are in the stance now."""
        return np.asarray(in_stance(self.backend.state(), self.stance.gravity, self._support))

    def describe(self) -> dict[str, NDArray[np.float64]]:
        """Return the randomized parameters of every env."""
        return self._randomization.describe()

    def incident(self) -> dict[str, Any] | None:
        """Return why the backend's guard has ended the episode."""
        return self.backend.incident()

    def episode_monitor(self) -> StandMonitor:
        """Return what tells falls forward, back and sideways, and stances never reached or lost, apart."""
        return StandMonitor(self.backend, self.stance, self.holds, self._body)

    def poses(self) -> NDArray[np.float64]:
        """Return base pose and joint positions of every robot."""
        return robot_poses(self.backend.state())

    def draw_pose(self, pose: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Put the first robot into a pose and return its picture."""
        self.backend.reset(start_at(pose), np.array([0]))
        return self.backend.render(0)

    def state_dict(self) -> dict[str, Any]:
        """Return how far the cost of a fall has eased."""
        return self._fall_cost.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self._fall_cost.load_state_dict(state)

    def snapshot(self, env_ids: NDArray[np.int64]) -> Snapshot:
        """Return pose, motion, last action and physical parameters; refuses what is random or still under way."""
        state = self.backend.state()
        world = rotate(state.base_quaternion, state.base_linear_velocity[:, np.newaxis])[:, 0]
        parts = (state.base_position, state.base_quaternion, world, state.base_angular_velocity)
        start = RobotStart(*parts, state.joint_positions, state.joint_velocities)
        values = {name: part[env_ids] for name, part in start._asdict().items()}
        values |= {"action": self._action[env_ids], "fell": self._fell[env_ids].astype(np.float64)}
        return {**values, **self._randomization.save(env_ids)}

    def restore(self, snapshot: Snapshot, env_ids: NDArray[np.int64]) -> None:
        """Put saved robots into envs; torques and contacts read zero until the next step, as after a reset."""
        self._randomization.load(snapshot, env_ids)
        self.backend.reset(RobotStart(*(snapshot[name] for name in RobotStart._fields)), env_ids)
        self._action[env_ids] = snapshot["action"]
        self._fell[env_ids] = snapshot["fell"].astype(bool)

    def env_state(self) -> EnvState | None:
        """Return robots, randomization and last actions; None on a robot, or an engine that cannot be saved."""
        physics = self.backend.physics_state()
        if physics is None:
            return None
        return {
            "action": self._action.copy(),
            "fell": self._fell.copy(),
            "randomization": self._randomization.env_state(),
            "physics": physics,
        }

    def load_env_state(self, state: EnvState, rng: np.random.Generator) -> None:
        """Restore them."""
        self._rng = rng
        put_array(self._action, state, "action")
        put_array(self._fell, state, "fell")
        self._randomization.load_env_state(part_of(state, "randomization"))
        self.backend.load_physics_state(part_of(state, "physics"))

    def render(self, env_id: int) -> NDArray[np.uint8]:
        """Return the backend's picture."""
        return self.backend.render(env_id)

    def deployment(self) -> Deployment:
        """Return the joints, nominal pose, action scale, rates and the layout of the observation."""
        joints = len(self.backend.joint_names)
        return Deployment(
            joint_names=tuple(self.backend.joint_names),
            nominal_pose=tuple(float(q) for q in self.backend.nominal_pose),
            action_scale=(float(self.action_scale),) * joints,
            action_limit=float(self.action_limit),
            policy_step=float(self.policy_step),
            physics_step=float(self.backend.physics_step),
            observation=observation_layout(joints, self._body),
        )


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
        _check_for_robot(settings)
        arguments.update(wanted=stance.gravity, **robot)
    else:
        arguments.update(model=settings.model, robot=body.robot)
    backend = make_robot_backend(name, num_envs, **arguments)
    try:
        return SpotStandTask(backend, settings, stance, body)
    except BackendError:
        backend.close()
        raise


def _check_for_robot(settings: SpotSettings) -> None:
    """Refuse what a robot cannot do."""
    if settings.randomized():
        raise BackendError(
            f"a robot cannot be randomized, got randomize={settings.randomize!r}: make the env with randomize=False."
        )
    if settings.model is not None:
        raise BackendError(f"a robot is its own model, got model={settings.model!r}.")
