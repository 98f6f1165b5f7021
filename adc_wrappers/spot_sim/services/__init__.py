"""The twelve services of the practice robot."""

from __future__ import annotations

from adc_wrappers.spot_sim.robot import SimulatedSpot
from adc_wrappers.spot_sim.rpc import Service

from .access import auth_service, directory_service, identity_service, licence_service
from .command import command_service
from .estop import estop_service
from .lease import lease_service
from .power import power_service
from .state import state_service
from .streams import command_stream_service, state_stream_service
from .timing import time_service

__all__ = ["make_services"]


def make_services(robot: SimulatedSpot) -> list[Service]:
    """Return every service; the directory lists them all."""
    services = [
        identity_service(),
        auth_service(robot),
        time_service(robot),
        licence_service(robot),
        lease_service(robot),
        estop_service(robot),
        power_service(robot),
        state_service(robot),
        command_service(robot),
        state_stream_service(robot),
        command_stream_service(robot),
    ]
    directory = directory_service(services, robot)
    return [*services, directory]
