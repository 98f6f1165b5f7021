"""The inner loops, compiled: the closed-loop cart-pole, its simulation, and the backup of a value on a grid.

All compiled code is in this one file, because numba's cache on disk notices changes of the file that a function is in
and of no other. The equations are those of :func:`adc_wrappers.backends.cartpole.model.accelerations`; a test compares
both.

``plant`` is the vector of :meth:`.plant.CartPlant.vector`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from adc_wrappers.core.cores import available_cores
from adc_wrappers.core.errors import MissingExtraError

__all__ = [
    "accelerations",
    "advance",
    "backup",
    "cart_successors",
    "compiled",
    "follow",
    "linalg",
    "locate",
    "look_up",
    "spread",
    "survive",
]


try:
    import numba
except ImportError as error:
    raise MissingExtraError("numba", "viability", "Computing viability") from error
try:
    from scipy import linalg
except ImportError as error:
    raise MissingExtraError("scipy", "viability", "Designing a linear-quadratic regulator") from error


_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile a loop over numbers and arrays at its first call; the machine code is kept on disk."""
    result: _Function = numba.njit(cache=True, nogil=True)(function)
    return result


def spread(work: Callable[[int, int], Any], count: int, threads: int | None = None) -> list[Any]:
    """Call ``work(first, last)`` on parts of ``range(count)``, one thread each, and return the answers in order."""
    parts = max(1, min(count, available_cores() if threads is None else threads))
    edges = [count * part // parts for part in range(parts + 1)]
    if parts == 1:
        return [work(0, count)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))


Array = Any  # numba reads the shapes itself


@compiled
def accelerations(x: float, v: float, angle: float, rate: float, command: float, plant: Array) -> tuple[float, float]:
    """Return cart and pole acceleration under a commanded cart position."""
    cart, pole, length, gravity = plant[0], plant[1], plant[2], plant[3]
    force = min(max(plant[4] * (command - x) - plant[5] * v, -plant[6]), plant[6])
    if plant[9] > 0.5:
        linear = (force - pole * gravity * angle) / cart
        return linear, (gravity * angle - linear) / length
    sin, cos = math.sin(angle), math.cos(angle)
    inertia = cart + pole * sin * sin
    push = force + pole * length * sin * rate * rate
    return (
        (push - pole * gravity * sin * cos) / inertia,
        ((cart + pole) * gravity * sin - cos * push) / (length * inertia),
    )


@compiled
def level(x: float, angle: float, plant: Array) -> float:
    """Return how far inside the admissible box a state is: 1 in the middle, 0 on the edge, negative outside."""
    return float(min(1.0 - abs(x) / plant[7], 1.0 - abs(angle) / plant[8]))


@compiled
def advance(
    x: float, v: float, angle: float, rate: float, command: float, plant: Array, step: float, steps: int
) -> tuple[float, float, float, float]:
    """Integrate ``steps`` steps of RK4 under one held command."""
    half = 0.5 * step
    for _ in range(steps):
        a1, b1 = accelerations(x, v, angle, rate, command, plant)
        v2, r2 = v + half * a1, rate + half * b1
        a2, b2 = accelerations(x + half * v, v2, angle + half * rate, r2, command, plant)
        v3, r3 = v + half * a2, rate + half * b2
        a3, b3 = accelerations(x + half * v2, v3, angle + half * r2, r3, command, plant)
        v4, r4 = v + step * a3, rate + step * b3
        a4, b4 = accelerations(x + step * v3, v4, angle + step * r3, r4, command, plant)
        x += step / 6.0 * (v + 2.0 * (v2 + v3) + v4)
        angle += step / 6.0 * (rate + 2.0 * (r2 + r3) + r4)
        v += step / 6.0 * (a1 + 2.0 * (a2 + a3) + a4)
        rate += step / 6.0 * (b1 + 2.0 * (b2 + b3) + b4)
    return x, v, angle, rate


@compiled
def feedback(x: float, v: float, angle: float, rate: float, gain: Array, limit: float) -> float:
    """Return the clipped command of a linear state feedback."""
    command = -(gain[0] * x + gain[1] * v + gain[2] * angle + gain[3] * rate)
    return float(min(max(command, -limit), limit))


