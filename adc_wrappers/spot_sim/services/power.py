"""Motor power."""

from __future__ import annotations

from typing import Any

from adc_wrappers.spot_sim.estops import StopLevel
from adc_wrappers.spot_sim.modes import Motors
from adc_wrappers.spot_sim.robot import SimulatedSpot
from adc_wrappers.spot_sim.rpc import Service, Unary
from adc_wrappers.spot_sim.wire import power_pb2

from .lease import use_lease

__all__ = ["power_service"]


def power_service(robot: SimulatedSpot) -> Service:
    """Switch motors on and off, and say how far that is."""
    wanted: dict[int, Motors] = {}

    def command(request: Any, response: Any) -> None:
        if not use_lease(robot, request.lease, response.lease_use_result):
            return
        on, off = power_pb2.PowerCommandRequest.REQUEST_ON_MOTORS, power_pb2.PowerCommandRequest.REQUEST_OFF_MOTORS
        if request.request not in (on, off):
            response.status = power_pb2.STATUS_INTERNAL_ERROR
            return
        if request.request == on and robot.estops.level is not StopLevel.NONE:
            response.status = power_pb2.STATUS_ESTOPPED
            return
        if request.request == on:
            robot.power_on()
        else:
            robot.cut_power()
        number = len(wanted) + 1
        wanted[number] = Motors.ON if request.request == on else Motors.OFF
        response.power_command_id = number
        response.status = status(number)

    def status(number: int) -> int:
        if number not in wanted:
            return int(power_pb2.STATUS_UNKNOWN)
        if number < len(wanted) and wanted[len(wanted)] is not wanted[number]:
            return int(power_pb2.STATUS_OVERRIDDEN)
        if robot.motors is wanted[number]:
            return int(power_pb2.STATUS_SUCCESS)
        if robot.motors is Motors.POWERING_ON:
            return int(power_pb2.STATUS_IN_PROGRESS)
        stopped = robot.estops.level is not StopLevel.NONE
        return int(power_pb2.STATUS_ESTOPPED if stopped else power_pb2.STATUS_OVERRIDDEN)

    def feedback(request: Any, response: Any) -> None:
        robot.watch()
        robot.settle()
        response.status = status(request.power_command_id)

    return Service(
        name="power", type="bosdyn.api.PowerService", authority="power.spot.robot",
        methods={
            "PowerCommand": Unary(power_pb2.PowerCommandRequest, power_pb2.PowerCommandResponse, command),
            "PowerCommandFeedback": Unary(
                power_pb2.PowerCommandFeedbackRequest, power_pb2.PowerCommandFeedbackResponse, feedback
            ),
        },
    )  # fmt: skip
