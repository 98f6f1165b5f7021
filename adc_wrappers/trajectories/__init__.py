"""Trajectory logs: what joints were told and what they did, on a robot or in simulation. Needs numpy only."""

from .files import read_log, write_log
from .log import BaseTrack, TrajectoryError, TrajectoryLog

__all__ = ["BaseTrack", "TrajectoryError", "TrajectoryLog", "read_log", "write_log"]
