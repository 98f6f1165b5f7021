"""Trajectory logs: what joints were told and what they did, on a robot or in simulation. Needs numpy only."""

from .files import check_log_name, read_log, write_log
from .log import BaseTrack, TrajectoryError, TrajectoryLog

__all__ = ["BaseTrack", "TrajectoryError", "TrajectoryLog", "check_log_name", "read_log", "write_log"]
