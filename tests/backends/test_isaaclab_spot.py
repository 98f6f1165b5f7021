"""Spot in Isaac Lab itself, on a CPU: the table's masses, MuJoCo's inertias, observations, rewards and verdicts."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

pytest.importorskip("isaaclab", reason="needs Isaac Lab 3: make test-isaac")
pytestmark = [pytest.mark.isaac]

import spot_reference  # noqa: E402
import torch  # noqa: E402
from isaac_helpers import close  # noqa: E402
from spot_reference import NAMES, SETTINGS, holding, load, moments, starts  # noqa: E402

from adc_wrappers import make_env  # noqa: E402
from adc_wrappers.backends.base import RobotStart  # noqa: E402
from adc_wrappers.backends.isaaclab.groups import as_tensor  # noqa: E402
from adc_wrappers.backends.spot_model import JOINT_NAMES, NOMINAL_POSE, SPOT, standing_height  # noqa: E402
from adc_wrappers.backends.spot_model.usd import with_foot_masses  # noqa: E402
from adc_wrappers.core.actuators import damping_for, to_numpy  # noqa: E402
from adc_wrappers.envs.spot.rewards import RewardInputs  # noqa: E402

COUNT = len(NAMES)


@pytest.fixture(scope="module", params=["newton", "physx"])
def spots(request):
    if request.param == "physx" and importlib.util.find_spec("ovphysx") is None:
        pytest.skip("needs ovphysx")
    env = make_env(
        "spot-handstand", backend="isaaclab", num_envs=COUNT, device="cpu", engine=request.param, source="generated",
        seed=0, **SETTINGS,
    )  # fmt: skip
    yield env.unwrapped
    close(env)


def tensors(parts):
    return type(parts)(*(torch.as_tensor(np.asarray(part), dtype=torch.float32) for part in parts))


@pytest.fixture(scope="module")
def placed(spots):
    """The states in Isaac Lab, before any step: observation and reward."""
    spots.reset()
    spots.place(tensors(starts()), torch.arange(COUNT))
    spots.scene.write_data_to_sim()
    spots.sim.forward()
    spots.scene["robot"].update(0.0)
    action, before = moments()
    spots.stand.action, spots.stand.before = torch.as_tensor(action, dtype=torch.float32), tensors(before)
    spots.look()
    observation = spots._get_observations()["policy"].clone()
    return observation, {name: values.clone() for name, values in spots.reward_terms().items()}


def test_a_bare_env_is_the_robot_as_identified(spots):
    """First in this file: the others write gains of their own."""
    live = spots.actuator_backend.gains()
    np.testing.assert_allclose(to_numpy(live.stiffness), 40.0, rtol=1e-6)
    wanted = damping_for(np.full(12, 40.0), spots.actuator_backend.effective_inertia())
    np.testing.assert_allclose(to_numpy(live.damping), np.tile(wanted, (COUNT, 1)), rtol=0.02)


def test_masses_and_inertias_are_the_tables(spots):
    robot = spots.scene["robot"]
    masses = as_tensor(robot.data.body_mass)[0].tolist()
    inertias = as_tensor(robot.data.body_inertia)[0].reshape(-1, 3, 3).double().numpy()
    table = with_foot_masses(SPOT)
    for name, mass, inertia in zip(robot.body_names, masses, inertias, strict=True):
        link = table.link(name)
        xx, yy, zz, xy, xz, yz = link.inertia
        wanted = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        assert mass == pytest.approx(link.mass, rel=1e-5), name
        np.testing.assert_allclose(
            np.linalg.eigvalsh(inertia), np.linalg.eigvalsh(wanted), rtol=1e-4, atol=1e-9, err_msg=name
        )
    assert sum(masses) == pytest.approx(SPOT.total_mass, rel=1e-5)


def test_effective_inertias_agree_with_mujoco(spots):
    backend = spots.actuator_backend
    found = dict(zip(backend.joint_names, backend.effective_inertia(), strict=True))
    np.testing.assert_allclose([found[name] for name in JOINT_NAMES], load()["inertia"], rtol=0.02)


def test_a_state_gives_mujocos_observation(placed):
    np.testing.assert_allclose(placed[0].numpy(), load()["observation"], atol=2e-4)


def test_a_state_gives_mujocos_reward(placed):
    wanted = load()["terms"]
    assert set(placed[1]) == set(wanted)
    for name, values in wanted.items():
        np.testing.assert_allclose(placed[1][name].numpy(), values, rtol=2e-3, atol=1e-3, err_msg=name)


def test_one_step_from_it_gives_mujocos_verdicts(spots, placed):
    """And a reward that differs by what the engines differ in one policy step."""
    backend = spots.actuator_backend
    stiffness = np.full((COUNT, 12), 60.0)
    backend.set_gains(stiffness, damping_for(stiffness, backend.effective_inertia()))
    spots.place(tensors(starts()), torch.arange(COUNT))
    verdicts = {}
    plain_dones = spots._get_dones

    def dones():
        result = plain_dones()
        verdicts.update(terminated=result[0].tolist(), holds=spots.holds().tolist())
        verdicts["terms"] = {name: values.clone() for name, values in spots.reward_terms().items()}
        return result

    spots._get_dones = dones
    try:
        hold = torch.as_tensor(holding(spots.action_scale), dtype=torch.float32)
        spots.stand.action = hold.clone()
        spots.step(hold)
    finally:
        spots._get_dones = plain_dones
    reference = load()
    assert verdicts["terminated"] == reference["terminated"]
    assert verdicts["holds"] == reference["holds"]
    for name in ("orientation", "height", "lifted_feet_contact", "action_rate", "fall"):
        np.testing.assert_allclose(
            verdicts["terms"][name].numpy(), reference["after"][name], rtol=0.02, atol=0.02, err_msg=name
        )


@pytest.mark.slow
def test_spot_stands(spots):
    """At K = 120 a zero action stands level; its feet carry its weight."""
    backend = spots.actuator_backend
    stiffness = np.full((COUNT, 12), 120.0)
    backend.set_gains(stiffness, damping_for(stiffness, backend.effective_inertia()))
    spots.reset()
    for _ in range(50):
        _, _, terminated, _, _ = spots.step(torch.zeros(COUNT, 12))
        assert not terminated.any()
    state = spots.state()
    assert (state.base_position[:, 2] > 0.85 * standing_height(NOMINAL_POSE)).all()
    assert (state.projected_gravity[:, 2] < -0.98).all()
    vertical = as_tensor(spots.scene["contacts"].data.net_forces_w)[..., 2].sum(dim=1)
    np.testing.assert_allclose(vertical.numpy(), SPOT.total_mass * 9.81, rtol=0.05)


def test_names_are_used(spots):
    """Joint order differs between engines; observations and actions do not."""
    assert sorted(spots.scene["robot"].joint_names) == sorted(JOINT_NAMES)
    assert spots.reader.in_engine_order(torch.arange(12.0)[None])[0].tolist() == [
        JOINT_NAMES.index(name) for name in spots.scene["robot"].joint_names
    ]
    assert isinstance(spot_reference.starts(), RobotStart)
    assert RewardInputs._fields[0] == "action"
