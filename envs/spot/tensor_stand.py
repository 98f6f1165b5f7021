"""Spots of a simulator of tensors between its steps and the one logic: actions, verdicts, rewards, observations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import torch

from adc_wrappers.backends.array_kinds import fill_rows
from adc_wrappers.backends.base import RobotStart, RobotState
from adc_wrappers.backends.limiter import CommandLimiter
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES, NOMINAL_POSE, SPOT
from adc_wrappers.core.action_term import ActionTerm
from adc_wrappers.core.actuators import Gains
from adc_wrappers.envs.episodes import StepResult

from .body import touchdown_height
from .randomization import ANGULAR_VELOCITY, HELD, JOINT_OFFSET, JOINT_VELOCITY, LINEAR_VELOCITY, POSITION
from .sensing import ObservationHistory, SpotSensing
from .settings import SpotSettings
from .stand import StandLogic
from .terms import HANDSTAND, Stance, observation

__all__ = ["TensorStand"]


class TensorStand:
    """The part of an env of Isaac Lab or mjlab beside its physics, the same in both; nothing is read from the device.

    Joints and links are in the order of our table. An env calls :meth:`act` before the physics of a policy step,
    :meth:`judge` after it, and :meth:`draw_start` and :meth:`begin` for episodes that begin.

    Args:
        settings: The task's numbers.
        state: The robots as they are.
        policy_step: Seconds in one policy step.
        gains: Returns K and B in the table's order, without the envs' own factors; for a command limiter.
        stance: Which stance.
    """

    def __init__(
        self,
        settings: SpotSettings,
        state: RobotState,
        policy_step: float,
        gains: Callable[[], Gains],
        stance: Stance = HANDSTAND,
    ) -> None:
        positions: torch.Tensor = state.joint_positions
        count, device = len(positions), positions.device
        self.settings, self._gains = settings, gains
        self.action_scale, self.action_limit = settings.effective_actions()
        self.kinds = settings.randomized()
        self._velocity, moments = settings.effective_observation()
        self._nominal = torch.tensor(NOMINAL_POSE, device=device, dtype=positions.dtype)
        self.action_term = ActionTerm(count, JOINT_NAMES)
        self.action = torch.zeros_like(positions)
        """The last action, clipped; with a command limiter, what it let through."""
        self.held = torch.zeros(count, dtype=torch.long, device=device)
        """Steps for which each robot has been in the stance without a break."""
        self.logic = StandLogic(settings, stance, LINK_NAMES, policy_step, state, self.action)
        """Rewards, falls, success and what is learned, the same on every simulator."""
        self.before = self.logic.moment(state, self.action)
        estimate, _ = settings.effective_sensing()
        self.sensing = SpotSensing(state, self.kinds, estimate, policy_step, settings.state_latency)
        """What the robots measure."""
        self.history = ObservationHistory(self._frame(state), moments)
        """What they measured before."""
        self.limiter: CommandLimiter | None = None
        """What stands between targets and joints."""
        limits = settings.command_limits()
        if limits is not None:
            self.limiter = CommandLimiter(limits, SPOT, policy_step, self._nominal.repeat(count, 1))
        self.watchers: list[Callable[[StepResult], None]] = []
        """Are called with every step, as tensors, before finished envs are reset."""

    def act(self, actions: torch.Tensor, state: RobotState) -> torch.Tensor:
        """Take the actions of a policy step and return the joint targets, rad, ``(n, joints)``.

        Args:
            actions: As the policy gave them.
            state: The robots before the step.
        """
        self.before = self.logic.moment(state, self.action)
        self.history.step(self._frame(state))
        # in place, as everywhere here: RSL-RL steps under inference mode, and others do not
        torch.clamp(actions, -self.action_limit, self.action_limit, out=self.action)
        targets: torch.Tensor = self._nominal + self.action_scale * self.action_term(self.action, self.action_limit)
        self.action_term.end_step()
        if self.limiter is not None:
            seen = self.sensing.seen(state)
            self.limiter.looseness = self.logic.looseness
            targets = self.limiter(targets, seen.joint_positions, seen.joint_velocities, *self._gains())
            self.limiter.accept(targets)
            self.action.copy_((targets - self._nominal) / self.action_scale)
        return targets

    def judge(
        self, state: RobotState, timed_out: torch.Tensor, extras: dict[str, Any]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Judge a policy step, once; return who terminated and who was truncated.

        Args:
            state: The robots after it.
            timed_out: Whose time limit is reached.
            extras: Gets ``is_success`` for the episodes that end, ``progress``, ``holds``, and the terms' means under
                ``log``.
        """
        logic = self.logic
        self.sensing.step(state, self._draw, logic.level)
        logic.step(state, self.before, self.action)
        self.held.add_(1).mul_(logic.holds)
        seen = self.observation(state)
        broken = ~torch.isfinite(seen).all(dim=-1)
        terminated = logic.fallen | broken if logic.early_termination else broken
        truncated = timed_out & ~terminated
        self.ended = (terminated, truncated)
        """Who terminated and who was truncated in the last step."""
        self.terms = {name: values.masked_fill(broken, 0.0) for name, values in logic.reward_terms().items()}
        """The weighted terms of the last step's reward; what broken physics gave is zero."""
        self.reward = torch.stack(list(self.terms.values())).sum(dim=0)
        """Their sum."""
        told = {
            "is_success": logic.success(self.held, truncated), "progress": logic.progress(), "holds": logic.holds,
        }  # fmt: skip
        extras.update(told)
        log = extras.setdefault("log", {})
        for name, values in self.terms.items():
            log[f"reward/{name}"] = values.mean()
        if self.watchers:
            self._show(seen, broken, told)
        return terminated, truncated

    def _show(self, seen: torch.Tensor, broken: torch.Tensor, told: dict[str, Any]) -> None:
        """Show the step to those who watch; what broken physics gave reads zero."""
        terminated, truncated = self.ended
        tensors: Any = {
            "observation": seen.masked_fill(broken[:, None], 0.0),
            "reward": self.reward,
            "reward_terms": self.terms,
            "success": told["is_success"],
            "holds": told["holds"],
            "progress": told["progress"],
        }
        step = StepResult(terminated=terminated, truncated=truncated, broken=broken, **tensors)  # type: ignore[arg-type]
        for watcher in self.watchers:
            watcher(step)

    def draw_start(self, count: int) -> RobotStart:
        """Return start states for so many robots."""
        return draw_start(count, self.kinds, self.action.device)

    def begin(self, rows: torch.Tensor, start: RobotStart, state: RobotState) -> None:
        """Begin episodes.

        Args:
            rows: The envs.
            start: What they were put into.
            state: All robots as they are now.
        """
        joints: Any = start.joint_positions
        fill_rows(self.action, rows, 0.0)
        fill_rows(self.held, rows, 0)
        self.logic.begin(rows)
        self.sensing.begin(state, rows, self._draw, self.logic.level)
        if self.limiter is not None:
            held = joints
            if "held" in self.kinds:
                held = self.limiter.around(joints, HELD, self._draw(tuple(joints.shape)))
            self.limiter.begin(held, rows)
            self.action.index_copy_(0, rows, (held - self._nominal) / self.action_scale)
        self.history.begin(self._frame(state), rows)

    def observation(self, state: RobotState) -> torch.Tensor:
        """Return what the policies see."""
        values: torch.Tensor = self.history.seen(self._frame(state))
        return values

    def _frame(self, state: RobotState) -> torch.Tensor:
        values: torch.Tensor = observation(
            self.sensing.seen(state), self._nominal, self.action, velocity=self._velocity
        )
        return values

    def _draw(self, shape: tuple[int, int]) -> torch.Tensor:
        return torch.empty(shape, device=self.action.device).uniform_(-1.0, 1.0)


