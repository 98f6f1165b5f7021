"""The software E-stop: endpoints that must keep saying that motors may have power."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

__all__ = ["EstopBoard", "EstopEndpoint", "StopLevel"]

_ALL_ONES = (1 << 64) - 1
_SETTLING = 3.5  # seconds between the two timeouts, where an endpoint gives only one


class StopLevel(IntEnum):
    """How hard to stop; the smallest of all endpoints' counts. The numbers are those of ``EstopStopLevel``."""

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
