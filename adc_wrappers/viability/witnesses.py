"""Policies that are worth a try when one asks whether a state can still be saved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.envs.cart import CartTask
from adc_wrappers.envs.spot import SpotStandTask
from adc_wrappers.envs.task import Task
from adc_wrappers.feasibility.statics import StaticRobot

from .engine import linalg
from .rollouts import Policy

__all__ = ["cart_regulator", "witnesses"]

_NUDGE = 1e-5
_EFFORTS = (0.1, 1.0, 10.0, 100.0)


def witnesses(task: Task) -> list[Policy]:
    """Return what is known to help at the task's present gains: LQRs on a cart, a standing command for Spot."""
    if isinstance(task, CartTask):
        return [_feedback(cart_regulator(task, effort)) for effort in _EFFORTS]
    if isinstance(task, SpotStandTask):
        return [_standing(task)]
    return []


def cart_regulator(task: CartTask, effort: float = 1.0) -> NDArray[np.float64]:
    """Return the LQR gain of one policy step about upright, by nudging the task's own physics.

    Its envs are overwritten.

    Weights are 1 on the cart's position, 0.1 on its velocity, 10 on angles and 1 on their rates.

    Args:
        task: The task; at its present gains, with enough envs for one nudge either way along state and action.
        effort: R.
    """
    backend, size = task.backend, task.observation_space.shape[0]
    kind = type(backend.state())
    columns = np.zeros((size + 1, backend.num_envs))
    if backend.num_envs >= 2 * size + 2:
        nudges = _NUDGE * np.concatenate((np.eye(size + 1), -np.eye(size + 1)), axis=1)
        columns[:, : 2 * size + 2] = nudges
        ends = _step(task, kind, columns)[:, : 2 * size + 2]
    else:
        ends = np.empty((size, 2 * size + 2))
        for index in range(2 * size + 2):
            columns[:] = 0.0
            columns[index % (size + 1)] = _NUDGE if index <= size else -_NUDGE
            ends[:, index] = _step(task, kind, columns)[:, 0]
    change = (ends[:, : size + 1] - ends[:, size + 1 :]) / (2.0 * _NUDGE)
    a, b = change[:, :size], change[:, size:]
    weights = np.diag([1.0, 0.1] + [10.0, 1.0] * (size // 2 - 1))
    value = linalg.solve_discrete_are(a, b, weights, np.array([[effort]]))
    gain = np.linalg.solve(effort + b.T @ value @ b, b.T @ value @ a)
    return np.asarray(gain[0], dtype=np.float64)


def _step(task: CartTask, kind: type, columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Advance mechanisms by one policy step: rows of states and, last, of actions."""
    task.backend.reset(kind(*columns[:-1]))
    task.backend.advance(task.settings.command_limit * columns[-1])
    return np.stack(task.backend.state())


def _feedback(gain: NDArray[np.float64]) -> Policy:
    return lambda observation: (-observation @ gain)[:, np.newaxis].astype(np.float32)


def _standing(task: SpotStandTask) -> Policy:
    robot = task.body.robot
    torques = StaticRobot(robot.foot_names, robot).standing_torques(task.backend.nominal_pose[np.newaxis])[0]

    def policy(observation: NDArray[np.float32]) -> NDArray[np.float32]:
        stiffness = np.asarray(task.backend.gains().stiffness)
        return np.asarray(torques / stiffness / task.action_scale, dtype=np.float32)[: len(observation)]

    return policy