@compiled
def advance_fed_back(
    x: float, v: float, angle: float, rate: float, gain: Array, limit: float, plant: Array, step: float
) -> tuple[float, float, float, float]:
    """Integrate one step of RK4 whose command follows the state continuously."""
    half = 0.5 * step
    a1, b1 = accelerations(x, v, angle, rate, feedback(x, v, angle, rate, gain, limit), plant)
    x2, v2, p2, r2 = x + half * v, v + half * a1, angle + half * rate, rate + half * b1
    a2, b2 = accelerations(x2, v2, p2, r2, feedback(x2, v2, p2, r2, gain, limit), plant)
    x3, v3, p3, r3 = x + half * v2, v + half * a2, angle + half * r2, rate + half * b2
    a3, b3 = accelerations(x3, v3, p3, r3, feedback(x3, v3, p3, r3, gain, limit), plant)
    x4, v4, p4, r4 = x + step * v3, v + step * a3, angle + step * r3, rate + step * b3
    a4, b4 = accelerations(x4, v4, p4, r4, feedback(x4, v4, p4, r4, gain, limit), plant)
    return (
        x + step / 6.0 * (v + 2.0 * (v2 + v3) + v4),
        v + step / 6.0 * (a1 + 2.0 * (a2 + a3) + a4),
        angle + step / 6.0 * (rate + 2.0 * (r2 + r3) + r4),
        rate + step / 6.0 * (b1 + 2.0 * (b2 + b3) + b4),
    )


@compiled
def survive(
    starts: Array, gain: Array, limit: float, plant: Array, step: float, steps: int, hold: int, alive: Array
) -> None:
    """Write for each row of ``starts`` the seconds that a linear feedback keeps it inside the box.

    The command is computed anew every ``hold`` steps and held; 0 lets it follow the state continuously.
    """
    for row in range(len(starts)):
        x, v, angle, rate = starts[row, 0], starts[row, 1], starts[row, 2], starts[row, 3]
        command, lived = 0.0, steps
        for count in range(steps):
            if hold == 0:
                x, v, angle, rate = advance_fed_back(x, v, angle, rate, gain, limit, plant, step)
            else:
                if count % hold == 0:
                    command = feedback(x, v, angle, rate, gain, limit)
                x, v, angle, rate = advance(x, v, angle, rate, command, plant, step, 1)
            if not level(x, angle, plant) >= 0.0:
                lived = count
                break
        alive[row] = lived * step


