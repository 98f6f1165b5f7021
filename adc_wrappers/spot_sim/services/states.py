"""The state on request, and the two streams: states out, joint commands in.

They share their authorities with the services on request, and so the connection that a client has already: a first
command that had to wait for a handshake would expire on its way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from adc_wrappers.core.errors import BackendError
from adc_wrappers.spot_sim.joint_mode import CommandStream, StreamStatus
from adc_wrappers.spot_sim.messages import InvalidRequest, read_command, streamed_state, whole_state
from adc_wrappers.spot_sim.robot import SimulatedSpot
from adc_wrappers.spot_sim.rpc import Service, StreamIn, StreamOut, Unary
from adc_wrappers.spot_sim.wire import grpc, header_pb2, robot_command_pb2, robot_state_pb2, timestamp

__all__ = ["command_stream_service", "state_service", "state_stream_service"]


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


_NO_LICENCE = "joint level control is not licensed on this robot"


def state_stream_service(robot: SimulatedSpot) -> Service:
    """Send states as they are measured."""

    def stream(request: Any, context: Any) -> Iterator[Any]:
        with robot.lock:
            if not robot.licensed:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, _NO_LICENCE)
            subscription = robot.link.open()
            if not context.add_callback(lambda: subscription.put(None)):
                subscription.put(None)  # the client has gone already
            if robot.settings.lockstep:
                subscription.put(streamed_state(robot, robot.physics.reading))
        try:
            while (frame := subscription.get()) is not None:
                yield frame
            if subscription.cut:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the state stream broke off")
        finally:
            with robot.lock:
                robot.link.close(subscription)

    return Service(
        name="robot-state-streaming", type="bosdyn.api.RobotStateStreamingService",
        authority="state.spot.robot",
        methods={"GetRobotStateStream": StreamOut(robot_state_pb2.RobotStateStreamRequest, stream)},
    )  # fmt: skip


def command_stream_service(robot: SimulatedSpot) -> Service:
    """Take joint commands, and answer once when the stream is over."""

    def stream(requests: Iterator[Any], context: Any) -> Any:
        commands = CommandStream()
        with robot.lock:
            if not robot.licensed:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, _NO_LICENCE)
            if not robot.joint_mode.open(commands):
                commands.end(StreamStatus.STATUS_INVALID_REQUEST, "another command stream is open")
        if not context.add_callback(commands.break_off):
            commands.break_off()  # the client has gone already
        reader = threading.Thread(target=_read, args=(robot, commands, requests), daemon=True, name="joint commands")
        reader.start()
        commands.wait()
        with robot.lock:
            robot.joint_mode.close(commands)
        if commands.cut:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the command stream broke off")
        return _response(robot, commands)

    return Service(
        name="robot-command-streaming", type="bosdyn.api.RobotCommandStreamingService",
        authority="command.spot.robot",
        methods={"JointControlStream": StreamIn(robot_command_pb2.JointControlStreamRequest, stream)},
    )  # fmt: skip


def _read(robot: SimulatedSpot, stream: CommandStream, requests: Iterator[Any]) -> None:
    """Carry out commands as they come, until the client or the robot ends the stream."""
    checked: tuple[bytes, bytes] | None = None
    try:
        for request in requests:
            with robot.lock:
                if stream.ended:
                    return
                command = read_command(request, stream, robot)
                gains = (command.order.stiffness.tobytes(), command.order.damping.tobytes())
                if gains != checked:
                    robot.physics.check(command.order)
                    checked = gains
                robot.joint_mode.accept(stream, command)
    except (InvalidRequest, BackendError) as error:
        with robot.lock:
            robot.joint_mode.refuse(stream, StreamStatus.STATUS_INVALID_REQUEST, str(error))
    except grpc.RpcError:
        stream.break_off()
    else:
        stream.end(StreamStatus.STATUS_OK)


def _response(robot: SimulatedSpot, stream: CommandStream) -> Any:
    response = robot_command_pb2.JointControlStreamResponse(message=stream.message)
    response.status = robot_command_pb2.JointControlStreamResponse.Status.Value(stream.status.name)
    response.header.error.code = header_pb2.CommonError.CODE_OK
    response.header.response_timestamp.CopyFrom(timestamp(robot.clock.now()))
    return response
