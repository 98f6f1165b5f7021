"""Pictures, films and a page in the browser of what the simulated robot does."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.mujoco import MujocoRobotBackend
from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.core.files import whole_file
from adc_wrappers.envs.spot.body import start_at

from .clock import SECOND
from .readings import Reading
from .robot import SimulatedSpot
from .settings import PracticeRobotError

if TYPE_CHECKING:
    from .launcher import PracticeRobot

__all__ = ["Film", "PracticeRobotPage"]


_MOST_FRAMES = 3000
_COLORS = 64


class Film:
    """Pictures of the robot, drawn with a body of its own, so that drawing disturbs nothing.

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


_STATUS_EVERY = 10  # pictures


class _Mirror:
    """The place of a practice robot, from its status."""

    def __init__(self, robot: PracticeRobot) -> None:
        self._robot = robot
        self.status: dict[str, Any] = robot.status()

    def state(self) -> RobotState:
        """Ask the robot; what is not drawn is empty."""
        self.status = self._robot.status()
        place, turn, joints = (
            np.array([self.status[name]]) for name in ("base_position", "base_quaternion", "joint_positions")
        )
        rest = np.zeros((1, 0))
        return RobotState(place, turn, rest, rest, rest, joints, rest, rest, rest)


class PracticeRobotPage:
    """A page on this computer alone that shows a practice robot and what it is doing.

    Args:
        robot: What is shown.
        port: Port of the page; the next free one if it is taken.
    """

    def __init__(self, robot: PracticeRobot, port: int = 8080) -> None:
        from adc_wrappers.viewing import PuppetPage, SpotPuppet

        self._mirror = _Mirror(robot)
        self._page = PuppetPage(SpotPuppet(self._mirror), port=port, title="practice robot")
        self._text: Any = self._page.server.gui.add_markdown("")
        self._clock = 0
        self.address = self._page.address
        """What to type into the browser."""

    def draw(self) -> None:
        """Bring the page up to date."""
        self._page.draw()
        if self._clock % _STATUS_EVERY == 0:
            self._text.content = _text(self._mirror.status)
        self._clock += 1

    def close(self) -> None:
        """Stop serving."""
        self._page.close()


def _text(status: dict[str, Any]) -> str:
    faults = ", ".join(status["behavior_faults"]) or "none"
    return (
        f"motors {status['motors']}, mode {status['mode']}  \nlease: {status['leases'].get('body', 'nobody')}  \n"
        f"E-stop level: {status['estop']}, faults: {faults}  \nlast command key {status['last_command_key']}, "
        f"simulated {status['time']:.1f} s"
    )
