"""View of a stand's robots that only a simulator has, for a value network in training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.envs.task import PrivilegedView

from .body import observation_layout, observation_scale, spot_mirror, swap_sides
from .terms import observation, touching_links

if TYPE_CHECKING:
    from .task import SpotStandTask

__all__ = ["spot_privileged"]

_STIFFNESS_SCALE: Final = 0.02
"""Brings stiffnesses of some tens of N·m/rad to about 1."""


def spot_privileged(task: SpotStandTask) -> PrivilegedView:
    """Return the view of a batch of Spots as they are, and of what was drawn for them.

    Base velocities, gravity, joints and last action as in the observation, but without noise and delay; which feet
    touch the ground; the height of the base; friction, mass, gain factors and latencies; how strict the world is; and
    how stiff the joints are.

    Args:
        task: The task.
    """
    backend, body = task.backend, task.body
    feet = [i for i, name in enumerate(backend.link_names) if name.endswith("foot")]

    def observe() -> NDArray[np.float32]:
        state = backend.state()
        drawn = task.drawn()
        parts = (
            observation(state, backend.nominal_pose, task.last_action, body),
            touching_links(state)[:, feet],
            state.base_position[:, 2:],
            drawn,
            np.full_like(drawn[:, :1], task.logic.level),
            backend.gains().stiffness.mean(axis=1, keepdims=True),
        )
        return np.concatenate(parts, axis=1, dtype=np.float32)

    frame = observation_scale(len(backend.joint_names), body)
    lone = observe().shape[1] - len(frame) - len(feet)  # numbers that are their own mirror images
    scale = (*frame, *(1.0,) * (len(feet) + lone - 1), _STIFFNESS_SCALE)
    parts = observation_layout(len(backend.joint_names), body)
    if task.mirror is None:
        return PrivilegedView(observe, scale, parts=parts)
    mirror = spot_mirror(backend.joint_names)
    index = [*mirror.observation_index, *(len(frame) + i for i in swap_sides([backend.link_names[i] for i in feet]))]
    index += range(len(index), len(scale))
    sign = (*mirror.observation_sign, *(1.0,) * (len(feet) + lone))
    return PrivilegedView(observe, scale, tuple(index), sign, parts)
