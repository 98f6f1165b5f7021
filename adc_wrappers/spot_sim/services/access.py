"""Access services: who the robot is, who may log in, what services there are, what is licensed, what time it is."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Sequence
from typing import Any

from adc_wrappers.spot_sim.robot import SimulatedSpot
from adc_wrappers.spot_sim.rpc import Service, Unary
from adc_wrappers.spot_sim.wire import (
    auth_pb2,
    directory_pb2,
    header_pb2,
    license_pb2,
    nanoseconds,
    robot_id_pb2,
    set_time,
    time_sync_pb2,
    timestamp,
)

__all__ = [
    "JOINT_LICENCE",
    "SERIAL",
    "auth_service",
    "directory_service",
    "identity_service",
    "licence_service",
    "time_service",
]


SERIAL = "spot-PRACTICE-00000000"
JOINT_LICENCE = "joint_level_control"
"""The licensed feature, as users found it on their robot."""

_RELEASE = (5, 1, 4)


def identity_service() -> Service:
    """Say who the robot is."""

    def get_id(request: Any, response: Any) -> None:
        identity = response.robot_id
        identity.serial_number, identity.species, identity.version = SERIAL, "spot", "V3"
        identity.nickname, identity.computer_serial_number = "practice", "practice"
        release = identity.software_release
        release.version.major_version, release.version.minor_version, release.version.patch_level = _RELEASE
        release.name = release.api_version = ".".join(map(str, _RELEASE))

    return Service(
        name="robot-id", type="bosdyn.api.RobotIdService", authority="id.spot.robot", public=True,
        methods={"GetRobotId": Unary(robot_id_pb2.RobotIdRequest, robot_id_pb2.RobotIdResponse, get_id)},
    )  # fmt: skip


def auth_service(robot: SimulatedSpot) -> Service:
    """Hand out tokens for a login or an older token."""

    def get_token(request: Any, response: Any) -> None:
        kinds = auth_pb2.GetAuthTokenResponse
        if request.token:
            token, refusal = robot.accounts.renew(request.token), kinds.STATUS_INVALID_TOKEN
        else:
            token, refusal = robot.accounts.log_in(request.username, request.password), kinds.STATUS_INVALID_LOGIN
        response.status = refusal if token is None else kinds.STATUS_OK
        response.token = token or ""

    return Service(
        name="auth", type="bosdyn.api.AuthService", authority="auth.spot.robot", public=True,
        methods={"GetAuthToken": Unary(auth_pb2.GetAuthTokenRequest, auth_pb2.GetAuthTokenResponse, get_token)},
    )  # fmt: skip


def directory_service(services: Sequence[Service], robot: SimulatedSpot) -> Service:
    """List every service, itself included."""
    name, kind, authority = "directory", "bosdyn.api.DirectoryService", "api.spot.robot"
    entries = {
        entry[0]: directory_pb2.ServiceEntry(
            name=entry[0], type=entry[1], authority=entry[2], user_token_required=not entry[3],
            last_update=timestamp(robot.clock.now()),
        )
        for entry in [*((s.name, s.type, s.authority, s.public) for s in services), (name, kind, authority, False)]
    }  # fmt: skip

    def list_entries(request: Any, response: Any) -> None:
        response.service_entries.extend(entries.values())

    def get_entry(request: Any, response: Any) -> None:
        entry = entries.get(request.service_name)
        if entry is None:
            response.status = directory_pb2.GetServiceEntryResponse.STATUS_NONEXISTENT_SERVICE
        else:
            response.status = directory_pb2.GetServiceEntryResponse.STATUS_OK
            response.service_entry.CopyFrom(entry)

    return Service(
        name=name, type=kind, authority=authority,
        methods={
            "ListServiceEntries": Unary(
                directory_pb2.ListServiceEntriesRequest, directory_pb2.ListServiceEntriesResponse, list_entries
            ),
            "GetServiceEntry": Unary(
                directory_pb2.GetServiceEntryRequest, directory_pb2.GetServiceEntryResponse, get_entry
            ),
        },
    )  # fmt: skip


def licence_service(robot: SimulatedSpot) -> Service:
    """Say what is licensed: joint control, unless that fault was injected."""

    def get_info(request: Any, response: Any) -> None:
        response.license.status = license_pb2.LicenseInfo.STATUS_VALID
        response.license.id, response.license.robot_serial = "practice", SERIAL
        response.license.licensed_features.extend([JOINT_LICENCE] if robot.licensed else [])

    def get_enabled(request: Any, response: Any) -> None:
        for code in request.feature_codes:
            response.feature_enabled[code] = code == JOINT_LICENCE and robot.licensed

    return Service(
        name="license", type="bosdyn.api.LicenseService", authority="license.spot.robot",
        methods={
            "GetLicenseInfo": Unary(license_pb2.GetLicenseInfoRequest, license_pb2.GetLicenseInfoResponse, get_info),
            "GetFeatureEnabled": Unary(
                license_pb2.GetFeatureEnabledRequest, license_pb2.GetFeatureEnabledResponse, get_enabled
            ),
        },
    )  # fmt: skip


_ENOUGH = 3
_KEPT = 8


def time_service(robot: SimulatedSpot) -> Service:
    """Estimate clock skews; the best of the last few round trips counts."""
    trips: dict[str, deque[tuple[int, int]]] = {}

    def update(request: Any, response: Any) -> None:
        identifier = request.clock_identifier or uuid.uuid4().hex
        response.clock_identifier = identifier
        samples = trips.setdefault(identifier, deque(maxlen=_KEPT))
        if request.HasField("previous_round_trip"):
            if not request.clock_identifier:
                response.header.error.code = header_pb2.CommonError.CODE_INVALID_REQUEST
                response.header.error.message = "a round trip needs the clock_identifier it belongs to"
                return
            samples.append(_sample(request.previous_round_trip))
            _set_estimate(response.previous_estimate, samples[-1])
        if samples:
            _set_estimate(response.state.best_estimate, min(samples))
        enough = len(samples) >= _ENOUGH
        kinds = time_sync_pb2.TimeSyncState
        response.state.status = kinds.STATUS_OK if enough else kinds.STATUS_MORE_SAMPLES_NEEDED
        response.state.measurement_time.CopyFrom(timestamp(robot.clock.now()))

    method = Unary(time_sync_pb2.TimeSyncUpdateRequest, time_sync_pb2.TimeSyncUpdateResponse, update)
    return Service(
        name="time-sync", type="bosdyn.api.TimeSyncService", authority="timesync.spot.robot",
        methods={"TimeSyncUpdate": method},
    )  # fmt: skip


def _sample(trip: Any) -> tuple[int, int]:
    """Return round trip time and skew of one exchange, ns."""
    sent, reached = nanoseconds(trip.client_tx), nanoseconds(trip.server_rx)
    answered, returned = nanoseconds(trip.server_tx), nanoseconds(trip.client_rx)
    return (returned - sent) - (answered - reached), ((reached - sent) + (answered - returned)) // 2


def _set_estimate(message: Any, sample: tuple[int, int]) -> None:
    set_time(message.round_trip_time, max(sample[0], 0))
    set_time(message.clock_skew, sample[1])
