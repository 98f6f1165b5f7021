"""Who may command the robot: one lease, on the body, and the order of its uses."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from enum import Enum

__all__ = ["BODY", "LeaseBook", "LeaseVerdict"]

BODY = "body"


class LeaseVerdict(Enum):
    """What the robot thinks of a lease; the names are those of ``LeaseUseResult``."""

    STATUS_OK = 1
    STATUS_INVALID_LEASE = 2
    STATUS_OLDER = 3
    STATUS_REVOKED = 4
    STATUS_UNMANAGED = 5
    STATUS_WRONG_EPOCH = 6


class LeaseBook:
    """Hands out the lease of the body and judges its use.

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
