"""Authority over the practice robot: logins, the lease of its body, the software E-stop."""

from __future__ import annotations

import hmac
import secrets
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum

__all__ = ["BODY", "Accounts", "EstopBoard", "EstopEndpoint", "LeaseBook", "LeaseVerdict", "StopLevel"]


class Accounts:
    """One user and the tokens that are valid now.

    Args:
        username: Who may log in.
        password: With what.
    """

    def __init__(self, username: str, password: str) -> None:
        self._username = username
        self._password = password
        self._tokens: set[str] = set()

    def log_in(self, username: str, password: str) -> str | None:
        """Return a token, or None if the login is wrong."""
        known = hmac.compare_digest(username.encode(), self._username.encode())
        if not (known & hmac.compare_digest(password.encode(), self._password.encode())):
            return None
        return self._issue()

    def renew(self, token: str) -> str | None:
        """Return a new token for a valid one."""
        return self._issue() if self.valid(token) else None

    def valid(self, token: str) -> bool:
        """Return whether a token is valid."""
        return token in self._tokens

    def expire(self) -> None:
        """Void every token."""
        self._tokens.clear()

    def _issue(self) -> str:
        token = secrets.token_urlsafe(32)
        self._tokens.add(token)
        return token


BODY = "body"


class LeaseVerdict(Enum):
    """The robot's verdict on a lease; the names are those of ``LeaseUseResult``."""

    STATUS_OK = 1
    STATUS_INVALID_LEASE = 2
    STATUS_OLDER = 3
    STATUS_REVOKED = 4
    STATUS_UNMANAGED = 5
    STATUS_WRONG_EPOCH = 6


class LeaseBook:
    """The book of the body's lease: who holds it, and whether a use of it is right.

    A lease is ``[n]``; a client counts on below it: ``[n, 1]``, ``[n, 2]`` and so on. It may hand one of these to
    another client, which counts on below that: ``[n, 1, 0]``, ``[n, 1, 1]``. Numbers are compared from the left, as the
    SDK's ``Lease.compare`` does: where the first difference is smaller, a lease is older and good for nothing. One that
    the last use lies below (``[n, 1]`` after ``[n, 1, 5]``) is too old for a command, but retains and returns. Every
    new holder gets the next ``n``.

    Args:
        timeout: Wall-clock seconds without a sign of life after which the lease is stale.
    """

    def __init__(self, timeout: float) -> None:
        self.epoch = uuid.uuid4().hex
        self.owner: str | None = None
        """The client that holds the lease."""
        self.root = 0
        """First number of the present lease."""
        self.used: tuple[int, ...] = (0,)
        """The latest use."""
        self._timeout = timeout
        self._sign_of_life = time.monotonic()

    @property
    def stale(self) -> bool:
        """Whether the holder has been silent for too long."""
        return self.owner is not None and time.monotonic() - self._sign_of_life > self._timeout

    def acquire(self, client: str) -> bool:
        """Give the lease to a client unless another one holds it; return whether it did."""
        if self.owner is not None and not self.stale:
            return False
        self.take(client)
        return True

    def take(self, client: str) -> None:
        """Give the lease to a client, whoever holds it."""
        self.root += 1
        self.used = (self.root,)
        self.owner = client
        self._sign_of_life = time.monotonic()

    def give_back(self, epoch: str, sequence: Sequence[int]) -> bool:
        """Take the lease back from its holder; return whether it was the active one."""
        if self.judge(BODY, epoch, sequence) is not LeaseVerdict.STATUS_OK:
            return False
        self.owner = None
        return True

    def judge(self, resource: str, epoch: str, sequence: Sequence[int]) -> LeaseVerdict:
        """Judge a lease without using it."""
        if not resource or not sequence:
            return LeaseVerdict.STATUS_INVALID_LEASE
        if resource != BODY:
            return LeaseVerdict.STATUS_UNMANAGED
        if epoch != self.epoch:
            return LeaseVerdict.STATUS_WRONG_EPOCH
        if sequence[0] > self.root:
            return LeaseVerdict.STATUS_INVALID_LEASE
        if sequence[0] < self.root:
            return LeaseVerdict.STATUS_OLDER
        if self.owner is None:
            return LeaseVerdict.STATUS_REVOKED
        shared = min(len(sequence), len(self.used))
        older = tuple(sequence[:shared]) < self.used[:shared]
        return LeaseVerdict.STATUS_OLDER if older else LeaseVerdict.STATUS_OK

    def retain(self, resource: str, epoch: str, sequence: Sequence[int]) -> LeaseVerdict:
        """Take note that the holder is alive."""
        verdict = self.judge(resource, epoch, sequence)
        if verdict is LeaseVerdict.STATUS_OK:
            self._sign_of_life = time.monotonic()
        return verdict

    def use(self, resource: str, epoch: str, sequence: Sequence[int]) -> LeaseVerdict:
        """Judge a lease and remember its use."""
        verdict = self.retain(resource, epoch, sequence)
        if verdict is LeaseVerdict.STATUS_OK:
            if tuple(sequence) < self.used:
                return LeaseVerdict.STATUS_OLDER
            self.used = tuple(sequence)
        return verdict


