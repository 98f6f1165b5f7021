"""A drawing of the cart-pole, for the engine that has no renderer."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError

__all__ = ["draw_cartpole"]

_WIDTH, _HEIGHT, _SCALE = 640, 400, 220.0
_OVERSAMPLING = 2


def draw_cartpole(x: float, theta: float, pole_length: float) -> NDArray[np.uint8]:
    """Return an RGB picture of a cart at ``x`` with its pole at ``theta``."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise MissingExtraError("pillow", "viz", "Drawing the cart-pole") from error
    factor = _OVERSAMPLING
    image = Image.new("RGB", (_WIDTH * factor, _HEIGHT * factor), (248, 248, 250))
    draw = ImageDraw.Draw(image)

    def pixel(px: float, py: float) -> tuple[float, float]:
        return (_WIDTH / 2 + px * _SCALE) * factor, (_HEIGHT * 0.62 - py * _SCALE) * factor

    def box(cx: float, cy: float, half_x: float, half_y: float, colour: tuple[int, int, int]) -> None:
        draw.rectangle((*pixel(cx - half_x, cy + half_y), *pixel(cx + half_x, cy - half_y)), fill=colour)

    box(0.0, -0.06, 1.2, 0.012, (140, 140, 148))
    for end in (-1.0, 1.0):
        box(end, -0.06, 0.006, 0.05, (190, 60, 60))
    box(x, 0.0, 0.12, 0.05, (40, 46, 56))
    tip = (x + pole_length * math.sin(theta), pole_length * math.cos(theta))
    draw.line((*pixel(x, 0.0), *pixel(*tip)), fill=(150, 152, 158), width=int(0.024 * _SCALE * factor))
    radius = 0.045 * _SCALE * factor
    centre = pixel(*tip)
    draw.ellipse((centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius), fill=(242, 178, 12))
    return np.asarray(image.resize((_WIDTH, _HEIGHT), Image.Resampling.LANCZOS), dtype=np.uint8)
