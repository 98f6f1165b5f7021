"""The twelve services of the practice robot."""

from __future__ import annotations

from adc_wrappers.spot_sim.robot import SimulatedSpot
from adc_wrappers.spot_sim.rpc import Service

from .access import auth_service, directory_service, identity_service, licence_service, time_service
from .authority import estop_service, lease_service
from .command import command_service, power_service
from .states import command_stream_service, state_service, state_stream_service

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
