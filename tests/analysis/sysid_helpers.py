"""A Spot with hidden parameters, recorded, for tests of system identification."""

from __future__ import annotations

import numpy as np

from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.backends.spot_model import NOMINAL_POSE, standing_height
from adc_wrappers.sysid import (
    Chirp,
    FreeParameter,
    HiddenParameters,
    HiddenRobot,
    IdentifySettings,
    WindowSettings,
    record,
    start_of,
)

HIDDEN = HiddenParameters(stiffness_scale=2 / 3, damping_scale=1.1, coulomb=0.6, delay_steps=3)


def record_spot(hidden=HIDDEN, *, seconds=1.5, standing=False, stiffness=60.0, engine="mujoco"):
    robot = HiddenRobot(make_robot_backend(engine, 1, fixed_base=not standing), hidden)
    robot.set_gains(np.full((1, 12), stiffness), np.full((1, 12), 1.5))
    robot.reset(start_of(robot, height=standing_height(NOMINAL_POSE) if standing else 2.0))
    chirp = Chirp(pose=robot.nominal_pose, amplitude=0.1 if standing else 0.2, period=seconds)
    return record(robot, chirp, seconds, on_stand=not standing, source="test")


SETTINGS = IdentifySettings(
    free=(FreeParameter("stiffness"), FreeParameter("damping"), FreeParameter("coulomb"), FreeParameter("delay")),
    windows=WindowSettings(length=0.4, burn_in=0.15),
    generations=25,
    tolerance=0.15,
)
