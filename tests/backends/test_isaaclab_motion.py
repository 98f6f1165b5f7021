"""Isaac Lab itself, on a CPU: gains are proven by motion, for every kind of actuator group, on both engines."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

pytest.importorskip("isaaclab", reason="needs Isaac Lab 3: make test-isaac")
pytestmark = [pytest.mark.isaac]

import torch  # noqa: E402
from isaac_helpers import INERTIA, STEP, RigProbe, close, make_rig  # noqa: E402

from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig  # noqa: E402
from adc_wrappers.backends.isaaclab import IsaacLabBackend  # noqa: E402
from adc_wrappers.core.actuators import damping_for, to_numpy  # noqa: E402
from adc_wrappers.core.errors import BackendError  # noqa: E402
from adc_wrappers.testing import second_order_step  # noqa: E402

SOFT, STIFF = 25.0, 60.0
AMPLITUDE = 0.2
TOLERANCE = 0.02


@pytest.fixture(scope="module", params=[(e, n) for e in ("newton", "physx") for n in (True, False)], ids=str)
def rig(request, tmp_path_factory):
    """The rig on an engine, its explicit groups run by Newton actuators or by Isaac Lab."""
    engine, native = request.param
    if engine == "physx" and importlib.util.find_spec("ovphysx") is None:
        pytest.skip("needs ovphysx")
    env = make_rig(tmp_path_factory.mktemp("rig"), engine, native=native)
    probe = RigProbe(env, IsaacLabBackend(env))
    yield probe, native
    close(env)


def write(backend, stiffness, env_ids=None):
    rows = np.full((backend.num_envs if env_ids is None else len(env_ids), 4), stiffness)
    backend.set_gains(rows, damping_for(rows, backend.effective_inertia()), env_ids)


def motion_error(probe, stiffness):
    """Step all arms at once and return the largest deviation of each env and arm from the response of ``stiffness``."""
    steps = int(6.0 / np.sqrt(np.min(stiffness) / INERTIA) / STEP)
    start = probe.rest()
    path = np.stack([probe.move(start + AMPLITUDE) for _ in range(steps)])
    times = STEP * np.arange(1, steps + 1)
    damping = damping_for(stiffness, np.full(4, INERTIA))
    expected = np.empty_like(path)
    for place in np.ndindex(stiffness.shape):
        expected[(slice(None), *place)] = second_order_step(times, stiffness[place], damping[place], INERTIA)
    return np.abs((path - start) / AMPLITUDE - expected).max(axis=0)


def test_groups_are_recognized_by_what_they_offer(rig):
    probe, native = rig
    kinds = {group.name: group.kind for group in probe.backend.groups}
    other = "native" if native else "explicit"
    assert kinds == {"soft": "implicit", "ideal": other, "delayed": other, "motor": other}
    assert probe.backend.explicit_time_step == pytest.approx(STEP)


def test_effective_inertia_with_armature(rig):
    np.testing.assert_allclose(rig[0].backend.effective_inertia(), INERTIA, rtol=1e-3)


@pytest.mark.slow
def test_every_kind_of_group_moves_as_its_gains_say(rig):
    """For all envs, for some of them, and after resets (``rest`` resets); the responses of both gains are far apart."""
    probe, _ = rig
    backend, everywhere = probe.backend, np.ones((4, 4))
    write(backend, STIFF)
    assert motion_error(probe, STIFF * everywhere).max() < TOLERANCE
    write(backend, SOFT)
    assert motion_error(probe, SOFT * everywhere).max() < TOLERANCE
    write(backend, STIFF, np.array([0, 2]))
    mixed = np.where(np.arange(4)[:, None] % 2 == 0, STIFF, SOFT) * everywhere
    np.testing.assert_allclose(to_numpy(backend.gains().stiffness), mixed)
    errors = motion_error(probe, mixed)
    assert errors.max() < TOLERANCE, errors
    assert motion_error(probe, mixed[::-1]).min() > 4 * TOLERANCE  # the measurement tells them apart


@pytest.mark.slow
def test_the_curriculum_moves_the_joints(rig):
    """K falls from 60 to 25 over two iterations; then every arm answers as 25 says, under inference mode."""
    probe, _ = rig
    config = CurriculumConfig(start_stiffness=STIFF, target_stiffness=SOFT, driver="time", total_iterations=2)
    env = ActuatorCurriculumWrapper(probe.env, config, backend=probe.backend, iteration_steps=5)
    env.reset()
    with torch.inference_mode():
        for _ in range(10):
            *_, extras = env.step(torch.full((4, 4), 0.1))
    assert extras["log"]["adc/stiffness"] == pytest.approx(SOFT)
    wrapped = RigProbe(env, probe.backend)
    assert motion_error(wrapped, np.full((4, 4), SOFT)).max() < TOLERANCE


def test_a_write_past_the_backend_is_found_out(rig):
    """Writing an explicit group's gains to the solver is a second loop; the tensor of an implicit one is nothing."""
    probe, _ = rig
    env = ActuatorCurriculumWrapper(probe.env, CurriculumConfig(), backend=probe.backend)
    robot = probe.robot
    values = torch.full((4, 4), 33.0)
    robot.write_joint_stiffness_to_sim_index(stiffness=values)
    with pytest.raises(BackendError, match="changed behind"):
        env.adc.verify()
    zero = torch.zeros(4, 3)
    columns = torch.tensor([i for i, name in enumerate(robot.joint_names) if name != "implicit"], dtype=torch.int32)
    robot.write_joint_stiffness_to_sim_index(stiffness=zero, joint_ids=columns)
    write(probe.backend, STIFF)
    env.adc.load_state_dict(env.state_dict())
    env.adc.verify()
