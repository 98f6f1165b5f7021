"""Friction in Isaac Lab itself, by motion: Spots that are set moving slide the further the smoother they are."""

from __future__ import annotations

import importlib.util

import pytest

pytest.importorskip("isaaclab", reason="needs Isaac Lab 3: make test-isaac")
pytestmark = [pytest.mark.isaac]

import torch  # noqa: E402
from isaac_helpers import close  # noqa: E402

from adc_wrappers import make_env  # noqa: E402
from adc_wrappers.envs.spot.body import SPATIAL  # noqa: E402

PHYSX = pytest.param(
    "physx", marks=pytest.mark.skipif(importlib.util.find_spec("ovphysx") is None, reason="needs ovphysx")
)
SMOOTH, ROUGH = 0.3, 1.0
"""Where the paper's range begins and ends."""
SPEED, STEPS = 1.0, 25


def give_friction(env, engine, value, envs):
    """Call the env's own event, which draws from what it was made with, after making that one number."""
    term = env.event_manager.get_term_cfg("friction")
    drawn = term.func._impl
    if engine == "newton":
        drawn._static_friction_range = (value, value)
    else:
        drawn.material_buckets[:, :2] = value
    term.func(env, torch.tensor(envs), **{"make_consistent": False, **term.params})


def feet(env):
    state = env.state()
    return SPATIAL.feet_in_world(state.base_position, state.base_quaternion, state.joint_positions)[..., 0].clone()


@pytest.mark.parametrize("engine", ["newton", PHYSX])
def test_randomized_friction_is_what_a_robot_slides_on(engine):
    env = make_env(
        "spot-handstand", backend="isaaclab", num_envs=4, device="cpu", engine=engine, source="generated", seed=0,
        randomize=["friction"],
    )  # fmt: skip
    spots = env.unwrapped
    env.reset()
    give_friction(spots, engine, SMOOTH, [0, 1])
    give_friction(spots, engine, ROUGH, [2, 3])
    for _ in range(10):
        spots.step(torch.zeros(4, 12))
    velocity = torch.zeros(4, 6)
    velocity[:, 0] = SPEED  # of the base, and with it of every link
    spots.scene["robot"].write_root_com_velocity_to_sim_index(root_velocity=velocity)
    begin = feet(spots)
    for _ in range(STEPS):
        spots.step(torch.zeros(4, 12))
    slid = (feet(spots) - begin).mean(dim=1)
    close(env)
    # part of the way is the body's, over feet that stick; it is the same for all
    assert slid[:2].min() > 1.2 * slid[2:].max(), slid
