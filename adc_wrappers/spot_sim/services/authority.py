"""The lease of the body, and the software E-stop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from adc_wrappers.spot_sim.authority import BODY, EstopEndpoint, LeaseVerdict, StopLevel
from adc_wrappers.spot_sim.clock import SECOND
from adc_wrappers.spot_sim.condition import Motors
from adc_wrappers.spot_sim.robot import SimulatedSpot
from adc_wrappers.spot_sim.rpc import Service, Unary
from adc_wrappers.spot_sim.wire import estop_pb2, lease_pb2, nanoseconds, set_time

__all__ = ["estop_service", "lease_service", "use_lease"]


def use_lease(robot: SimulatedSpot, lease: Any, result: Any, *, retain: bool = False) -> bool:
    """Judge the lease that came with a request, write the verdict, and return whether it allows the request."""
    book = robot.leases
    judge = book.retain if retain else book.use
    verdict = judge(lease.resource, lease.epoch, list(lease.sequence))
    result.status = lease_pb2.LeaseUseResult.Status.Value(verdict.name)
    result.attempted_lease.CopyFrom(lease)
    if book.owner is not None:
        result.owner.client_name = book.owner
        result.latest_known_lease.CopyFrom(_lease(robot, book.used))
    return verdict is LeaseVerdict.STATUS_OK


def _lease(robot: SimulatedSpot, sequence: Sequence[int] | None = None) -> Any:
    book = robot.leases
    return lease_pb2.Lease(
        resource=BODY, epoch=book.epoch, sequence=sequence or [book.root], client_names=[book.owner or ""]
    )  # fmt: skip


def lease_service(robot: SimulatedSpot) -> Service:
    """Hand out the lease, take it back, list it."""
    book = robot.leases

    def acquire(request: Any, response: Any) -> None:
        kinds = lease_pb2.AcquireLeaseResponse
        if request.resource != BODY:
            response.status = kinds.STATUS_INVALID_RESOURCE
        elif book.acquire(request.header.client_name):
            response.status = kinds.STATUS_OK
            response.lease.CopyFrom(_lease(robot))
        else:
            response.status = kinds.STATUS_RESOURCE_ALREADY_CLAIMED
        response.lease_owner.client_name = book.owner or ""

    def take(request: Any, response: Any) -> None:
        kinds = lease_pb2.TakeLeaseResponse
        if request.resource != BODY:
            response.status = kinds.STATUS_INVALID_RESOURCE
            return
        robot.lose_lease()
        book.take(request.header.client_name)
        response.status = kinds.STATUS_OK
        response.lease.CopyFrom(_lease(robot))
        response.lease_owner.client_name = book.owner or ""

    def give_back(request: Any, response: Any) -> None:
        kinds = lease_pb2.ReturnLeaseResponse
        if request.lease.resource != BODY:
            response.status = kinds.STATUS_INVALID_RESOURCE
        elif book.give_back(request.lease.epoch, list(request.lease.sequence)):
            robot.lose_lease()
            response.status = kinds.STATUS_OK
        else:
            response.status = kinds.STATUS_NOT_ACTIVE_LEASE

    def retain(request: Any, response: Any) -> None:
        use_lease(robot, request.lease, response.lease_use_result, retain=True)

    def list_leases(request: Any, response: Any) -> None:
        response.resource_tree.resource = BODY
        item = response.resources.add(resource=BODY, is_stale=book.stale)
        if book.owner is not None:
            item.lease.CopyFrom(_lease(robot))
            item.lease_owner.client_name = book.owner

    return Service(
        name="lease", type="bosdyn.api.LeaseService", authority="api.spot.robot",
        methods={
            "AcquireLease": Unary(lease_pb2.AcquireLeaseRequest, lease_pb2.AcquireLeaseResponse, acquire),
            "TakeLease": Unary(lease_pb2.TakeLeaseRequest, lease_pb2.TakeLeaseResponse, take),
            "ReturnLease": Unary(lease_pb2.ReturnLeaseRequest, lease_pb2.ReturnLeaseResponse, give_back),
            "RetainLease": Unary(lease_pb2.RetainLeaseRequest, lease_pb2.RetainLeaseResponse, retain),
            "ListLeases": Unary(lease_pb2.ListLeasesRequest, lease_pb2.ListLeasesResponse, list_leases),
        },
    )  # fmt: skip


def estop_service(robot: SimulatedSpot) -> Service:
    """Let clients configure endpoints, register, check in and look."""
    return Service(
        name="estop", type="bosdyn.api.EstopService", authority="estop.spot.robot", methods=_Methods(robot).table()
    )  # fmt: skip


class _Methods:
    def __init__(self, robot: SimulatedSpot) -> None:
        self._robot = robot
        self._board = robot.estops

    def table(self) -> dict[str, Any]:
        return {
            "GetEstopConfig": Unary(estop_pb2.GetEstopConfigRequest, estop_pb2.GetEstopConfigResponse, self.get_config),
            "SetEstopConfig": Unary(estop_pb2.SetEstopConfigRequest, estop_pb2.SetEstopConfigResponse, self.set_config),
            "RegisterEstopEndpoint": Unary(
                estop_pb2.RegisterEstopEndpointRequest, estop_pb2.RegisterEstopEndpointResponse, self.register
            ),
            "DeregisterEstopEndpoint": Unary(
                estop_pb2.DeregisterEstopEndpointRequest, estop_pb2.DeregisterEstopEndpointResponse, self.deregister
            ),
            "EstopCheckIn": Unary(estop_pb2.EstopCheckInRequest, estop_pb2.EstopCheckInResponse, self.check_in),
            "GetEstopSystemStatus": Unary(
                estop_pb2.GetEstopSystemStatusRequest, estop_pb2.GetEstopSystemStatusResponse, self.get_status
            ),
        }

    def get_config(self, request: Any, response: Any) -> None:
        response.request.CopyFrom(request)
        self._write_config(response.active_config)

    def set_config(self, request: Any, response: Any) -> None:
        kinds = estop_pb2.SetEstopConfigResponse
        response.request.CopyFrom(request)
        if self._robot.motors is not Motors.OFF:
            response.status = kinds.STATUS_MOTORS_ON
        elif request.target_config_id != self._board.config_id:
            response.status = kinds.STATUS_INVALID_ID
        else:
            self._board.configure([_endpoint(item) for item in request.config.endpoints])
            response.status = kinds.STATUS_SUCCESS
        self._write_config(response.active_config)

    def register(self, request: Any, response: Any) -> None:
        kinds = estop_pb2.RegisterEstopEndpointResponse
        response.request.CopyFrom(request)
        wanted, target = request.new_endpoint, request.target_endpoint
        place = self._board.find(target.unique_id) or next(
            (item for item in self._board.endpoints if item.role == target.role), None
        )
        if request.target_config_id != self._board.config_id:
            response.status = kinds.STATUS_CONFIG_MISMATCH
        elif place is None:
            response.status = kinds.STATUS_ENDPOINT_MISMATCH
        elif not wanted.name or nanoseconds(wanted.timeout) <= 0:
            response.status = kinds.STATUS_INVALID_ENDPOINT
        else:
            new = _endpoint(wanted)
            self._board.register(place, new.name, new.timeout, new.cut_timeout)
            _write_endpoint(response.new_endpoint, place)
            response.status = kinds.STATUS_SUCCESS

    def deregister(self, request: Any, response: Any) -> None:
        kinds = estop_pb2.DeregisterEstopEndpointResponse
        response.request.CopyFrom(request)
        place = self._board.find(request.target_endpoint.unique_id)
        if request.target_config_id != self._board.config_id:
            response.status = kinds.STATUS_CONFIG_MISMATCH
        elif self._robot.motors is not Motors.OFF:
            response.status = kinds.STATUS_MOTORS_ON
        elif place is None:
            response.status = kinds.STATUS_ENDPOINT_MISMATCH
        else:
            self._board.remove(place)
            response.status = kinds.STATUS_SUCCESS

    def check_in(self, request: Any, response: Any) -> None:
        kinds = estop_pb2.EstopCheckInResponse
        response.request.CopyFrom(request)
        endpoint = self._board.find(request.endpoint.unique_id)
        if endpoint is None:
            response.status = kinds.STATUS_ENDPOINT_UNKNOWN
            return
        right = self._board.check_in(endpoint, request.challenge, request.response, request.stop_level)
        response.status = kinds.STATUS_OK if right else kinds.STATUS_INCORRECT_CHALLENGE_RESPONSE
        response.challenge = endpoint.challenge
        self._robot.watch()

    def get_status(self, request: Any, response: Any) -> None:
        now = time.monotonic()
        status = response.status
        status.stop_level = int(self._board.level)
        if self._board.pressed is not StopLevel.NONE:
            status.stop_level_details = "an E-stop is pressed"
        for endpoint in self._board.endpoints:
            item = status.endpoints.add(stop_level=int(endpoint.effective_level(now)))
            _write_endpoint(item.endpoint, endpoint)
            set_time(item.time_since_valid_response, round((now - endpoint.heard) * SECOND))

    def _write_config(self, config: Any) -> None:
        config.unique_id = self._board.config_id
        for endpoint in self._board.endpoints:
            _write_endpoint(config.endpoints.add(), endpoint)


def _endpoint(message: Any) -> EstopEndpoint:
    return EstopEndpoint(
        role=message.role, name=message.name, timeout=nanoseconds(message.timeout) / SECOND,
        cut_timeout=nanoseconds(message.cut_power_timeout) / SECOND,
    )  # fmt: skip


def _write_endpoint(message: Any, endpoint: EstopEndpoint) -> None:
    message.role, message.name, message.unique_id = endpoint.role, endpoint.name, endpoint.unique_id
    set_time(message.timeout, round(endpoint.timeout * SECOND))
    if endpoint.cut_timeout:
        set_time(message.cut_power_timeout, round(endpoint.cut_timeout * SECOND))
