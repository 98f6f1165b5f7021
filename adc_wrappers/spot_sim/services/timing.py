"""Time synchronization: the client reports its last round trip, the robot works out the skew of the clocks."""

from __future__ import annotations

import uuid
from collections import deque
from typing import Any

from adc_wrappers.spot_sim.robot import SimulatedSpot
from adc_wrappers.spot_sim.rpc import Service, Unary
from adc_wrappers.spot_sim.wire import header_pb2, nanoseconds, set_time, time_sync_pb2, timestamp

__all__ = ["time_service"]

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
