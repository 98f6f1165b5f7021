"""Pictures of one robot, drawn off screen by MuJoCo."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import BackendError

from .engine import mujoco

__all__ = ["RobotCamera"]

_DISTANCE, _AZIMUTH, _ELEVATION = 2.6, 130.0, -14.0
_MAX_SHAPES = 2000


class RobotCamera:
    """A camera that follows the robot's base.

    On Linux without a screen it draws with EGL; the variable ``MUJOCO_GL`` (egl, osmesa, glfw) decides otherwise.

    Args:
        model: The robot as it is drawn.
        base: Index of the body to follow.
        width: Pixels.
        height: Pixels.
    """

    def __init__(self, model: Any, base: int, width: int, height: int) -> None:
        self._model = model
        self._data = mujoco.MjData(model)
        model.vis.global_.offwidth = max(width, model.vis.global_.offwidth)
        model.vis.global_.offheight = max(height, model.vis.global_.offheight)
        self._window = _off_screen_window(width, height)
        self._window.make_current()
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene = mujoco.MjvScene(model, _MAX_SHAPES)
        self._options = mujoco.MjvOption()
        self._view = mujoco.MjvCamera()
        self._view.type = mujoco.mjtCamera.mjCAMERA_TRACKING.value
        self._view.trackbodyid = base
        self._view.distance, self._view.azimuth, self._view.elevation = _DISTANCE, _AZIMUTH, _ELEVATION
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._pixels: NDArray[np.uint8] = np.zeros((height, width, 3), dtype=np.uint8)

    def picture(self, qpos: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Return the robot in these coordinates, RGB, ``(height, width, 3)``."""
        self._data.qpos[:] = qpos
        mujoco.mj_forward(self._model, self._data)
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self._model, self._data, self._options, None, self._view, everything, self._scene)
        self._window.make_current()
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._context)
        return np.ascontiguousarray(self._pixels[::-1])

    def close(self) -> None:
        """Free the graphics memory."""
        if self._context is not None:
            self._window.make_current()
            self._context.free()
            self._window.free()
            self._context = None


def _off_screen_window(width: int, height: int) -> Any:
    """Return a graphics context: EGL where there is no screen and nothing else was asked for."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    headless = sys.platform.startswith("linux") and not screen and not os.environ.get("MUJOCO_GL")
    try:
        if headless:
            from mujoco.egl import GLContext
        else:
            from mujoco.gl_context import GLContext
        return GLContext(width, height)
    except Exception as error:
        raise BackendError(
            f"MuJoCo cannot draw here: {error}. Set MUJOCO_GL=egl (or osmesa, without a graphics driver) before Python "
            "starts, and install the system's EGL library (Debian, Ubuntu: libegl1)."
        ) from error
