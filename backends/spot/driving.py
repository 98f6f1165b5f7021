"""The driver of the joints: one command per policy step, watched, until the guard or the end of the episode."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.guard import Breach, Guard, Moment

from . import sdk
from .estimation import StateEstimator
from .fallback import Fallback
from .listening import Repeater
from .messages import JointCommand, JointOrder, StateSample
from .session import SpotSession
from .settings import SpotRobotSettings
from .streams import CommandSender, StateReceiver
from .takeover import Setpoint

__all__ = ["JointDriver"]

WATCH_PERIOD = 0.005
HEALTH_PERIOD = 0.25
LOCKSTEP_LIFE = 0.05
"""Seconds of the robot's clock by which a command may outlive its policy step in lockstep, where time waits for it."""

HOLD_SECONDS = 2.0
"""How long the nominal pose is held for a policy that has not acted yet."""


class JointDriver:
    """The driver of one robot's joints through one episode.

    Args:
        session: A robot that stands, with motors on.
        receiver: Its states.
        guard: Looks at everything.
        settings: How it is driven.
        policy_step: Seconds.
        estimator: Turns samples into states.
        tell: Told of events.
        on_command: Told of every new command.
    """

    def __init__(
        self,
        session: SpotSession,
        receiver: StateReceiver,
        guard: Guard,
        settings: SpotRobotSettings,
        policy_step: float,
        estimator: StateEstimator,
        tell: Callable[[str, dict[str, Any]], None],
        on_command: Callable[[JointCommand], None],
    ) -> None:
        self._session, self._receiver, self._guard, self._settings = session, receiver, guard, settings
        self._policy_step, self._estimator, self._tell, self._on_command = policy_step, estimator, tell, on_command
        self._timed = settings.clock == "realtime"
        limits, chosen = guard.limits, settings.time_to_live
        life = policy_step + (limits.state_age if self._timed else chosen or LOCKSTEP_LIFE)
        self._sender = CommandSender(
            session.client(sdk.RobotCommandStreamingClient),
            JointOrder(),
            lambda: receiver.robot_now,
            lambda: self._newest().stamp,
            period=1.0 / settings.send_rate if self._timed else None,
            time_to_live=chosen if self._timed and chosen is not None else life,
            life=life,
            client_name=session.client_name,
            velocity_limit=limits.velocity_safety_limit,
        )
        self._fallback = Fallback(session)
        self._lock = threading.Lock()
        self._safe = threading.Event()
        self._halted: Breach | None = None
        self.incident: dict[str, Any] | None = None
        """The breach that ended the episode and what became of the robot; None while it goes on. If asking has found
        what was behind it, that is the breach, and ``first`` says what was seen."""
        self.sample: StateSample = self._newest()
        """The state of the last policy instant."""
        self._key = 0
        self._steps = 0
        self._command: JointCommand | None = None
        self._put_at = time.monotonic()
        self._held_until = 0.0
        self._due = 0.0
        self.overruns = 0
        """Policy steps whose instant had passed before the action came."""
        self._looked_at: StateSample | None = None
        self._watchers: list[Repeater] = []

    def _newest(self) -> StateSample:
        latest = self._receiver.latest
        if latest is None:
            raise RuntimeError("the driver needs a state before it begins.")
        return latest

    def begin(self, setpoint: Setpoint) -> None:
        """Open the command stream with a first setpoint, switch to joint control and start the watchdogs."""
        self.sample = self._newest()
        seen = self._look()
        if seen is not None:
            self.halt(seen)
            return
        self._due = self.sample.stamp
        self._key = self.sample.echo % 2_000_000_000
        command = self._make(setpoint)
        self._note(command)
        self._held_until = time.monotonic() + 2.0 * self._settings.patience  # for sending and for the echo
        if not self._sender.start(command, self._settings.patience):
            self.halt(self._why_not_sent(command))
            return
        if self._timed:
            self._watchers = [
                Repeater("spot watchdog", WATCH_PERIOD, self._halting(self._watch)),
                Repeater("spot health", HEALTH_PERIOD, self._halting(self._watch_health)),
            ]
        self._session.activate()
        self._await_echo(command)
        self._tell("joint control", {"key": command.key})

    def _await_echo(self, command: JointCommand) -> None:
        """Let nothing follow before the robot has shown that it hears us."""
        heard = self._receiver.wait(lambda s: s.echo == command.key or self._over(), self._settings.patience)
        if heard is None or self._cut_off():
            self.halt(self._why_no_state(command))
            return
        self._sender.heard = True
        self.sample = heard
        self._due = heard.stamp
        seen = self._look()
        if seen is not None:
            self.halt(seen)

    def hold(self) -> None:
        """Keep the last setpoint for a while, on fresh states, until the policy acts."""
        self._held_until = time.monotonic() + HOLD_SECONDS
        self._sender.hold(HOLD_SECONDS)

    def step(self, setpoint: Setpoint) -> RobotState | None:
        """Send a setpoint and wait for the state one policy step later; None if the guard has ended the episode."""
        if self._halted is None:
            self._try_step(setpoint)
        if self._halted is not None:
            self._safe.wait()
            return None
        return self._estimator.state(self.sample)

    def _try_step(self, setpoint: Setpoint) -> None:
        previous = setpoint.position if self._command is None else self._command.position
        moment = Moment(
            self._estimator.state(self.sample), setpoint.position, previous, setpoint.stiffness, setpoint.damping,
            np.zeros_like(previous), self.sample.stamp,
        )  # fmt: skip
        breach = self._severed() or self._look() or self._guard.before(moment)
        if breach is not None:
            self.halt(breach)
            return
        command = self._make(setpoint)
        self._note(command)
        self._held_until = 0.0
        self._sender.put(command)
        sample = self._next_sample(command)
        if self._halted is not None:
            return
        if sample is None or self._cut_off():
            self.halt(self._why_no_state(command))
            return
        if self._timed is False and sample.stamp - command.source > 1.5 * self._policy_step + 0.01:
            gap = sample.stamp - command.source
            self.halt(self._guard.breach("clock", f"the robot's clock moved by {gap:.3f} s in one step", sample.stamp))
            return
        self.sample = self._looked_at = sample
        self._steps += 1
        found = self._guard.after(self._estimator.state(sample), sample.stamp) or self._poll_in_lockstep()
        if found is not None:
            self.halt(found)

    def _make(self, setpoint: Setpoint) -> JointCommand:
        self._key += 1
        zeros: NDArray[np.float64] = np.zeros_like(setpoint.position)
        return JointCommand(
            self._key,
            setpoint.position,
            zeros,
            setpoint.stiffness,
            setpoint.damping,
            self.sample.stamp,
            self.sample.received,
        )

    def _note(self, command: JointCommand) -> None:
        self._command = command
        self._put_at = time.monotonic()
        self._on_command(command)

    def _next_sample(self, command: JointCommand) -> StateSample | None:
        if not self._timed:
            until = command.source + self._policy_step - 1e-4
            return self._receiver.wait(
                lambda s: (s.echo == command.key and s.stamp >= until) or self._over(), self._settings.patience
            )
        self._due += self._policy_step
        newest = self._newest().stamp
        if newest > self._due + 1e-4:
            self.overruns += 1
            self._due = newest
        timeout = self._policy_step + self._guard.limits.state_age
        return self._receiver.wait(lambda s: s.stamp >= self._due - 1e-4 or self._over(), timeout)

    def _over(self) -> bool:
        """Whether waiting is pointless."""
        return self._halted is not None or self._cut_off()

    def _cut_off(self) -> bool:
        """Whether commands do not reach the robot any more."""
        return self._sender.ended is not None or self._sender.missed is not None

    def _why_not_sent(self, command: JointCommand) -> Breach:
        if self._cut_off() or self._receiver.problem is not None:
            return self._why_no_state(command)
        reason = f"the first command was not sent within {self._settings.patience:g} s"
        return self._guard.breach("stream", reason, self._newest().stamp)

    def _why_no_state(self, command: JointCommand) -> Breach:
        now = self._newest().stamp
        severed = self._severed()
        if severed is not None:
            return severed
        if not self._timed and self._newest().echo < command.key:
            reason = f"command {command.key} was not acknowledged within {self._settings.patience:g} s"
            return self._guard.breach("echo_lag", reason, now)
        return self._guard.breach("state_age", "no new state came in time", now)

    def _severed(self) -> Breach | None:
        """Return which of the two streams does not carry any more, and why."""
        now = self._newest().stamp
        if self._receiver.problem is not None:
            return self._guard.breach(*self._receiver.problem, time=now)
        if self._sender.ended is not None:
            return self._guard.breach("stream", self._sender.ended, now)
        if self._sender.missed is not None:
            return self._guard.breach("state_age", self._sender.missed, now)
        return None

    def _look(self) -> Breach | None:
        """Let the guard look at the newest state, in whatever phase; once at each."""
        newest = self._newest()
        if newest is self._looked_at:
            return None
        self._looked_at = newest
        return self._guard.between(self._estimator.glance(newest), newest.stamp)

    def _diagnose(self, breach: Breach) -> Breach:
        """Return what was behind a breach: the robot tells why its command stream has ended, the keeper what it did."""
        asking = breach.check == "stream" and self._sender.ended is not None
        cause = self._fallback.cause(self._guard.limits) if asking else self._fallback.keeper_cause()
        if cause is None or cause[0] == breach.check:
            return breach
        return replace(breach, check=cause[0], reason=f"{cause[1]} ({breach.reason})")

    def _poll_in_lockstep(self) -> Breach | None:
        every = max(1, round(HEALTH_PERIOD / self._policy_step))
        if self._timed or self._steps % every:
            return None
        cause = self._fallback.cause(self._guard.limits)
        return None if cause is None else self._guard.breach(*cause, time=self.sample.stamp)

    def _halting(self, watch: Callable[[], bool]) -> Callable[[], bool]:
        """Return a watchdog that stops the policy if it breaks: one that dies unseen watches nothing."""

        def watched() -> bool:
            try:
                return watch()
            except Exception as error:  # whatever it is, nobody is watching any more
                self.halt(self._guard.breach("watchdog", f"the watchdog broke: {error!r}", self._newest().stamp))
                return False

        return watched

    def _watch_health(self) -> bool:
        cause = self._fallback.cause(self._guard.limits)
        if cause is not None:
            self.halt(self._guard.breach(*cause, time=self._newest().stamp))
        return self._halted is None

    def _watch(self) -> bool:
        """Look at clocks, streams and the newest state; runs in the watchdog's thread."""
        newest = self._newest()
        holding = time.monotonic() < self._held_until
        breach = self._severed() or self._guard.ages(
            state_age=self._receiver.age(),
            policy_age=0.0 if holding else time.monotonic() - self._put_at,
            echo_lag=self._sender.echo_lag(),
            time=newest.stamp,
        )
        breach = breach or self._look()
        if breach is not None:
            self.halt(breach)
        return self._halted is None

    def halt(self, breach: Breach) -> None:
        """Stop the policy for a reason and tell the robot to be safe; the first reason counts.

        Only then is anybody told, is the robot asked what was behind it, and is its safe state waited for.
        """
        with self._lock:
            if self._halted is not None:
                return
            self._halted = breach
        found, outcome = breach, "NOT CONFIRMED, press the E-stop: the fall-back did not end"
        try:
            self._sender.stop(0.0)
            told = self._fallback.act(breach.check, self._newest())
            self._tell("stopped" if breach.check == "stopped" else "guard", breach.to_dict())
            found = self._diagnose(breach)
            outcome = self._fallback.finish(told, found.check, self._newest())
        finally:
            first = {} if found is breach else {"first": {"check": breach.check, "reason": breach.reason}}
            self.incident = {**found.to_dict(), **first, "fallback": outcome}
            self._tell("fallback", {"outcome": outcome, **({"cause": found.check} if first else {})})
            self._safe.set()

    def end(self) -> None:
        """End the episode: stop sending, let the robot stand by its own controller, and end the watchdogs."""
        with self._lock:
            running = self._halted is None
            if running:
                self._halted = self._guard.breach("end", "the episode was ended", self._newest().stamp)
        if running:
            self._sender.stop(0.0)
            self._fallback.act("end", self._newest())
            self._safe.set()
        self._safe.wait()
        self._sender.stop()
        for watcher in self._watchers:
            watcher.stop()

    @property
    def drives(self) -> bool:
        """Whether the robot still follows our targets: not from the moment in which it is to be stopped."""
        return self._halted is None

    def hear(self, sample: StateSample) -> None:
        """Take note of a state message as it comes; runs in the receiver's thread."""
        self._sender.acknowledge(sample.echo, sample.received)

    def delays(self) -> dict[str, list[float]]:
        """Return the delays of the episode so far, s: from state to command, and from command to its echo."""
        return {"state_to_command": list(self._sender.latencies), "command_to_echo": list(self._sender.echo_times)}
