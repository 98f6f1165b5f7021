"""The one place where gRPC and Boston Dynamics' messages are imported."""

from __future__ import annotations

import os

from adc_wrappers.core.errors import MissingExtraError

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # before gRPC's import; why is said in backends/spot/sdk.py

try:
    import grpc
    from bosdyn.api import (
        auth_pb2,
        basic_command_pb2,
        directory_pb2,
        estop_pb2,
        full_body_command_pb2,
        geometry_pb2,
        header_pb2,
        lease_pb2,
        license_pb2,
        power_pb2,
        robot_command_pb2,
        robot_id_pb2,
        robot_state_pb2,
        time_sync_pb2,
    )
    from google.protobuf import duration_pb2, timestamp_pb2
except ImportError as error:
    raise MissingExtraError("bosdyn-client", "spot-sim", "The practice robot") from error

__all__ = [
    "auth_pb2",
    "basic_command_pb2",
    "directory_pb2",
    "estop_pb2",
    "full_body_command_pb2",
    "geometry_pb2",
    "grpc",
    "header_pb2",
    "lease_pb2",
    "license_pb2",
    "nanoseconds",
    "power_pb2",
    "robot_command_pb2",
    "robot_id_pb2",
    "robot_state_pb2",
    "set_time",
    "time_sync_pb2",
    "timestamp",
    "timestamp_pb2",
]

_SECOND = 1_000_000_000


def set_time(message: timestamp_pb2.Timestamp | duration_pb2.Duration, value: int) -> None:
    """Write nanoseconds into a timestamp or a duration, whose two parts have the same sign."""
    seconds, rest = divmod(abs(value), _SECOND)
    sign = 1 if value >= 0 else -1
    message.seconds, message.nanos = sign * seconds, sign * rest


def timestamp(value: int) -> timestamp_pb2.Timestamp:
    """Return nanoseconds as a timestamp."""
    return timestamp_pb2.Timestamp(seconds=value // _SECOND, nanos=value % _SECOND)


def nanoseconds(message: timestamp_pb2.Timestamp | duration_pb2.Duration) -> int:
    """Return a timestamp or duration in nanoseconds."""
    return int(message.seconds) * _SECOND + int(message.nanos)
