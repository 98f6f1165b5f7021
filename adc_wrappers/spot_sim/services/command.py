"""Motor power, and commands: stand, sit, joint control, self-right, safe power off, clearing faults."""

from __future__ import annotations

from typing import Any

from adc_wrappers.spot_sim.authority import StopLevel
from adc_wrappers.spot_sim.condition import Mode, Motors
from adc_wrappers.spot_sim.robot import SimulatedSpot
from adc_wrappers.spot_sim.rpc import Service, Unary
from adc_wrappers.spot_sim.wire import basic_command_pb2, power_pb2, robot_command_pb2

from .authority import use_lease

__all__ = ["command_service", "power_service"]


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


_Response = robot_command_pb2.RobotCommandResponse
_STATUS = basic_command_pb2.RobotCommandFeedbackStatus
_JOINT = basic_command_pb2.JointCommand.Feedback
_MOBILITY = {"stand_request": "stand", "sit_request": "sit", "stop_request": "freeze"}
_FULL_BODY = {
    "stop_request": "freeze",
    "freeze_request": "freeze",
    "selfright_request": "self_right",
    "safe_power_off_request": "power_off_safely",
    "joint_request": "enter_joint_mode",
}


def command_service(robot: SimulatedSpot) -> Service:
    """Carry out commands and say how far they are."""
    methods = _Methods(robot)
    return Service(
        name="robot-command", type="bosdyn.api.RobotCommandService", authority="command.spot.robot",
        methods={
            "RobotCommand": Unary(robot_command_pb2.RobotCommandRequest, _Response, methods.command),
            "RobotCommandFeedback": Unary(
                robot_command_pb2.RobotCommandFeedbackRequest, robot_command_pb2.RobotCommandFeedbackResponse,
                methods.feedback,
            ),
            "ClearBehaviorFault": Unary(
                robot_command_pb2.ClearBehaviorFaultRequest, robot_command_pb2.ClearBehaviorFaultResponse,
                methods.clear_fault,
            ),
        },
    )  # fmt: skip


class _Methods:
    def __init__(self, robot: SimulatedSpot) -> None:
        self._robot = robot
        self._asked: dict[int, tuple[str, Any]] = {}  # number: what, and the motion it began

    def command(self, request: Any, response: Any) -> None:
        robot = self._robot
        if not use_lease(robot, request.lease, response.lease_use_result):
            response.status = _Response.STATUS_UNKNOWN
            return
        action = _wanted(request.command)
        status, message = self._obstacle(action)
        if status == _Response.STATUS_OK and action is not None:
            getattr(robot, action)()
            number = len(self._asked) + 1
            self._asked[number] = (action, robot.motion)
            response.robot_command_id = number
        response.status, response.message = status, message

    def _obstacle(self, action: str | None) -> tuple[int, str]:
        """Return why a command cannot be carried out, or STATUS_OK."""
        robot = self._robot
        if action is None:
            return (
                _Response.STATUS_UNSUPPORTED,
                "the practice robot stands, sits, self-rights and follows joint commands",
            )
        if action == "power_off_safely":
            return _Response.STATUS_OK, ""
        if robot.motors is not Motors.ON or robot.estops.level is not StopLevel.NONE:
            return _Response.STATUS_NOT_POWERED_ON, "motors have no power, or an E-stop takes it away"
        if robot.faults:
            return _Response.STATUS_BEHAVIOR_FAULT, "clear the behavior fault first"
        if action == "enter_joint_mode" and not robot.licensed:
            return _Response.STATUS_UNSUPPORTED, "joint control is not licensed"
        return _Response.STATUS_OK, ""

    def feedback(self, request: Any, response: Any) -> None:
        robot = self._robot
        robot.watch()
        robot.settle()
        action, motion = self._asked.get(request.robot_command_id, ("", None))
        overridden = motion is not robot.motion and action not in ("enter_joint_mode", "power_off_safely", "self_right")
        status = _STATUS.STATUS_COMMAND_OVERRIDDEN if overridden else _STATUS.STATUS_PROCESSING
        feedback = response.feedback
        if action in ("stand", "sit"):
            self._add_posture(feedback.synchronized_feedback.mobility_command_feedback, action, status)
            return
        body = feedback.full_body_feedback
        body.status = status
        if action == "enter_joint_mode":
            active = robot.mode is Mode.JOINT
            body.joint_feedback.status = _JOINT.STATUS_ACTIVE if active else _JOINT.STATUS_ERROR
            stream = robot.joint_mode.stream
            body.joint_feedback.num_messages_received = 0 if stream is None else stream.received
        elif action == "power_off_safely":
            kinds = basic_command_pb2.SafePowerOffCommand.Feedback
            off = robot.motors is Motors.OFF
            body.safe_power_off_feedback.status = kinds.STATUS_POWERED_OFF if off else kinds.STATUS_IN_PROGRESS
        elif action == "self_right":
            righting = basic_command_pb2.SelfRightCommand.Feedback
            done = robot.settled
            body.selfright_feedback.status = righting.STATUS_COMPLETED if done else righting.STATUS_IN_PROGRESS
        elif action == "freeze":
            body.freeze_feedback.SetInParent()

    def _add_posture(self, feedback: Any, action: str, status: int) -> None:
        feedback.status = status
        reached = self._robot.settled and status == _STATUS.STATUS_PROCESSING
        if action == "stand":
            stand = basic_command_pb2.StandCommand.Feedback
            feedback.stand_feedback.status = stand.STATUS_IS_STANDING if reached else stand.STATUS_IN_PROGRESS
            feedback.stand_feedback.standing_state = stand.STANDING_CONTROLLED
        else:
            sit = basic_command_pb2.SitCommand.Feedback
            feedback.sit_feedback.status = sit.STATUS_IS_SITTING if reached else sit.STATUS_IN_PROGRESS

    def clear_fault(self, request: Any, response: Any) -> None:
        kinds = robot_command_pb2.ClearBehaviorFaultResponse
        if not use_lease(self._robot, request.lease, response.lease_use_result):
            return
        cleared = self._robot.clear_fault(request.behavior_fault_id) is not None
        response.status = kinds.STATUS_CLEARED if cleared else kinds.STATUS_NOT_CLEARED


def _wanted(command: Any) -> str | None:
    """Return the robot's method that carries out a command, or None if it has none."""
    if command.WhichOneof("command") == "full_body_command":
        return _FULL_BODY.get(command.full_body_command.WhichOneof("command") or "")
    if command.WhichOneof("command") == "synchronized_command":
        parts = command.synchronized_command
        if parts.HasField("mobility_command") and not (
            parts.HasField("arm_command") or parts.HasField("gripper_command")
        ):
            return _MOBILITY.get(parts.mobility_command.WhichOneof("command") or "")
    return None
