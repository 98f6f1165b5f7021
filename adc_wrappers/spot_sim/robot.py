"""The robot behind the services: power, behaviours, faults and time. Everything happens under one lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from adc_wrappers.backends.base import RobotStart

from .authority import Accounts, EstopBoard, LeaseBook, StopLevel
from .clock import SECOND, RobotClock, SimulatedClock, WallClock
from .condition import BehaviorFault, Condition, History, Mode, Motors
from .joint_mode import JointMode
from .motion import ARM_POSE, SIT_POSE, STAND_POSE, JointControl, Limp, Motion, Move
from .physics import PHYSICS_STEP, SpotPhysics
from .readings import Reading, StateLink
from .settings import PracticeSettings

__all__ = ["SimulatedSpot"]

_POWER_ON = SECOND


class SimulatedSpot:
    """One Spot, from its switch to its joints.

    Args:
        settings: How it behaves.
        password: Of the one user.
        make_frame: Builds the message of a state from the robot and a reading.
    """

    def __init__(
        self, settings: PracticeSettings, password: str, make_frame: Callable[[SimulatedSpot, Reading], Any]
    ) -> None:
        self.lock = threading.RLock()
        self.settings = settings
        self.clock: RobotClock = SimulatedClock() if settings.lockstep else WallClock(settings.clock_skew)
        self.physics = SpotPhysics(settings)
        self.accounts = Accounts(settings.username, password)
        self.leases = LeaseBook(settings.lease_timeout)
        self.estops = EstopBoard()
        self.link = StateLink(settings.lockstep, settings.seed)
        self.joint_mode = JointMode(self)
        self.motors = Motors.OFF
        self.mode = Mode.OFF
        self.faults: list[BehaviorFault] = []
        self.licensed = True
        self.battery = settings.battery
        self.condition = Condition()
        self.arm = settings.arm
        self.arm_positions = ARM_POSE.copy()
        """Where the arm's joints are, rad."""
        self.odom_tilt = 0.0
        """Pitch of the odometry frame against gravity, rad."""
        self.power_off_delay = 0
        """By how much longer a safe power off takes, ns."""
        self.noise = np.random.default_rng(settings.seed)
        self.history = History()
        self.observers: list[Callable[[], None]] = []
        """Are called after every physics step."""
        self._make_frame = make_frame
        self._fault_number = 0
        self._raised = False  # whether the body has been off the ground since the robot stood up
        self._powered_at = 0
        self._then: Callable[[], None] | None = None
        self._then_at: int | None = None
        self.motion: Motion = Limp(0)

    @property
    def elapsed(self) -> int:
        """Nanoseconds of simulation."""
        return self.physics.elapsed

    @property
    def busy(self) -> bool:
        """Whether something is under way that ends by itself."""
        moving = not self.motion.finished(self.elapsed) and self.mode is not Mode.JOINT
        return moving or self._then is not None or self.motors is Motors.POWERING_ON

    @property
    def settled(self) -> bool:
        """Whether the present behaviour has reached its end."""
        return self._then is None and self.motion.finished(self.elapsed)

    # Time

    def step(self) -> None:
        """Simulate one physics step."""
        self.physics.step(self.motion.order(self.elapsed))
        if isinstance(self.clock, SimulatedClock):
            self.clock.elapsed = self.elapsed
        if self.mode is Mode.JOINT:
            self.joint_mode.check()
        if self.motors is Motors.POWERING_ON and self.elapsed >= self._powered_at:
            self.motors = Motors.ON
            self.begin(Mode.SIT, Move.hold(self.physics.reading))
        if self._then is not None and self.motion.finished(self.elapsed):
            self._finish_behaviour()
        self.history.note(self)
        for observer in self.observers:
            observer()

    def _finish_behaviour(self) -> None:
        """Carry out what was to follow the present behaviour, after its delay."""
        if self._then_at is None:
            self._then_at = self.elapsed + self.power_off_delay
        if self._then is not None and self.elapsed >= self._then_at:
            then, self._then, self._then_at = self._then, None, None
            then()

    def advance(self) -> None:
        """Simulate the time of one joint command, then look for a fall and send the state."""
        for _ in range(round(self.settings.step * SECOND) // PHYSICS_STEP):
            self.step()
        self.look_for_fall()
        self.publish(self.physics.reading)

    def settle(self, seconds: float = 5.0) -> None:
        """In lockstep, simulate until nothing is under way, or for so long."""
        end = self.elapsed + round(seconds * SECOND)
        while self.settings.lockstep and self.busy and self.elapsed < end:
            self.advance()

    def publish(self, reading: Reading) -> None:
        """Send a state to whoever listens."""
        if self.link.subscribers:
            self.link.publish(reading.elapsed, self._make_frame(self, reading))

    # Behaviours

    def begin(self, mode: Mode, motion: Motion, then: Callable[[], None] | None = None) -> None:
        """Begin a behaviour, and what is to follow it; joint mode ends."""
        if self.mode is Mode.JOINT and mode is not Mode.JOINT:
            self.joint_mode.leave()
        self.mode, self.motion, self._then, self._then_at = mode, motion, then, None
        if mode not in (Mode.STAND, Mode.JOINT):
            self._raised = False
        self.history.note(self)

    def stand(self) -> None:
        """Move to the stance."""
        self.begin(Mode.STAND, Move(STAND_POSE, self.physics.reading))

    def sit(self) -> None:
        """Fold the legs."""
        self.begin(Mode.SIT, Move(SIT_POSE, self.physics.reading))

    def freeze(self) -> None:
        """Hold the joints where they are."""
        self.begin(self.mode if self.mode is not Mode.JOINT else Mode.STAND, Move.hold(self.physics.reading))

    def enter_joint_mode(self) -> None:
        """Let joint commands drive the robot."""
        self.begin(Mode.JOINT, JointControl(self.physics.reading))
        self.joint_mode.enter()

    def self_right(self) -> None:
        """Lie limp, then sit upright. The turn itself is not simulated."""

        def upright() -> None:
            self.begin(Mode.SIT, Move.hold(self.physics.sit_upright()))

        self.begin(Mode.SIT, Limp(self.elapsed), then=upright)

    # Power

    def power_on(self) -> None:
        """Switch motor power on; it takes a second."""
        if self.motors is Motors.OFF:
            self.motors = Motors.POWERING_ON
            self._powered_at = self.elapsed + _POWER_ON

    def cut_power(self) -> None:
        """Take motor power away at once."""
        self.motors = Motors.OFF
        self.begin(Mode.OFF, Limp(self.elapsed))

    def power_off_safely(self) -> None:
        """Sit down, then cut power; to ask again while that is under way changes nothing."""
        if self._then == self.cut_power:
            return
        if self.motors is not Motors.ON:
            self.cut_power()
        elif self.mode is Mode.FAULT:
            self.begin(Mode.FAULT, Limp(self.elapsed), then=self.cut_power)
        else:
            self.begin(Mode.SIT, Move(SIT_POSE, self.physics.reading), then=self.cut_power)

    # Supervision

    def watch(self) -> None:
        """Obey the E-stop and notice a lease holder who has gone silent."""
        level = self.estops.level
        if self.motors is not Motors.OFF:
            if level is StopLevel.CUT:
                self.cut_power()
            elif level is StopLevel.SETTLE_THEN_CUT and self._then is None:
                self.power_off_safely()
        if self.leases.stale:
            self.lose_lease()
        self.history.note(self)

    def lose_lease(self) -> None:
        """Nobody who may command is there: joint mode ends in the stock stand."""
        if self.mode is Mode.JOINT:
            self.stand()

    def look_for_fall(self) -> None:
        """A robot that was up and touches the ground with more than its legs has fallen; broken physics is a fault."""
        if not self.physics.sound:
            self.physics.sit_upright()
            self.raise_fault("hardware")
        if self.mode not in (Mode.STAND, Mode.JOINT):
            return
        if not self.physics.reading.body_touches:
            self._raised |= self.mode is Mode.JOINT or self.settled  # while getting up it may touch
        elif self._raised:
            self.raise_fault("fall")

    def raise_fault(self, cause: str) -> None:
        """Go limp until the fault is cleared."""
        self._fault_number += 1
        self.faults.append(BehaviorFault(self._fault_number, cause, self.clock.now()))
        if self.motors is Motors.ON:
            self.begin(Mode.FAULT, Limp(self.elapsed))

    def topple(self, seconds: float = 3.0) -> None:
        """Simulate on after a shove, until the robot has fallen or stayed up for so long."""
        end = self.elapsed + round(seconds * SECOND)
        while self.mode is Mode.STAND and self.elapsed < end:
            self.advance()

    def clear_fault(self, number: int) -> BehaviorFault | None:
        """Forget a fault; after the last one the robot holds still where it lies."""
        fault = next((fault for fault in self.faults if fault.number == number), None)
        if fault is not None:
            self.faults.remove(fault)
            if not self.faults and self.mode is Mode.FAULT:
                self.begin(Mode.SIT, Move.hold(self.physics.reading))
        return fault

    def place(self, start: RobotStart) -> None:
        """Put the robot into a state, whatever it is doing, and send it."""
        reading = self.physics.place(start)
        self._raised = False
        if self.mode in (Mode.SIT, Mode.STAND):
            self.motion = Move.hold(reading)
        elif self.mode is Mode.JOINT:
            self.joint_mode.forget(reading)
        self.publish(reading)

    def close(self) -> None:
        """Cut motor power and end every stream."""
        self.cut_power()
        self.joint_mode.break_off()
        self.link.cut()
