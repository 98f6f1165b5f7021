"""A screen for pictures as they come, for the render mode ``"human"``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError

__all__ = ["FrameScreen"]


class FrameScreen:
    """A pygame window for RGB pictures at a steady rate, which opens with the first picture."""

    def __init__(self, fps: int) -> None:
        try:
            import pygame
        except ImportError as error:
            raise MissingExtraError("pygame", "viz", "The render mode 'human'") from error
        self._pygame: Any = pygame
        self._fps = fps
        self._screen: Any = None
        self._clock: Any = None

    def show(self, picture: NDArray[np.uint8]) -> None:
        """Show one picture and wait for its time."""
        pygame = self._pygame
        if self._screen is None:
            pygame.display.init()
            self._screen = pygame.display.set_mode((picture.shape[1], picture.shape[0]))
            pygame.display.set_caption("adc-wrappers")
            self._clock = pygame.time.Clock()
        pygame.event.pump()
        self._screen.blit(pygame.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))
        pygame.display.flip()
        self._clock.tick(self._fps)

    def close(self) -> None:
        """Close the window."""
        if self._screen is not None:
            self._pygame.display.quit()
            self._screen = None