@functools.cache
def _beside(device: str) -> dict[str, torch.Tensor]:
    """The numbers that are needed as tensors, sent to a device once."""
    with torch.inference_mode(False):
        return {
            name: torch.tensor(values, dtype=torch.float32, device=device)
            for name, values in (("joints", NOMINAL_POSE), ("linear", LINEAR_VELOCITY), ("angular", ANGULAR_VELOCITY))
        }


def draw_start(count: int, kinds: Collection[str], device: Any) -> RobotStart:
    """Return start states in which the lowest foot just touches the ground, as tensors.

    Args:
        count: How many.
        kinds: What is randomized, of :data:`adc_wrappers.envs.spot.randomization.KINDS`.
        device: Where.
    """
    numbers = _beside(str(device))

    def uniform(columns: int, limit: torch.Tensor | float) -> torch.Tensor:
        return torch.empty(count, columns, device=device).uniform_(-1.0, 1.0) * limit

    def zeros(columns: int) -> torch.Tensor:
        return torch.zeros(count, columns, device=device)

    joints = numbers["joints"].repeat(count, 1)
    moving = zeros(12)
    if "joints" in kinds:
        joints += uniform(12, JOINT_OFFSET)
        moving = uniform(12, JOINT_VELOCITY)
    plane = uniform(2, POSITION) if "pose" in kinds else zeros(2)
    yaw = uniform(1, torch.pi)[:, 0] if "pose" in kinds else zeros(1)[:, 0]
    linear = uniform(3, numbers["linear"]) if "velocity" in kinds else zeros(3)
    angular = uniform(3, numbers["angular"]) if "velocity" in kinds else zeros(3)
    nothing = torch.zeros_like(yaw)
    quaternion = torch.stack((torch.cos(yaw / 2), nothing, nothing, torch.sin(yaw / 2)), dim=1)
    position = torch.cat((plane, touchdown_height(quaternion, joints)[:, None]), dim=1)
    return RobotStart(position, quaternion, linear, angular, joints, moving)  # type: ignore[arg-type]
