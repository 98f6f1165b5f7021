"""Targets that come late as tensors are those that come late in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adc_wrappers.backends.base import MAX_COMMAND_DELAY
from adc_wrappers.backends.mujoco.stepping import CommandDelay
from adc_wrappers.backends.spot_tensors import LateTargets


@pytest.mark.parametrize("decimation", [1, 4, 10, 25])
def test_tensors_are_as_late_as_numpys(decimation):
    rng, everybody = np.random.default_rng(3), np.arange(MAX_COMMAND_DELAY + 1)
    pose = rng.normal(size=2)
    held = np.tile(pose, (len(everybody), 1))
    delays = rng.permutation(everybody)
    here, there = CommandDelay(len(everybody), pose, decimation), LateTargets(torch.as_tensor(held), decimation)
    here.set_delays(delays.astype(np.float64), everybody)
    there.begin(torch.as_tensor(held), torch.as_tensor(delays), torch.as_tensor(everybody))
    for step in range(30):
        if step == 20:  # some begin anew
            rows, start = np.array([2, 5]), rng.normal(size=(2, 2))
            here.forget(start, rows)
            there.begin(torch.as_tensor(start), torch.as_tensor(delays[rows]), torch.as_tensor(rows))
        targets = rng.normal(size=held.shape)
        there.send(torch.as_tensor(targets))
        wanted = here.spread(targets)
        for physics_step in range(decimation):
            np.testing.assert_array_equal(there.arriving().numpy(), wanted[:, physics_step])
