"""A real Spot, or a practice one, as a backend of the tasks."""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotBackend, RobotParameters, RobotStart, RobotState
from adc_wrappers.backends.guard import Guard
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES, NOMINAL_POSE
from adc_wrappers.backends.spot_model.mechanics import effective_inertia
from adc_wrappers.core.actuators import Gains, damping_for
from adc_wrappers.core.errors import BackendError

from . import sdk
from .driving import JointDriver
from .estimation import StateEstimator
from .listening import Audience
from .messages import JointCommand, JointOrder, StateSample, check_named
from .session import SpotSession
from .settings import SpotRobotSettings, per_joint
from .shadow import ShadowDriver
from .signals import uninterrupted
from .streams import StateReceiver
from .takeover import (
    Setpoint,
    TakeOverError,
    check_gravity,
    check_height,
    check_start,
    check_upright,
    gain_setpoints,
    gravity_angle,
    pose_setpoints,
    stands,
    tilt,
)

__all__ = ["SpotRobotBackend"]

_TARGET_STIFFNESS = 40.0
_GRAVITY_SAMPLES = 500


class SpotRobotBackend(RobotBackend):
    """One Spot over its own network interface, by Boston Dynamics' SDK.

    Making the backend logs in and reads states; nothing moves. :meth:`reset` takes the lease, powers the motors, lets
    the robot stand by itself, and leads it from there to the nominal pose under the commanded gains. :meth:`advance`
    sends targets, watched by the guard; a breach ends the episode, hands the robot to its own controller, and is told
    by :meth:`incident`. :meth:`close` powers the motors off and confirms it.

    Args:
        num_envs: One.
        settings: How the robot is reached and driven.
        wanted: Direction of gravity in the body frame in the stance, for the guard.
        physics_step: With ``decimation``, what one policy step is in seconds; the robot's own law runs as it runs.
        decimation: See ``physics_step``.

    Raises:
        BackendError: The robot cannot be reached, or is not one that may be driven.
    """

    fixed_gains = True
    """The commanded gains stay what they are, see :meth:`set_gains`."""

    def __init__(
        self,
        num_envs: int,
        settings: SpotRobotSettings,
        *,
        wanted: Sequence[float] = (1.0, 0.0, 0.0),
        physics_step: float = 0.002,
        decimation: int = 10,
    ) -> None:
        if num_envs != 1:
            raise BackendError(f"one connection drives one robot: expected num_envs=1, got {num_envs}.")
        self.num_envs = 1
        self.joint_names, self.link_names = JOINT_NAMES, LINK_NAMES
        self.physics_step, self.decimation = physics_step, decimation
        self.nominal_pose = np.array(NOMINAL_POSE)
        self.settings = settings
        self.guard = Guard(settings.guard_limits, wanted)
        """What stops a policy."""
        self._inertia = effective_inertia()
        self._stiffness, self._damping = self._commanded_gains()
        self._estimator = StateEstimator()
        self._audience = Audience(settings.listeners)
        self._gravity: deque[StateSample] = deque(maxlen=_GRAVITY_SAMPLES)
        self._targets: NDArray[np.float64] | None = None
        self._driver: JointDriver | ShadowDriver | None = None
        self._closed = False
        self._process = os.getpid()
        self._policy_steps = 0
        self._held: NDArray[np.float64] = self.nominal_pose
        self.session = SpotSession(settings)
        """The session, for reports."""
        atexit.register(self.close)
        try:
            self._connect()
        except BackendError:
            self.close()
            raise

    def _connect(self) -> None:
        self.health = self.session.check(None) if not self.settings.shadow else self.session.health()
        self.receiver = StateReceiver(
            self.session.client(sdk.RobotStateStreamingClient), JointOrder(), self._on_sample,
            timed=self.settings.clock == "realtime",
        )  # fmt: skip
        sample = self.receiver.wait(lambda _: True, self.settings.patience)
        if sample is None:
            _, reason = self.receiver.problem or ("", f"no state came within {self.settings.patience:g} s")
            raise BackendError(f"state stream: {reason}.")
        self._sample = sample

    def _commanded_gains(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.settings.stiffness is None or self.settings.damping is None:
            stiffness = np.full(len(JOINT_NAMES), _TARGET_STIFFNESS)
            return stiffness, damping_for(stiffness[None], self._inertia)[0]
        return per_joint("stiffness", self.settings.stiffness), per_joint("damping", self.settings.damping)

    def _on_sample(self, sample: StateSample) -> None:
        if sample.acceleration is not None:
            self._gravity.append(sample)
        driver, targets = self._driver, None
        if isinstance(driver, JointDriver):
            driver.hear(sample)
            targets = self._targets if driver.drives else None
        self._audience.tell("state", self._estimator.above_ground(sample), targets)

    def _tell(self, name: str, details: dict[str, Any]) -> None:
        self._audience.tell("event", name, details)

    def _on_command(self, command: JointCommand) -> None:
        self._targets = command.position
        self._audience.tell("command", command)

    def effective_inertia(self) -> NDArray[np.float64]:
        """Return the model's M per joint; the robot's own is not known."""
        return self._inertia.copy()

    def gains(self) -> Gains:
        """Return the commanded gains, which every message carries."""
        return Gains(self._stiffness[None].copy(), self._damping[None].copy())

    def set_gains(
        self,
        stiffness: NDArray[np.float64],
        damping: NDArray[np.float64],
        env_ids: NDArray[np.int64] | None = None,
    ) -> None:
        """Accept the commanded gains, which are there already; refuse all others."""
        same = np.allclose(stiffness, self._stiffness[None], rtol=1e-6) and np.allclose(
            damping, self._damping[None], rtol=1e-6
        )
        if not same:
            raise BackendError(
                "gains on hardware are the commanded gains and stay as they were when the env was made: a "
                "curriculum does not run on a robot. Train in simulation; to command other gains, make the env with "
                f"stiffness= and damping=. Asked for a stiffness of {np.unique(stiffness).tolist()}, commanded is "
                f"{np.unique(self._stiffness).tolist()}."
            )

    def reset(self, start: RobotStart, env_ids: NDArray[np.int64] | None = None) -> None:
        """Bring the robot to its feet and take it over: native stand, settle, nominal pose at the commanded gains.

        A robot cannot be put into a state. The start must be the one at rest in the nominal pose; where the robot
        stands and looks is up to it.

        Raises:
            BackendError: The start is another, the robot must not be driven, or the guard ended the take-over.
        """
        check_start(start, self.nominal_pose)
        done = False
        try:
            self._take_over()
            done = True
        finally:
            if not done:
                self._stop_driving("the reset was not finished")

    def _take_over(self) -> None:
        self._end_driver()
        self.guard.phases.take_over()
        self._policy_steps, self._held = 0, self.nominal_pose
        if self.settings.shadow:
            self._driver = ShadowDriver(self.receiver, self.guard, self.settings, self.policy_step, self._tell)
            self._sample = self._driver.sample
            self.guard.phases.hand_to_policy()
            return
        self.health = self.session.check(self.guard.limits)
        self.receiver.forgive()
        check_upright(self._newest())
        self.session.arm()
        self._tell("armed", {})
        self.session.stand()
        self._catch_up()
        self.watch(self.settings.settle_seconds)
        self.receiver.wait(stands, self.settings.patience)
        check_height(self._newest())
        check_named(self.session.health().joints, self._newest().position)
        check_gravity(self.gravity_disagreement())
        driver = JointDriver(
            self.session, self.receiver, self.guard, self.settings, self.policy_step, self._estimator, self._tell,
            self._on_command,
        )  # fmt: skip
        self._driver = driver
        self._lead(driver)
        driver.hold()
        self._tell("policy", {"stamp": driver.sample.stamp})

    def watch(self, seconds: float) -> None:
        """Take in states for some time of the robot's clock, or as long as patience lasts; nothing is sent."""
        until = self._newest().stamp + seconds
        self.receiver.wait(lambda sample: sample.stamp >= until, seconds + self.settings.patience)

    def _catch_up(self) -> None:
        """Wait for the state of the present: those of the way to the stand may still be under way."""
        present = self.session.stamp()
        if self.receiver.wait(lambda sample: sample.stamp >= present - 1e-4, self.settings.patience) is None:
            _, reason = self.receiver.problem or ("", f"none of the present came within {self.settings.patience:g} s")
            raise BackendError(f"state stream: {reason}. Look at the network, then try again.")

    def _newest(self) -> StateSample:
        latest = self.receiver.latest
        if latest is None:
            raise BackendError("no state has come from the robot.")
        return latest

    def gravity_disagreement(self) -> float:
        """Return the angle between odometry's and the inertial sensor's idea of down, degrees; NaN without a sensor."""
        return gravity_angle(list(self._gravity), self._newest().stamp)

    def tilt(self) -> float:
        """Return the angle of the body against level, degrees."""
        return tilt(self._newest())

    def _lead(self, driver: JointDriver) -> None:
        """Lead pose and gains from the robot's stand to ours."""
        now = self._newest()
        poses = pose_setpoints(self._steps(self.settings.takeover_seconds), now.position, now.load, self.nominal_pose)
        driver.begin(next(poses))
        self._follow(driver, poses)
        now = driver.sample
        steps = self._steps(self.settings.soften_seconds)
        self._follow(driver, gain_setpoints(steps, now.position, now.load, self._stiffness, self._damping))
        # at rest, as a policy's command limiter takes it: targets move until the last step of a softening joint
        self._follow(driver, iter([Setpoint(self._held, self._stiffness, self._damping)]))

    def _steps(self, seconds: float) -> int:
        return max(1, round(seconds / self.policy_step))

    def _follow(self, driver: JointDriver, setpoints: Iterator[Setpoint]) -> None:
        for setpoint in setpoints:
            self._held = setpoint.position
            if driver.step(setpoint) is None:
                raise TakeOverError(driver.incident or {"check": "end", "reason": "ended", "fallback": "unknown"})
        self._sample = driver.sample

    def advance(self, targets: NDArray[np.float64]) -> None:
        """Send targets and wait for the state one policy step later; nothing once the guard has ended the episode."""
        if self._driver is None:
            raise BackendError("reset() first: the robot is not being driven.")
        wanted = np.asarray(targets, dtype=np.float64)
        if wanted.shape != (1, len(JOINT_NAMES)):
            raise BackendError(f"targets: expected shape (1, {len(JOINT_NAMES)}), got {wanted.shape}.")
        if self._policy_steps == 0:
            self.guard.phases.hand_to_policy()
        self._policy_steps += 1
        share = min(1.0, self._policy_steps / (self.settings.soft_start_steps + 1))
        position = self._held + share * (wanted[0] - self._held)
        done = False
        try:
            self._driver.step(Setpoint(position, self._stiffness, self._damping))
            done = True
        finally:
            if not done:
                self._stop_driving("a step was not finished")
        self._sample = self._driver.sample

    def incident(self) -> dict[str, Any] | None:
        """Return why the guard ended the episode and what the robot did then; None while it goes on."""
        return None if self._driver is None else self._driver.incident

    def state(self) -> RobotState:
        """Return the state of the last policy instant, from one message."""
        return self._estimator.state(self._sample)

    def held_targets(self) -> NDArray[np.float64]:
        """Return where the take-over has led the targets."""
        return self._held[None].copy()

    def clock(self) -> float:
        """Return the robot's time of the last policy instant, s."""
        return self._sample.stamp

    def push(self, velocity_change: NDArray[np.float64], env_ids: NDArray[np.int64]) -> None:
        """Refuse: a robot is not pushed by software."""
        raise BackendError("a robot cannot be pushed by software. Make the env with randomize=False.")

    def set_parameters(self, parameters: RobotParameters, env_ids: NDArray[np.int64]) -> None:
        """Refuse: a robot's friction, mass and delays are what they are."""
        raise BackendError("a robot's physical parameters cannot be set. Make the env with randomize=False.")

    def render(self, env_id: int = 0) -> NDArray[np.uint8]:
        """Refuse: there is no camera that looks at the robot."""
        raise BackendError("a robot has no picture of itself. Look at it, or view the practice robot.")

    def delays(self) -> dict[str, list[float]]:
        """Return the delays of the running episode, s; nothing in shadow mode."""
        return self._driver.delays() if isinstance(self._driver, JointDriver) else {}

    def stop(self) -> None:
        """End the episode now: the robot stands by its own controller."""
        self._stop_driving("stopped by the program")

    def _stop_driving(self, why: str) -> None:
        with uninterrupted():
            driver = self._driver
            if isinstance(driver, JointDriver) and driver.incident is None:
                driver.halt(self.guard.breach("stopped", why, self._newest().stamp))
            self._end_driver()
            self._audience.flush()

    def _end_driver(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.end()
        self._targets = None

    def close(self) -> None:
        """Power the motors off, confirm it, return the lease and end every thread; may be called twice.

        If it fails, the lease stays ours and it may be called again; it is, at the interpreter's exit.
        ``session.close()`` gives the robot up. In a process that was forked from ours it does nothing.

        Raises:
            BackendError: The motors are not confirmed off: somebody must press the E-stop.
        """
        if self._closed or os.getpid() != self._process:
            return
        with uninterrupted():
            try:
                if hasattr(self, "receiver"):
                    self._end_driver()
                self._power_off()
            finally:
                if hasattr(self, "receiver"):
                    self.receiver.stop()
                self._audience.flush()
            self._closed = True
            atexit.unregister(self.close)
            self.session.close()
            self._audience.close()

    def _power_off(self) -> None:
        if not self.session.armed:
            return
        self.session.lease.await_keeper()
        lost = self._lease_lost()
        try:
            off = self.session.health().motors_off
            if not off and lost is not None:
                owner = self.session.lease.take_back()
                if owner is not None:
                    self._tell("closed", {"motors": f"left to the owner of the lease, {owner}: {lost}"})
                    return
            if not off:
                self.session.power_off()
        except BackendError as error:
            self._tell("closed", {"motors": "not confirmed off"})
            if "press the E-stop" in str(error):
                raise
            raise BackendError(f"motors are not confirmed off, press the E-stop: {error}") from error
        self._tell("closed", {"motors": "confirmed off"})

    def _lease_lost(self) -> str | None:
        """Return why the lease is somebody else's; None if it is ours, or if the robot does not say: then we try."""
        with suppress(BackendError):
            return self.session.confirm_lease()
        with suppress(BackendError):  # our login may be void
            self.session.log_in_again()
            return self.session.confirm_lease()
        return None
