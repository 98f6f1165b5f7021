"""A client of the practice robot, made of the unmodified SDK."""

from __future__ import annotations

import queue
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import bosdyn.client
import grpc
import numpy as np
from bosdyn.api import robot_command_pb2, robot_state_pb2
from bosdyn.client.lease import LeaseClient, LeaseKeepAlive
from bosdyn.client.robot_command import (
    RobotCommandBuilder,
    RobotCommandClient,
    RobotCommandStreamingClient,
    blocking_stand,
)
from bosdyn.client.robot_state import RobotStateStreamingClient
from bosdyn.util import set_timestamp_from_now, set_timestamp_from_nsec, timestamp_to_nsec, timestamp_to_sec

from adc_wrappers.backends.spot.proof import write_key
from adc_wrappers.backends.spot_model import NOMINAL_POSE
from adc_wrappers.spot_sim.child import describe
from adc_wrappers.spot_sim.server import PracticeServer
from adc_wrappers.spot_sim.settings import PracticeSettings

PASSWORD = "for tests only"
TTL = 0.2
OK, INVALID, INACTIVE, EXPIRED, TOO_DISTANT = 1, 2, 3, 4, 5


class LocalRobot:
    """A practice robot in this process, with the attributes of ``PracticeRobot``."""

    hostname = "127.0.0.1"
    password = PASSWORD

    def __init__(self, folder: Path, **settings):
        self.server = PracticeServer(PracticeSettings.make(settings), PASSWORD)
        self.settings = self.server.robot.settings
        self.username, self.port = self.settings.username, self.server.port
        self.certificate = folder / "ca.pem"
        self.certificate.write_bytes(self.server.authority)
        write_key(folder, self.server.key)

    def inject(self, name, after=0.0, **parameters):
        with self.server.robot.lock:
            self.server.faults.inject(name, parameters, after)

    def status(self):
        with self.server.robot.lock:
            return describe(self.server.robot)

    def place(self, start):
        with self.server.robot.lock:
            self.server.robot.place(start)

    def pass_time(self, steps):
        """In lockstep, simulate so many steps now: a robot at rest would take as long for them by the wall's time."""
        for _ in range(steps if self.settings.lockstep else 0):
            with self.server.robot.lock:
                self.server.robot.advance()

    def close(self):
        self.server.close()


def connect(target, name="tester", login=True):
    """Return the SDK's robot; only its certificate and port are ours."""
    clients = [RobotCommandStreamingClient, RobotStateStreamingClient]
    sdk = bosdyn.client.create_standard_sdk(name, service_clients=clients, cert_resource_glob=str(target.certificate))
    robot = sdk.create_robot(target.hostname)
    robot.update_secure_channel_port(target.port)
    if login:
        robot.authenticate(target.username, target.password)
    return robot


class Client:
    """One operator: logs in, takes the lease, stands the robot up, and drives it in lockstep."""

    def __init__(self, target, name="tester"):
        self.target = target
        self.robot = connect(target, name)
        self.exits = ExitStack()
        self.exits.enter_context(self.robot)  # ends the SDK's own threads
        self.robot.time_sync.wait_for_sync(timeout_sec=60)
        self.exits.callback(self.robot.time_sync.stop)
        self.commands = self.robot.ensure_client(RobotCommandClient.default_service_name)
        self.stream = None
        self.states: queue.Queue = queue.Queue()
        self.state = None
        self.key = 0

    def lease(self):
        leases = self.robot.ensure_client(LeaseClient.default_service_name)
        self.exits.enter_context(LeaseKeepAlive(leases, must_acquire=True, return_at_exit=True))
        return self

    def stand(self):
        self.lease()
        self.robot.power_on(timeout_sec=60, update_frequency=20)
        blocking_stand(self.commands, timeout_sec=60, update_frequency=20)
        return self

    def read_states(self):
        """Open the state stream; ``states`` fills up, and None says that it is over."""
        client = self.robot.ensure_client(RobotStateStreamingClient.default_service_name)
        self.state_call = client._stub.GetRobotStateStream(robot_state_pb2.RobotStateStreamRequest())

        def read():
            try:
                for state in self.state_call:
                    self.states.put(state)
            except grpc.RpcError as error:
                self.state_error = error.code()
            self.states.put(None)

        self.reader = threading.Thread(target=read)
        self.reader.start()
        self.exits.callback(self.reader.join)
        self.exits.callback(self.state_call.cancel)
        self.state = self.states.get()
        return self

    def open_commands(self):
        client = self.robot.ensure_client(RobotCommandStreamingClient.default_service_name)
        self.outgoing: queue.SimpleQueue = queue.SimpleQueue()
        self.stream = client._stub.JointControlStream.future(iter(self.outgoing.get, None))
        self.exits.callback(lambda: self.outgoing.put(None))
        return self

    def activate(self):
        self.joint_id = self.commands.robot_command(RobotCommandBuilder.joint_command())
        self.catch_up()
        return self

    def catch_up(self, patience=5.0):
        """In lockstep time stands still now, but states may be under way: wait for the one of the present."""
        end = time.monotonic() + patience
        while self.target.settings.lockstep and time.monotonic() < end and (state := self.newest()) is not None:
            if self.target.status()["clock"] - timestamp_to_sec(state.joint_states.acquisition_timestamp) < 0.001:
                return
            time.sleep(0.01)

    def drive(self):
        """Everything up to the first joint command."""
        self.stand().read_states().open_commands().activate()
        return self

    def newest(self):
        while not self.states.empty():
            self.state = self.states.get()
        return self.state

    def mean_acceleration(self):
        """What the IMU feels over the next 333 states, on average: the robot sways for a while after it stood up."""
        self.target.pass_time(333)
        felt = [self.states.get().inertial_state.packets[0].acceleration_rt_odom_in_link_frame for _ in range(333)]
        return np.mean([[packet.x, packet.y, packet.z] for packet in felt], axis=0)

    def message(self, position=NOMINAL_POSE, ttl=TTL, stiffness=60.0, damping=2.0, joints=12, **extra):
        self.key += 1
        request = robot_command_pb2.JointControlStreamRequest()
        request.header.client_name = "tester"
        set_timestamp_from_now(request.header.request_timestamp)
        command = request.joint_command
        command.position.extend(position)
        command.velocity.extend([0.0] * joints)
        command.load.extend([0.0] * joints)
        command.gains.k_q_p.extend(np.broadcast_to(stiffness, joints).tolist())
        command.gains.k_qd_p.extend(np.broadcast_to(damping, joints).tolist())
        command.user_command_key = self.key
        stamp = timestamp_to_nsec(self.newest().joint_states.acquisition_timestamp)
        set_timestamp_from_nsec(command.end_time, stamp + round(ttl * 1e9))
        if "speed_limit" in extra:
            command.velocity_safety_limit.value = extra["speed_limit"]
        return request

    def send(self, request):
        self.outgoing.put(request)

    def step(self, position=NOMINAL_POSE, **options):
        """Send a command and wait for the state that answers it, or for the end of a stream: then None."""
        self.send(self.message(position, **options))
        while True:
            state = self.states.get()
            if state is None or (self.stream.done() and state.last_command.user_command_key != self.key):
                return None
            self.state = state
            if state.last_command.user_command_key == self.key:
                return state

    def ending(self):
        """Wait for the answer of the command stream: its status."""
        return self.stream.result().status

    def close(self):
        self.exits.close()
