"""Episodes as GIF or MP4."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core import ActuatorCurriculumWrapper, CurriculumConfig
from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.core.files import whole_file

__all__ = ["Film", "check_format", "film_episode", "play_episode", "record_episode"]

_GIF_FPS = 25
_FORMATS = (".gif", ".mp4")


def play_episode(
    policy: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    env: Any,
    config: CurriculumConfig,
    *,
    seed: int,
    on_step: Callable[[], None] | None = None,
) -> tuple[int, bool]:
    """Play one episode at the target gains.

    Args:
        policy: From a batch of observations to a batch of actions.
        env: A single env; it is not closed.
        config: Names the target stiffness.
        seed: Seed of the start state.
        on_step: Called after the reset and after every step.

    Returns:
        The length of the episode and whether it succeeded.
    """
    pinned = ActuatorCurriculumWrapper(env, config, training=False)
    observation, _ = pinned.reset(seed=seed)
    length, done = 0, False
    info: dict[str, Any] = {}
    while not done:
        if on_step is not None:
            on_step()
        observation, _, terminated, truncated, info = pinned.step(policy(observation[None])[0])
        done = terminated or truncated
        length += 1
    return length, bool(info.get("is_success", False))


@dataclass(frozen=True, eq=False)
class Film:
    """One episode in pictures."""

    frames: list[NDArray[np.uint8]]
    """Pictures, the first before the first step."""

    fps: float
    """Pictures per second."""

    length: int
    """Policy steps of the whole episode, filmed or not."""

    success: bool
    """Whether the episode succeeded."""

    def write(self, path: Path) -> None:
        """Write a GIF or an MP4, by the ending of ``path``."""
        check_format(path)
        imageio = _imageio()
        with whole_file(path) as beside:
            if path.suffix == ".gif":
                imageio.mimsave(beside, self.frames, duration=1000.0 / self.fps, loop=0)
            else:
                imageio.mimsave(beside, self.frames, fps=self.fps, macro_block_size=1)


def film_episode(
    policy: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    env: Any,
    config: CurriculumConfig,
    *,
    seed: int,
    fps: float,
    max_seconds: float | None = None,
    width: int | None = None,
) -> Film:
    """Play one episode at the target gains and keep its pictures.

    Args:
        policy: From a batch of observations to a batch of actions.
        env: A single env with ``render_mode="rgb_array"``; it is not closed.
        config: Names the target stiffness.
        seed: Seed of the start state.
        fps: Pictures per second, as near as whole policy steps allow.
        max_seconds: Film at most so much of the episode.
        width: Shrink pictures to so many pixels.
    """
    if (width is not None and width < 1) or not fps > 0.0:
        raise ValueError(f"expected a positive width and fps, got {width} and {fps}.")
    rate = env.metadata["render_fps"]
    stride = max(1, round(rate / fps))
    limit = None if max_seconds is None else int(max_seconds * rate)
    frames: list[NDArray[np.uint8]] = []
    clock = 0

    def film() -> None:
        nonlocal clock
        if clock % stride == 0 and (limit is None or clock < limit):
            frames.append(_shrunk(env.render(), width))
        clock += 1

    length, success = play_episode(policy, env, config, seed=seed, on_step=film)
    return Film(frames, rate / stride, length, success)


def record_episode(
    policy: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    env: Any,
    config: CurriculumConfig,
    path: Path,
    *,
    seed: int,
    max_seconds: float | None = None,
    width: int | None = None,
    fps: float | None = None,
) -> tuple[int, bool]:
    """Play one episode at the target gains and write it as GIF or MP4, by the ending of ``path``.

    Args:
        policy: From a batch of observations to a batch of actions.
        env: A single env with ``render_mode="rgb_array"``; it is not closed.
        config: Names the target stiffness.
        path: Where the film goes.
        seed: Seed of the start state.
        max_seconds: Film at most so much of the episode.
        width: Shrink pictures to so many pixels.
        fps: Pictures per second; by default at most 25 in a GIF and all in an MP4.

    Returns:
        The length of the episode and whether it succeeded.
    """
    check_format(path)
    _imageio()  # a missing one is said before anything is played
    if fps is None:
        fps = _GIF_FPS if path.suffix == ".gif" else env.metadata["render_fps"]
    film = film_episode(policy, env, config, seed=seed, fps=fps, max_seconds=max_seconds, width=width)
    film.write(path)
    return film.length, film.success


def _imageio() -> Any:
    try:
        import imageio.v2 as imageio
    except ImportError as error:
        raise MissingExtraError("imageio", "viz", "Recording") from error
    return imageio


def _shrunk(frame: NDArray[np.uint8], width: int | None) -> NDArray[np.uint8]:
    if width is None or width >= frame.shape[1]:
        return frame
    from PIL import Image

    height = round(frame.shape[0] * width / frame.shape[1])
    return np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.LANCZOS))


def check_format(path: Path) -> None:
    """Refuse an ending that is no film's, before anything is played."""
    if path.suffix not in _FORMATS:
        raise ValueError(f"expected a file name that ends in {' or '.join(_FORMATS)}, got {path.name!r}.")