_ALL_ONES = (1 << 64) - 1
_SETTLING = 3.5  # seconds between the two timeouts, where an endpoint gives only one


class StopLevel(IntEnum):
    """The level of a stop, of which the smallest of all endpoints counts; numbers are those of ``EstopStopLevel``."""

    CUT = 1
    SETTLE_THEN_CUT = 2
    NONE = 4


@dataclass(kw_only=True)
class EstopEndpoint:
    """Somebody who can stop the robot."""

    role: str
    name: str
    timeout: float
    """Wall-clock seconds of silence after which the robot settles and cuts."""
    cut_timeout: float = 0.0
    """Wall-clock seconds of silence after which power is cut; 0 for some seconds more than ``timeout``."""
    unique_id: str = ""
    level: StopLevel = StopLevel.CUT
    challenge: int = field(default_factory=lambda: secrets.randbits(64))
    registered: bool = False
    heard: float = field(default_factory=time.monotonic)

    def effective_level(self, now: float) -> StopLevel:
        """Return the level it asked for, or the one its silence asks for."""
        silence = now - self.heard
        if silence > (self.cut_timeout or self.timeout + _SETTLING):
            return StopLevel.CUT
        if silence > self.timeout:
            return min(self.level, StopLevel.SETTLE_THEN_CUT)
        return self.level


class EstopBoard:
    """The configuration of endpoints. Without endpoints it allows power, as robots do since release 3.3."""

    def __init__(self) -> None:
        self.config_id = uuid.uuid4().hex
        self.endpoints: list[EstopEndpoint] = []
        self.pressed: StopLevel = StopLevel.NONE
        """An E-stop of somebody else, for faults."""

    @property
    def level(self) -> StopLevel:
        """What the robot must obey now."""
        now = time.monotonic()
        return min([self.pressed, *(endpoint.effective_level(now) for endpoint in self.endpoints)])

    def configure(self, endpoints: Sequence[EstopEndpoint]) -> None:
        """Replace the endpoints; until they register and allow, they stop."""
        self.config_id = uuid.uuid4().hex
        self.endpoints = [replace(endpoint, unique_id=uuid.uuid4().hex) for endpoint in endpoints]

    def find(self, unique_id: str) -> EstopEndpoint | None:
        """Return an endpoint by its id."""
        return next((endpoint for endpoint in self.endpoints if endpoint.unique_id == unique_id), None)

    def register(self, place: EstopEndpoint, name: str, timeout: float, cut_timeout: float) -> EstopEndpoint:
        """Put somebody in the place of an endpoint."""
        place.name, place.timeout, place.cut_timeout = name, timeout, cut_timeout
        place.unique_id, place.registered = uuid.uuid4().hex, True
        place.level, place.heard, place.challenge = StopLevel.CUT, time.monotonic(), secrets.randbits(64)
        return place

    def remove(self, endpoint: EstopEndpoint) -> None:
        """Take an endpoint out of the configuration."""
        self.endpoints.remove(endpoint)
        self.config_id = uuid.uuid4().hex

    def check_in(self, endpoint: EstopEndpoint, challenge: int, response: int, level: int) -> bool:
        """Take note of what an endpoint says; return whether its answer to the last challenge was right.

        The right answer is the one's complement. A wrong one changes nothing but the challenge.
        """
        right = challenge == endpoint.challenge and response == challenge ^ _ALL_ONES
        endpoint.challenge = secrets.randbits(64)
        if right and level in tuple(StopLevel):
            endpoint.level, endpoint.heard = StopLevel(level), time.monotonic()
        return right
