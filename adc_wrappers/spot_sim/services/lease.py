"""The lease of the body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adc_wrappers.spot_sim.leases import BODY, LeaseVerdict
from adc_wrappers.spot_sim.robot import SimulatedSpot
from adc_wrappers.spot_sim.rpc import Service, Unary
from adc_wrappers.spot_sim.wire import lease_pb2

__all__ = ["lease_service", "use_lease"]


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
