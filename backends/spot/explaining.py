"""Errors of the SDK and of gRPC in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adc_wrappers.core.errors import BackendError

from . import sdk

__all__ = ["explained", "in_short"]


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn errors of the SDK and of gRPC into ours."""
    try:
        yield
    except (sdk.SdkError, sdk.WalletError, sdk.grpc.RpcError, ValueError) as error:
        # ValueError: what the SDK's wallet says when it is told that a lease of ours is nobody's now
        raise BackendError(f"{what} failed: {in_short(error)}") from error


def in_short(error: Exception) -> str:
    """Return kind and first line of an error."""
    return f"{type(error).__name__} {error}".strip().split("\n")[0]
