"""The wrapper reads nothing from the device in a step, and once per iteration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fakes_isaaclab2 import FakeArticulation, FakeIsaacEnv, IdealPDActuator
from helpers import TorchBatchEnv
from host_reads import HostReads, HostSends, Outside
from isaac_stubs import fake_spots
from spot_helpers import make_state

from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig
from adc_wrappers.backends.base import RobotState
from adc_wrappers.backends.isaaclab import IsaacLabBackend
from adc_wrappers.backends.limiter import JointTable
from adc_wrappers.backends.spot_model import SPOT
from adc_wrappers.backends.spot_tensors import LateTargets
from adc_wrappers.core.errors import BackendError

STEPS = 24


def isaac(episode=7, num_envs=16):
    robot = FakeArticulation(num_envs, [0.2, 0.3])
    robot.add("all", IdealPDActuator, [0, 1])
    return FakeIsaacEnv(robot, episode=episode)


def wrapped(env, reads, backend=None):
    config = CurriculumConfig(length_min=1, length_max=10, ema=0.5)
    return ActuatorCurriculumWrapper(Outside(env, reads), config, backend=backend, iteration_steps=STEPS)


@pytest.mark.parametrize("kind", ["isaac", "batch"])
def test_no_read_in_a_step_and_one_per_iteration(kind):
    reads = HostReads()
    env = wrapped(isaac(), reads, IsaacLabBackend) if kind == "isaac" else wrapped(TorchBatchEnv([[5, 9]] * 8), reads)
    env.reset()
    action = torch.zeros(env.unwrapped.num_envs, 2)
    per_step, stiffness = [], []
    with torch.inference_mode(), reads:
        for _ in range(4 * STEPS):
            before = reads.total
            *_, extras = env.step(action)
            per_step.append(reads.total - before)
            stiffness.append(extras["log"]["adc/stiffness"])
    at_boundaries = per_step[STEPS - 1 :: STEPS]
    assert sum(per_step) == sum(at_boundaries), reads.counts
    assert at_boundaries == [1] * 4, reads.counts
    assert stiffness[-1] < stiffness[0]  # the curriculum moved


def test_gains_changed_behind_the_curriculum_are_still_found_out():
    env = wrapped(isaac(), HostReads(), IsaacLabBackend)
    env.reset()
    for _ in range(STEPS):
        env.step(torch.zeros(16, 2))
    env.unwrapped.scene.articulations["robot"].actuators["all"].stiffness[3, 1] = 12.0
    with pytest.raises(BackendError, match="env 3, joint 'j1'"):
        for _ in range(STEPS):
            env.step(torch.zeros(16, 2))


@pytest.mark.parametrize("value", [np.nan, 12.0])
def test_a_write_that_does_not_take_is_found_out_one_iteration_later(value):
    env = wrapped(isaac(), HostReads(), IsaacLabBackend)
    env.reset()
    group = env.adc.backend.groups[0]
    plain = group.write
    group.write = lambda k, b, rows: plain(torch.full_like(k, value), b, rows)
    for _ in range(STEPS):
        env.step(torch.zeros(16, 2))
    group.write = plain
    with pytest.raises(BackendError, match=r"were changed|did not take"):
        for _ in range(STEPS):
            env.step(torch.zeros(16, 2))


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.sum().item(), lambda t: t.tolist(), lambda t: bool(t.any()), lambda t: t.nonzero(),
        lambda t: t.cpu(), lambda t: t[t > 0], lambda t: float(t.sum()), lambda t: t.numpy(), lambda t: t.to("cpu"),
        lambda t: torch.tensor([1.0], device=t.device), lambda t: t.__setitem__(t > 0, 1.0),
    ],
)  # fmt: skip
def test_the_counter_counts(read):
    values = torch.ones(3)
    with HostReads() as reads:
        read(values)
    assert reads.total == 1


@pytest.mark.parametrize("preset", ["paper", "authors", "cpu", "stepping"])
def test_a_step_of_spots_sends_nothing_to_the_device(preset):
    """Nor does a step with a reset: indices and numbers are there from the first one on."""
    state = RobotState(*(torch.as_tensor(np.asarray(part), dtype=torch.float32) for part in make_state(4)))
    spots = fake_spots(state, 3, preset=preset, randomize=["pose", "velocity", "joints"])
    spots.reset()
    action, steps = torch.zeros(4, 12), []
    with torch.inference_mode(), HostSends() as sends:
        for _ in range(7):
            before = sends.total
            *_, truncated, _ = spots.step(action)
            steps.append((sends.total - before, bool(truncated.any())))
    assert steps == [(0, False), (0, False), (0, True)] * 2 + [(0, False)], sends.counts


def test_what_mjlab_does_before_every_physics_step_sends_nothing_to_the_device():
    """The knees' limits at their angles, and the targets that arrive."""
    positions, table = torch.tensor(np.asarray(make_state(4).joint_positions), dtype=torch.float32), JointTable(SPOT)
    late = LateTargets(positions, decimation=10)
    late.begin(positions, torch.arange(4), torch.arange(4))
    table.torque_limits(positions)
    with torch.inference_mode(), HostSends() as sends, HostReads() as reads:
        late.send(positions)
        for _ in range(10):
            late.arriving()
            table.torque_limits(positions)
    assert sends.total == reads.total == 0, (sends.counts, reads.counts)


@pytest.mark.parametrize(
    "send",
    [
        lambda t: torch.tensor([1.0]), lambda t: t[[0, 1]], lambda t: torch.as_tensor([1.0], device=t.device),
        lambda t: t[:2, (0, 1)], lambda t: t.new_tensor([1.0]), lambda t: t[:, np.array([1])],
    ],
)  # fmt: skip
def test_the_other_counter_counts(send):
    values = torch.ones(3, 3)
    with HostSends() as sends:
        send(values)
        there = values[:, values[0].long()] + values[1] + values[:, 1:2]
    assert sends.total == 1 and len(there) == 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_on_a_gpu_torch_itself_sees_none():
    robot = FakeArticulation(16, [0.2, 0.3])
    robot.add("all", IdealPDActuator, [0, 1])
    env = wrapped(FakeIsaacEnv(robot), HostReads(), IsaacLabBackend)
    env.reset()
    env.step(torch.zeros(16, 2))
    done = torch.zeros(16, dtype=torch.bool, device="cuda")
    env._counter = None
    env._count(done, done, {})
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(40):
            env._count(done, done, {})
    finally:
        torch.cuda.set_sync_debug_mode("default")
