"""Some rows of a batch, simulated in this process one after another."""

from __future__ import annotations

from collections.abc import Sequence

from .arrays import BatchArrays
from .model import WorldSettings
from .world import World

__all__ = ["LocalBatch"]


class LocalBatch:
    """The worlds of some rows of the arrays.

    Args:
        settings: Common to the batch.
        arrays: Commands, requests and states of the whole batch.
        link_names: Links whose contact is reported.
        first: First row that is simulated here.
        count: Number of rows that are.
    """

    def __init__(
        self, settings: WorldSettings, arrays: BatchArrays, link_names: Sequence[str], first: int, count: int
    ) -> None:
        self._arrays = arrays
        self._rows = slice(first, first + count)
        self._worlds: list[World] = []
        try:
            for _ in range(count):
                self._worlds.append(World(settings, link_names))
        except BaseException:
            self.close()
            raise

    def advance(self) -> None:
        """Carry out what was requested, then simulate one policy step of every row."""
        arrays, rows = self._arrays, self._rows
        for row, requested in enumerate(arrays.requested[rows].tolist(), start=rows.start):
            if requested:
                self._carry_out_requests(row)
        arrays.states[rows] = [
            world.advance(targets, stiffness, damping)
            for world, targets, stiffness, damping in zip(
                self._worlds,
                arrays.targets[rows].tolist(),
                arrays.stiffness[rows].tolist(),
                arrays.damping[rows].tolist(),
                strict=True,
            )
        ]

    def save(self) -> None:
        """Save every world into its row."""
        self._arrays.saved[self._rows] = [world.save() for world in self._worlds]

    def load(self) -> None:
        """Put every world into what is in its row, under the row's parameters; requests stay."""
        for world, row in zip(self._worlds, range(self._rows.start, self._rows.stop), strict=True):
            self._set_parameters(row)
            world.load(self._arrays.saved[row].tolist())

    def _set_parameters(self, row: int) -> None:
        arrays, world = self._arrays, self._worlds[row - self._rows.start]
        arrays.parameters_changed[row] = 0.0
        world.set_parameters(
            float(arrays.friction[row]), float(arrays.base_mass_offset[row]), int(arrays.command_delay[row])
        )
        world.set_joint_friction(arrays.joint_coulomb[row].tolist(), arrays.joint_viscous[row].tolist())

    def _carry_out_requests(self, row: int) -> None:
        """Take over parameters, start and push of a row, in this order, and take the requests back."""
        arrays, world = self._arrays, self._worlds[row - self._rows.start]
        arrays.requested[row] = 0.0
        if arrays.parameters_changed[row]:
            self._set_parameters(row)
        if arrays.reset_wanted[row]:
            arrays.reset_wanted[row] = 0.0
            world.reset(arrays.starts[row].tolist())
        if arrays.pushes[row].any():
            world.push(arrays.pushes[row].tolist())
            arrays.pushes[row] = 0.0

    def settle(self) -> None:
        """Nothing is ever at work here between two calls."""
        return

    def close(self) -> None:
        """Give every physics client back; may be called twice."""
        for world in self._worlds:
            world.close()
