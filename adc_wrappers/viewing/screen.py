"""A screen for a playback: MuJoCo's own viewer, where the computer has one."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import numpy as np

from adc_wrappers.backends.base import RobotBackend
from adc_wrappers.backends.spot_model import JOINT_NAMES, SPOT, spot_mjcf
from adc_wrappers.core.errors import BackendError, MissingExtraError
from adc_wrappers.envs.task import Task

__all__ = ["MujocoScreen"]

_CLOSING = 10.0  # s
_NO_SCREEN = (
    "there is no screen here (neither DISPLAY nor WAYLAND_DISPLAY is set). Use --viewer browser, or film a run with "
    "`adc play RUN --out film.gif`."
)


class MujocoScreen:
    """MuJoCo's passive viewer, which shows Spot as any engine moves it.

    Args:
        task: A task of Spot; its first env is shown.

    Raises:
        BackendError: The robot is not Spot, or no window can be opened.
        MissingExtraError: MuJoCo is not installed.
    """

    def __init__(self, task: Task) -> None:
        backend: Any = task.backend
        if not isinstance(backend, RobotBackend) or tuple(backend.joint_names) != JOINT_NAMES:
            raise BackendError(f"MuJoCo's window shows Spot, not {type(task).__name__}. Use --viewer browser.")
        if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise BackendError(_NO_SCREEN)
        try:
            import glfw
            import mujoco
            import mujoco.viewer
        except ImportError as error:
            raise MissingExtraError("mujoco", "mujoco", "MuJoCo's window") from error
        self._engine: Any = mujoco
        self._backend = backend
        self._model = mujoco.MjModel.from_xml_string(spot_mjcf())
        self._data = mujoco.MjData(self._model)
        if not glfw.init():  # MuJoCo would find out in a thread of its own and wait for ever
            raise BackendError(
                f"no window can be opened on the screen {os.environ.get('DISPLAY', '')!r}: GLFW did not start. "
                "Use --viewer browser."
            )
        before = set(threading.enumerate())
        try:
            self._viewer: Any = mujoco.viewer.launch_passive(
                self._model, self._data, show_left_ui=False, show_right_ui=False
            )
        except RuntimeError as error:
            raise BackendError(f"MuJoCo cannot open its window: {error}. Use --viewer browser.") from error
        self._threads = set(threading.enumerate()) - before
        with self._viewer.lock():  # the robot stays in the frame wherever it goes
            self._viewer.cam.type = mujoco.mjtCamera.mjCAMERA_TRACKING
            self._viewer.cam.trackbodyid = self._model.body(SPOT.links[0].name).id

    @property
    def is_open(self) -> bool:
        """Whether the window is still there."""
        return bool(self._viewer.is_running())

    def draw(self) -> None:
        """Show the robot as it is now; broken physics is not shown."""
        state = self._backend.state()
        coordinates = np.concatenate((state.base_position[0], state.base_quaternion[0], state.joint_positions[0]))
        if np.isfinite(coordinates).all():
            with self._viewer.lock():
                self._data.qpos[:] = coordinates
                self._engine.mj_forward(self._model, self._data)
            self._viewer.sync()

    def close(self) -> None:
        """Close the window, and wait until its thread has let go of the graphics: leaving before that crashes."""
        self._viewer.close()
        for thread in self._threads:
            thread.join(_CLOSING)
