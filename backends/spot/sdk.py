"""The one place that imports Boston Dynamics' SDK, and its errors in our words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from adc_wrappers.core.errors import BackendError, MissingExtraError

# gRPC reads it when it is imported. With its own handlers of forks (grpcio 1.85) about one child in twenty of a process
# with open streams aborts. Nothing of a session is a child's (see signals.py), so that they have nothing to do.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

try:
    import bosdyn.client
    import grpc
    from bosdyn.api import basic_command_pb2, estop_pb2, lease_pb2, robot_command_pb2, robot_state_pb2
    from bosdyn.client import robot_command
    from bosdyn.client.estop import EstopClient
    from bosdyn.client.exceptions import Error as SdkError
    from bosdyn.client.exceptions import LeaseUseError, UnauthenticatedError
    from bosdyn.client.frame_helpers import BODY_FRAME_NAME, ODOM_FRAME_NAME, get_a_tform_b
    from bosdyn.client.lease import Error as WalletError
    from bosdyn.client.lease import Lease, LeaseClient, LeaseKeepAlive, LeaseResponseError, ResourceAlreadyClaimedError
    from bosdyn.client.license import LicenseClient
    from bosdyn.client.power import PowerClient
    from bosdyn.client.robot_command import RobotCommandBuilder, RobotCommandClient, RobotCommandStreamingClient
    from bosdyn.client.robot_state import RobotStateClient, RobotStateStreamingClient
except ImportError as error:
    raise MissingExtraError("bosdyn-client", "spot", "Talking to a Spot") from error

__all__ = [
    "BODY_FRAME_NAME",
    "ODOM_FRAME_NAME",
    "EstopClient",
    "Lease",
    "LeaseClient",
    "LeaseKeepAlive",
    "LeaseResponseError",
    "LeaseUseError",
    "LicenseClient",
    "PowerClient",
    "ResourceAlreadyClaimedError",
    "RobotCommandBuilder",
    "RobotCommandClient",
    "RobotCommandStreamingClient",
    "RobotStateClient",
    "RobotStateStreamingClient",
    "SdkError",
    "UnauthenticatedError",
    "WalletError",
    "basic_command_pb2",
    "bosdyn",
    "estop_pb2",
    "explained",
    "get_a_tform_b",
    "grpc",
    "in_short",
    "lease_pb2",
    "robot_command",
    "robot_command_pb2",
    "robot_state_pb2",
]


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn errors of the SDK and of gRPC into ours."""
    try:
        yield
    except (SdkError, WalletError, grpc.RpcError, ValueError) as error:
        # ValueError: what the SDK's wallet says when it is told that a lease of ours is nobody's now
        raise BackendError(f"{what} failed: {in_short(error)}") from error


def in_short(error: Exception) -> str:
    """Return kind and first line of an error."""
    return f"{type(error).__name__} {error}".strip().split("\n")[0]
