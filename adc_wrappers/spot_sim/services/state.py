"""The state on request."""

from __future__ import annotations

from typing import Any

from adc_wrappers.spot_sim.messages import whole_state
from adc_wrappers.spot_sim.robot import SimulatedSpot
from adc_wrappers.spot_sim.rpc import Service, Unary
from adc_wrappers.spot_sim.wire import robot_state_pb2, timestamp

__all__ = ["state_service"]


def state_service(robot: SimulatedSpot) -> Service:
    """Answer with state, metrics and hardware."""

    def get_state(request: Any, response: Any) -> None:
        robot.watch()
        robot.settle()
        response.robot_state.CopyFrom(whole_state(robot))

    def get_metrics(request: Any, response: Any) -> None:
        response.robot_metrics.timestamp.CopyFrom(timestamp(robot.clock.now()))

    def get_hardware(request: Any, response: Any) -> None:
        response.hardware_configuration.can_power_command_request_off_robot = False

    return Service(
        name="robot-state", type="bosdyn.api.RobotStateService", authority="state.spot.robot",
        methods={
            "GetRobotState": Unary(robot_state_pb2.RobotStateRequest, robot_state_pb2.RobotStateResponse, get_state),
            "GetRobotMetrics": Unary(
                robot_state_pb2.RobotMetricsRequest, robot_state_pb2.RobotMetricsResponse, get_metrics
            ),
            "GetRobotHardwareConfiguration": Unary(
                robot_state_pb2.RobotHardwareConfigurationRequest, robot_state_pb2.RobotHardwareConfigurationResponse,
                get_hardware,
            ),
        },
    )  # fmt: skip
