"""Pictures and films of what the simulated robot does."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.mujoco_robot import MujocoRobotBackend
from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.core.files import whole_file
from adc_wrappers.envs.spot.poses import start_at

from .clock import SECOND
from .errors import PracticeRobotError
from .readings import Reading
from .robot import SimulatedSpot

__all__ = ["Film"]

_MOST_FRAMES = 3000
_COLORS = 64


class Film:
    """Draws the robot with a body of its own, so that drawing disturbs nothing.

    Args:
        robot: Whom to film.
    """

    def __init__(self, robot: SimulatedSpot) -> None:
        self._robot = robot
        self._poses: list[NDArray[np.float64]] = []
        self._spacing = 0
        self._next = 0
        self._stage: MujocoRobotBackend | None = None
        self._size = (0, 0)

    def frame(self, width: int, height: int) -> dict[str, Any]:
        """Return a picture of the present: its size, and its bytes as base64."""
        with self._robot.lock:
            pose = _pose(self._robot.physics.reading)
        picture = self._draw(pose, width, height)
        return {"shape": picture.shape, "bytes": base64.b64encode(picture.tobytes()).decode()}

    def start(self, fps: float) -> None:
        """Remember poses from now on, so many per second of the robot's time."""
        with self._robot.lock:
            self._poses, self._spacing, self._next = [], round(SECOND / fps), self._robot.elapsed
            if self._look not in self._robot.observers:
                self._robot.observers.append(self._look)

    def _look(self) -> None:
        if self._robot.elapsed >= self._next and len(self._poses) < _MOST_FRAMES:
            self._poses.append(_pose(self._robot.physics.reading))
            self._next += self._spacing

    def save(self, path: str, width: int, height: int) -> int:
        """Write what was remembered as a GIF and return its number of pictures; remembering ends."""
        if Path(path).suffix != ".gif":
            raise PracticeRobotError(f"expected a file name that ends in .gif, got {Path(path).name!r}.")
        with self._robot.lock:
            poses, self._poses = self._poses, []
            if self._look in self._robot.observers:
                self._robot.observers.remove(self._look)
        if not poses:
            raise PracticeRobotError("there is nothing to film: start_film() first, and let the robot's time pass.")
        pictures = [self._draw(pose, width, height) for pose in poses]
        _write_gif(Path(path), pictures, self._spacing / 1e6)
        return len(pictures)

    def _draw(self, pose: NDArray[np.float64], width: int, height: int) -> NDArray[np.uint8]:
        if self._stage is None or self._size != (width, height):
            self.close()
            self._stage, self._size = MujocoRobotBackend(1, nthread=1, picture_size=(width, height)), (width, height)
        self._stage.reset(start_at(pose))
        return self._stage.render(0)

    def close(self) -> None:
        """Release the graphics memory."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None


def _pose(reading: Reading) -> NDArray[np.float64]:
    return np.concatenate((reading.base_position, reading.base_quaternion, reading.positions))


def _write_gif(path: Path, pictures: list[NDArray[np.uint8]], milliseconds: float) -> None:
    """Write pictures with one palette for all, which keeps the file small."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pillow", "viz", "Filming") from error
    palette = Image.fromarray(pictures[len(pictures) // 2]).quantize(_COLORS)
    plain = Image.Dither.NONE
    frames = [Image.fromarray(picture).quantize(palette=palette, dither=plain) for picture in pictures]
    with whole_file(path) as beside:
        frames[0].save(beside, save_all=True, append_images=frames[1:], duration=milliseconds, loop=0, optimize=True)