@compiled
def cart_successors(
    first: int, last: int, low: Array, spacing: Array, points: Array, unstable: Array, choices: Array, plant: Array,
    step: float, steps: int, depth: float, ends: Array, floors: Array,
) -> None:  # fmt: skip
    """Write where each choice leads from each vertex, and the least level met on the way.

    The grid's coordinates are x, ẋ, θ and ``e = unstable · s``. A choice is a row of commands, each held for
    ``steps`` steps of length ``step``; the box is checked after each. Levels are clipped to ± ``depth``, and leaving
    the box is −``depth``.
    """
    for vertex in range(first, last):
        rest = vertex
        e0 = low[3] + spacing[3] * (rest % points[3])
        rest //= points[3]
        p0 = low[2] + spacing[2] * (rest % points[2])
        rest //= points[2]
        v0 = low[1] + spacing[1] * (rest % points[1])
        x0 = low[0] + spacing[0] * (rest // points[1])
        w0 = (e0 - unstable[0] * x0 - unstable[1] * v0 - unstable[2] * p0) / unstable[3]
        for row in range(len(choices)):
            x, v, angle, rate, floor = x0, v0, p0, w0, depth
            for command in choices[row]:
                x, v, angle, rate = advance(x, v, angle, rate, command, plant, step, steps)
                floor = min(floor, level(x, angle, plant))
                if floor < 0.0:
                    floor = -depth
                    break
            floors[vertex, row] = floor
            ends[vertex, row, 0], ends[vertex, row, 1], ends[vertex, row, 2] = x, v, angle
            ends[vertex, row, 3] = unstable[0] * x + unstable[1] * v + unstable[2] * angle + unstable[3] * rate


@compiled
def locate(
    first: int, last: int, low: Array, spacing: Array, points: Array, strict: Array, ends: Array, floors: Array,
    corners: Array,
) -> None:  # fmt: skip
    """Turn positions in ``ends`` into a corner of their cell and the shares of the way across it, in place.

    A position off the grid is moved onto its edge; along a ``strict`` axis it counts as failure instead.
    """
    for vertex in range(first, last):
        for row in range(ends.shape[1]):
            corner = 0
            for axis in range(len(low)):
                place = (ends[vertex, row, axis] - low[axis]) / spacing[axis]
                if strict[axis] and not -1e-6 <= place <= points[axis] - 1 + 1e-6:
                    floors[vertex, row] = min(floors[vertex, row], -1.0)
                place = min(max(place, 0.0), points[axis] - 1.0)
                cell = min(int(place), points[axis] - 2)
                ends[vertex, row, axis] = place - cell
                corner = corner * points[axis] + cell
            corners[vertex, row] = corner


@compiled
def blend(values: Array, corner: int, offsets: Array, shares: Array, room: Array) -> float:
    """Return the multilinear interpolation inside a cell."""
    size = len(offsets)
    for index in range(size):
        room[index] = values[corner + offsets[index]]
    for axis in range(len(shares) - 1, -1, -1):
        size //= 2
        for index in range(size):
            room[index] = room[2 * index] + shares[axis] * (room[2 * index + 1] - room[2 * index])
    return float(room[0])


@compiled
def backup(
    first: int, last: int, mirrored: bool, values: Array, levels: Array, corners: Array, shares: Array, floors: Array,
    offsets: Array, out: Array,
) -> float:  # fmt: skip
    """Write ``min(level, max over choices of min(floor, value at the end))`` and return the largest change."""
    room = np.empty(len(offsets), dtype=np.float32)
    total, change = len(values), 0.0
    for vertex in range(first, last):
        best = np.float32(-1e9)
        for row in range(corners.shape[1]):
            value = floors[vertex, row]
            if value <= best:
                continue
            if value >= 0.0:
                value = min(value, np.float32(blend(values, corners[vertex, row], offsets, shares[vertex, row], room)))
            best = max(best, value)
        best = min(best, levels[vertex])
        change = max(change, abs(best - values[vertex]))
        out[vertex] = best
        if mirrored:
            out[total - 1 - vertex] = best
    return change


@compiled
def look_up(
    states: Array, low: Array, spacing: Array, points: Array, values: Array, offsets: Array, out: Array
) -> None:
    """Write the interpolated value at each row of ``states``; off the grid, that of its nearest edge."""
    dimension = len(low)
    room = np.empty(len(offsets), dtype=np.float32)
    shares = np.empty(dimension, dtype=np.float32)
    for row in range(len(states)):
        corner = 0
        for axis in range(dimension):
            place = min(max((states[row, axis] - low[axis]) / spacing[axis], 0.0), points[axis] - 1.0)
            cell = min(int(place), points[axis] - 2)
            shares[axis] = place - cell
            corner = corner * points[axis] + cell
        out[row] = blend(values, corner, offsets, shares, room)


@compiled
def follow(
    states: Array, unstable: Array, choices: Array, plant: Array, step: float, steps: int, low: Array,
    spacing: Array, points: Array, values: Array, offsets: Array, path: Array, commands: Array, floors: Array,
) -> None:  # fmt: skip
    """Drive each row of ``states`` greedily by a kernel's value, and write path, commands and least level.

    At every stage the choice is made whose ``min(floor, value at its end)`` is largest.
    """
    room = np.empty(len(offsets), dtype=np.float32)
    shares = np.empty(4, dtype=np.float32)
    end = np.empty(4)
    for row in range(len(states)):
        x, v, angle, rate = states[row, 0], states[row, 1], states[row, 2], states[row, 3]
        lowest = level(x, angle, plant)
        path[row, 0, 0], path[row, 0, 1], path[row, 0, 2], path[row, 0, 3] = x, v, angle, rate
        for stage in range(commands.shape[1] // choices.shape[1]):
            best, chosen = -1e9, 0
            for index in range(len(choices)):
                a, b, c, d, floor = x, v, angle, rate, 9.0
                for command in choices[index]:
                    a, b, c, d = advance(a, b, c, d, command, plant, step, steps)
                    floor = min(floor, level(a, c, plant))
                    if floor < 0.0:
                        break
                if floor > best and floor >= 0.0:
                    end[0], end[1], end[2] = a, b, c
                    end[3] = unstable[0] * a + unstable[1] * b + unstable[2] * c + unstable[3] * d
                    corner = 0
                    for axis in range(4):
                        place = min(max((end[axis] - low[axis]) / spacing[axis], 0.0), points[axis] - 1.0)
                        cell = min(int(place), points[axis] - 2)
                        shares[axis] = place - cell
                        corner = corner * points[axis] + cell
                    floor = min(floor, blend(values, corner, offsets, shares, room))
                if floor > best:
                    best, chosen = floor, index
            for position in range(choices.shape[1]):
                count = stage * choices.shape[1] + position
                command = choices[chosen, position]
                x, v, angle, rate = advance(x, v, angle, rate, command, plant, step, steps)
                lowest = min(lowest, level(x, angle, plant))
                commands[row, count] = command
                path[row, count + 1, 0], path[row, count + 1, 1] = x, v
                path[row, count + 1, 2], path[row, count + 1, 3] = angle, rate
            if lowest < 0.0:
                break
        floors[row] = lowest
