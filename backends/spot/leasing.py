"""The lease of the robot's body: taken, kept alive here or by a keeper, asked about, given back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from adc_wrappers.core.errors import BackendError

from . import sdk
from .keeping import Keeper
from .sdk import explained, in_short

__all__ = ["BodyLease"]

RETAIN_PERIOD: Final = 0.5
_BODY: Final = "body"
_TRIES: Final = 3


class BodyLease:
    """The lease of one session.

    Args:
        client: Returns the SDK's lease client.
        patience: Seconds to wait for an answer.
        start_keeper: Starts a keeper that holds the lease for us; None keeps it alive here.
        log_in_again: Called where the robot has voided our token while we keep the lease alive; None leaves that to
            others.
    """

    def __init__(
        self,
        client: Callable[[], Any],
        patience: float,
        start_keeper: Callable[[], Keeper] | None = None,
        log_in_again: Callable[[], None] | None = None,
    ) -> None:
        self._client, self._patience = client, patience
        self._start_keeper, self._log_in_again = start_keeper, log_in_again
        self._alive: Any = None
        self._lock = threading.RLock()
        self.keeper: Keeper | None = None
        """The process that holds the lease for us."""

    @property
    def taken(self) -> bool:
        """Whether we have taken the lease, whatever became of it."""
        return self._alive is not None or self.keeper is not None

    def take(self) -> None:
        """Take the lease, if nobody has it.

        Raises:
            BackendError: Somebody has it, or a keeper cannot be started.
        """
        if self.keeper_problem() is not None:
            self.give_back()
        if self.taken:
            return
        if self._start_keeper is None:
            self._keep_alive()
            return
        self.keeper = self._start_keeper()
        lease = sdk.lease_pb2.Lease.FromString(self.keeper.lease)
        self._client().lease_wallet.add(sdk.Lease(lease))

    def _keep_alive(self) -> None:
        """Keep the lease alive from here, and take it if the wallet has none."""
        with explained("taking the lease"):
            try:
                self._alive = sdk.LeaseKeepAlive(
                    self._client(), must_acquire=True, return_at_exit=True, warnings=False,
                    rpc_interval_seconds=RETAIN_PERIOD, on_failure_callback=self._on_failure,
                )  # fmt: skip
            except sdk.ResourceAlreadyClaimedError as error:
                raise BackendError(
                    "somebody else has the robot's lease, and it is not taken from them. Release it there (tablet "
                    "or other program) and try again."
                ) from error

    def _on_failure(self, error: Exception) -> None:
        if self._log_in_again is not None and isinstance(error, sdk.UnauthenticatedError):
            with suppress(BackendError):
                self._log_in_again()

    def hand_over(self) -> bytes:
        """Return a part of the lease for another client; our own next use outdates it."""
        with explained("handing over the lease"):
            lease: bytes = self._client().lease_wallet.advance(_BODY).lease_proto.SerializeToString()
        return lease

    def keeper_problem(self) -> str | None:
        """Return why the keeper does not look after the robot any more; from then on we keep the lease alive."""
        with self._lock:
            keeper = self.keeper
            problem = None if keeper is None else keeper.problem()
            if keeper is not None and problem is not None and keeper.took_over is None and self._alive is None:
                with suppress(BackendError):
                    self._keep_alive()
            return problem

    def confirm(self) -> str | None:
        """Ask the robot whether the lease is ours; returns why not.

        Raises:
            BackendError: It does not say: a robot that cannot be reached has not given our lease to anybody.
        """
        if not self.taken:
            return "the lease was never taken"
        client = self._client()
        reason = ""
        with explained("asking about the lease"):
            for _ in range(_TRIES):
                try:
                    lease = client.lease_wallet.get_lease(_BODY)
                    client.retain_lease(lease, timeout=self._patience)
                    return None
                except sdk.LeaseUseError as error:
                    reason = in_short(error)
                    if not self._used_since(lease):
                        return reason
                except (sdk.LeaseResponseError, sdk.WalletError) as error:
                    return in_short(error)
        return reason

    def _used_since(self, lease: Any) -> bool:
        """Whether another thread has used the lease since: then the one we asked about was an older part of it."""
        try:
            return self._client().lease_wallet.get_lease(_BODY) is not lease
        except sdk.WalletError:
            return False

    def take_back(self) -> str | None:
        """Take a lost lease again if nobody has it; returns who has it, None if it is ours.

        Raises:
            BackendError: The robot does not say.
        """
        with explained("asking for the owner of the lease"):
            try:
                self._client().acquire(_BODY, timeout=self._patience)
            except sdk.ResourceAlreadyClaimedError as error:
                return str(error.response.lease_owner.client_name) or "somebody else"
        with self._lock:
            if self._alive is None:
                self._keep_alive()
        return None

    def await_keeper(self) -> bool:
        """Wait for a keeper that has taken the robot from us to be done with it; returns whether one has."""
        if self.keeper is None or self.keeper.took_over is None:
            return False
        self.keeper.await_end()
        return True

    def let_go(self) -> None:
        """Forget the keeper in a forked child, so that it hears when the process that it keeps ends."""
        if self.keeper is not None:
            self.keeper.let_go()

    def give_back(self) -> None:
        """Return the lease, and end the keeper."""
        with self._lock:
            keeper, self.keeper = self.keeper, None
            if keeper is not None and keeper.finish() is None and self._alive is None:
                with suppress(BackendError):  # it is gone and has not returned the lease, so we do
                    self._keep_alive()
            alive, self._alive = self._alive, None
            if alive is not None:
                alive.shutdown()
            elif keeper is not None:
                with suppress(sdk.WalletError):
                    wallet = self._client().lease_wallet
                    wallet.remove(wallet.get_lease(_BODY))
