"""The two-legged stances as one logic for every simulator: what is rewarded, what ends, what counts, what it learns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from adc_wrappers.backends.array_kinds import columns, copied, fill_rows
from adc_wrappers.backends.base import RobotState
from adc_wrappers.envs.deployment import Deployment
from adc_wrappers.envs.lift import Lift, lift_from_plane

from .body import PLANAR, SPATIAL, SpotBody, constant, observation_layout
from .easing import Strictness
from .rewards import REWARD_TERMS, RewardInputs, StandStep, as_number, too_fast
from .settings import SUCCESS_SECONDS, SpotSettings
from .terms import HANDSTAND, Stance, any_touching, in_stance, touching_links

__all__ = ["StandLogic", "stand_deployment", "stand_lift"]


class StandLogic:
    """The judge of a batch of Spots, step by step, in numpy or torch, which keeps what the task learns from them.

    An env calls :meth:`step` once after every policy step and :meth:`begin` for new episodes; :meth:`look` judges
    robots that were put somewhere without a step. Everything else only answers.

    Args:
        settings: The task's numbers.
        stance: Which stance.
        link_names: Links in the order of the states' contact forces.
        policy_step: Seconds in one policy step.
        state: The robots as they are: arrays of their kind, on their device, are used.
        action: Their last actions.
        body: The robot's build.
    """

    def __init__(
        self,
        settings: SpotSettings,
        stance: Stance,
        link_names: Sequence[str],
        policy_step: float,
        state: RobotState,
        action: Any,
        body: SpotBody = SPATIAL,
    ) -> None:
        preset = settings.preset_values()
        links = list(link_names)
        self._training, self._led = True, False
        self.early_termination = True
        """Whether an episode ends with a fall; with False it goes on, and only its first fall is paid."""
        self.stance, self.body = stance, body
        self.hold_steps = max(1, round(SUCCESS_SECONDS / policy_step))
        """Policy steps for which an episode must end in the stance to count as a success."""
        self.strictness: Strictness | None = Strictness() if settings.effective_sensing()[1] else None
        """How much of noise, latency, command limits and costs there is in training; None: all of it."""
        self._growing = preset.growing_costs
        self._speed_stop = preset.speed_stop if settings.speed_stop is None else settings.speed_stop
        self.weights, self.fall_cost = settings.effective_weights(policy_step)
        self._late_weights = settings.late_weights(policy_step)

        def indices(numbers: Iterable[int]) -> Any:
            return columns(list(numbers), action)

        self._fall_links = indices(i for i, name in enumerate(links) if name.endswith(preset.fall_links))
        self._constants: dict[str, Any] = {
            "gravity": constant(stance.gravity, state.projected_gravity),
            "height": stance.height,
            "lifted": indices(links.index(name) for name in body.own_feet(stance.lifted_feet)),
            "support": indices(links.index(name) for name in body.own_feet(stance.support_feet)),
            "feet": indices(i for i, name in enumerate(links) if name.endswith("foot")),
            "angular_axes": indices(preset.angular_axes),
            "policy_step": policy_step,
            "body": body,
        }
        # Where a fall does not end an episode: in which one was paid before the last step, and in which up to now.
        self._fell_before: Any = touching_links(state)[:, 0] & False
        self.fell: Any = touching_links(state)[:, 0] & False
        self.look(state, self.moment(state, action), action)

    def moment(self, state: RobotState, action: Any) -> RewardInputs:
        """Return a copy of what the reward of the step to come needs to know of the present."""
        parts = (action, state.joint_velocities, state.base_position, state.base_quaternion, state.joint_positions)
        return RewardInputs(*map(copied, parts))

    def begin(self, env_ids: Any) -> None:
        """Begin new episodes: nobody in them has fallen. What ended before them is taken note of."""
        if self.training and self._led and self.strictness is not None:
            ended = self.fallen[env_ids]
            self.strictness.note_ends(float(ended.sum()), len(ended))
        fill_rows(self.fell, env_ids, False)

    def step(self, state: RobotState, before: RewardInputs, action: Any, *, stopped: bool = False) -> None:
        """Judge one policy step and learn from it; the only method that moves what :meth:`state_dict` holds.

        Args:
            state: The robots after it.
            before: What :meth:`moment` said before it.
            action: The clipped action.
            stopped: Whether a guard has ended the episodes.
        """
        # in place: a trainer may step under torch's inference mode, and somebody else without
        self._fell_before[:] = self.fell
        self.look(state, before, action, stopped=stopped)
        if not self.early_termination:
            self.fell |= self.fallen
        # reads from a device; no preset of the paper's
        if self.training and (self.fall_cost.eases or self._late_weights or self.strictness):
            self.fall_cost.note(self.holds)
            if self._led and self.strictness is not None:
                self.strictness.note(self.fall_cost.share)

    def look(self, state: RobotState, before: RewardInputs, action: Any, *, stopped: bool = False) -> None:
        """Judge the robots as they are; nothing is learned. The arguments are those of :meth:`step`."""
        touching = touching_links(state)
        fallen = any_touching(touching, self._fall_links)
        self.holds: Any = in_stance(
            state, self._constants["gravity"], self._constants["support"], self.body, touching=touching
        )
        """Which robots are in the stance."""
        if self._led and self._speed_stop:
            fallen = fallen | too_fast(state, self.holds, self.looseness, self.body)
        self.fallen: Any = fallen | True if stopped else fallen
        """Which robots touch the ground with a link that must not, were stopped by a guard, or in training would be."""
        self._step = StandStep(
            state=state,
            before=before,
            action=action,
            touching=touching,
            fallen=self.fallen & ~self._fell_before,
            holds=self.holds,
            **self._constants,
        )

    def touch(self, feet: Literal["lifted", "support"]) -> Any:
        """Return which robots touch the ground with a foot that is to be lifted, or that carries them."""
        return any_touching(self._step.touching, self._constants[feet])

    def reward_terms(self) -> dict[str, Any]:
        """Return the weighted terms of the last step by name, each of shape ``(n,)``.

        Of an episode that goes on after a fall, the first is paid. A policy is evaluated by what a fall costs late.
        """
        fall_cost = self.fall_cost.now if self.training else self.fall_cost.late
        weights = {**self.weights, "fall": -fall_cost}
        common = self.fall_cost.common if self.training else 1.0
        weights |= {name: weights[name] + common * (late - weights[name]) for name, late in self._late_weights.items()}
        if self._led and self.strictness is not None:
            weights |= {name: self.strictness.cost_share * weights[name] for name in self._growing if name in weights}
        return {name: weight * REWARD_TERMS[name](self._step) for name, weight in weights.items()}

    @property
    def training(self) -> bool:
        """Whether the cost of a fall eases; False while a policy is evaluated, by the cost that it eases to.

        Noise, latency and command limits are whole until a curriculum says that this is a training: an env by itself
        is as strict as the robot.
        """
        return self._training

    @training.setter
    def training(self, training: bool) -> None:
        self._training = self._led = training

    @property
    def level(self) -> float:
        """How much noise and latency there is, in [0, 1]: all of it, but in training where they grow."""
        return self.strictness.level if self._led and self.strictness is not None else 1.0

    @property
    def looseness(self) -> float:
        """Factor on the limits of a command limiter: 1, but in training where they grow narrow."""
        return self.strictness.looseness if self._led and self.strictness is not None else 1.0

    def progress(self) -> Any:
        """Return how far every robot is on its way: 1 in the stance, 0 elsewhere."""
        return as_number(self.holds, self._step.action)

    def success(self, held: Any, truncated: Any) -> Any:
        """Return which of the episodes that reach their time limit succeed.

        Args:
            held: Steps for which each robot has been in the stance without a break.
            truncated: Whose episode ends by its time limit.
        """
        return truncated & (held >= self.hold_steps)

    def state_dict(self) -> dict[str, Any]:
        """Return how far the cost of a fall has eased, and how strict the world is; it goes into the checkpoint."""
        return {**self.fall_cost.state_dict(), **({} if self.strictness is None else self.strictness.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self.fall_cost.load_state_dict(state)
        if self.strictness is not None:
            self.strictness.load_state_dict(state)


def stand_deployment(
    settings: SpotSettings,
    joint_names: Sequence[str],
    nominal_pose: Iterable[float],
    steps: tuple[float, float],
    body: SpotBody = SPATIAL,
) -> Deployment:
    """Return what must be known to run a policy of a stance elsewhere.

    Args:
        settings: The task's numbers.
        joint_names: Joints in the order of actions, targets and gains.
        nominal_pose: q_0 per joint, rad.
        steps: Seconds in one policy step and in one physics step.
        body: The robot's build.
    """
    scale, limit = settings.effective_actions()
    velocity, moments = settings.effective_observation()
    limits = settings.command_limits()
    layout = observation_layout(len(joint_names), body, velocity=velocity, limited=limits is not None, moments=moments)
    return Deployment(
        joint_names=tuple(joint_names),
        nominal_pose=tuple(float(q) for q in nominal_pose),
        action_scale=(float(scale),) * len(joint_names),
        action_limit=float(limit),
        policy_step=float(steps[0]),
        physics_step=float(steps[1]),
        observation=layout,
        limiter=limits,
    )


def stand_lift(stance: Stance, own: Deployment, other: Deployment) -> Lift | None:
    """Return what makes a policy of the plane of symmetry one of Spot in space; None for anything else.

    Args:
        stance: The stance that is trained.
        own: What its policies must know.
        other: What the other policy knows.
    """
    planes = tuple(joint.name for joint in PLANAR.robot.actuated)
    if stance is not HANDSTAND or other.joint_names != planes or own.joint_names == planes:
        return None
    return lift_from_plane(other, own)
