"""A drawing of a cart with its poles, for the engine that has no renderer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError

__all__ = ["draw_chain"]

_WIDTH, _HEIGHT, _SCALE = 640, 400, 220.0
_FITS = 1.05  # m: a longer chain is drawn smaller
_OVERSAMPLING = 2


def draw_chain(x: float, angles: Sequence[float], lengths: Sequence[float]) -> NDArray[np.uint8]:
    """Return an RGB picture of a cart at ``x`` with a chain of poles, given by absolute angles and lengths."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise MissingExtraError("pillow", "viz", "Drawing the cart-pole") from error
    factor = _OVERSAMPLING
    image = Image.new("RGB", (_WIDTH * factor, _HEIGHT * factor), (248, 248, 250))
    draw = ImageDraw.Draw(image)
    scale = _SCALE * min(1.0, _FITS / sum(lengths))

    def pixel(px: float, py: float) -> tuple[float, float]:
        return (_WIDTH / 2 + px * scale) * factor, (_HEIGHT * 0.62 - py * scale) * factor

    def box(cx: float, cy: float, half_x: float, half_y: float, colour: tuple[int, int, int]) -> None:
        draw.rectangle((*pixel(cx - half_x, cy + half_y), *pixel(cx + half_x, cy - half_y)), fill=colour)

    box(0.0, -0.06, 1.2, 0.012, (140, 140, 148))
    for end in (-1.0, 1.0):
        box(end, -0.06, 0.006, 0.05, (190, 60, 60))
    box(x, 0.0, 0.12, 0.05, (40, 46, 56))
    joints = [(x, 0.0)]
    for angle, length in zip(angles, lengths, strict=True):
        last_x, last_y = joints[-1]
        joints.append((last_x + length * math.sin(angle), last_y + length * math.cos(angle)))
        rod = (*pixel(last_x, last_y), *pixel(*joints[-1]))
        draw.line(rod, fill=(150, 152, 158), width=int(0.024 * scale * factor))
    radius = 0.045 * scale * factor
    for joint in joints[1:]:
        centre = pixel(*joint)
        corners = (centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius)
        draw.ellipse(corners, fill=(242, 178, 12))
    return np.asarray(image.resize((_WIDTH, _HEIGHT), Image.Resampling.LANCZOS), dtype=np.uint8)
