"""Spot in mjlab itself, on a CPU: MuJoCo's inertias, observations, rewards, verdicts and motion; what is randomized."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mjlab", reason="needs mjlab: make test-mjlab")
pytestmark = [pytest.mark.mjlab]

import torch  # noqa: E402
from mjlab.managers.scene_entity_config import SceneEntityCfg  # noqa: E402
from spot_reference import NAMES, SETTINGS, holding, load, moments, starts, swings  # noqa: E402

from adc_wrappers import make_env  # noqa: E402
from adc_wrappers.backends.limiter import JointTable  # noqa: E402
from adc_wrappers.backends.spot_model import JOINT_NAMES, LINK_NAMES, SPOT  # noqa: E402
from adc_wrappers.core.actuators import damping_for, to_numpy  # noqa: E402
from adc_wrappers.envs.spot import randomization  # noqa: E402
from adc_wrappers.envs.spot_mjlab.cfg import push  # noqa: E402

COUNT = len(NAMES)
EVERYBODY = torch.arange(COUNT)


def tensors(parts):
    return type(parts)(*(torch.as_tensor(np.asarray(part), dtype=torch.float32) for part in parts))


@pytest.fixture(scope="module")
def spots():
    env = make_env("spot-handstand", backend="mjlab", num_envs=COUNT, device="cpu", seed=0, **SETTINGS)
    env.reset(seed=0)
    yield env
    env.close()


def stiffen(env, stiffness):
    gains = np.full((env.num_envs, 12), stiffness)
    env.actuator_backend.set_gains(gains, damping_for(gains, env.actuator_backend.effective_inertia()))


def test_a_bare_env_is_the_robot_as_identified(spots):
    """First in this file: the others write gains of their own."""
    live, inertia = spots.actuator_backend.gains(), spots.actuator_backend.effective_inertia()
    np.testing.assert_allclose(to_numpy(live.stiffness), 40.0, rtol=1e-6)
    np.testing.assert_allclose(to_numpy(live.damping), damping_for(np.full((COUNT, 12), 40.0), inertia), rtol=1e-5)
    np.testing.assert_allclose(inertia, load()["inertia"], rtol=1e-6)
    assert spots.actuator_backend.joint_names == tuple(JOINT_NAMES)


def test_a_state_gives_mujocos_observation_and_reward(spots):
    reference, term = load(), spots.spots
    term.place(tensors(starts()), EVERYBODY)
    action, before = moments()
    term.stand.action, term.stand.before = torch.as_tensor(action, dtype=torch.float32), tensors(before)
    term.look()
    np.testing.assert_allclose(term.stand.observation(term.state()).numpy(), reference["observation"], atol=1e-5)
    found = spots.task.reward_terms()
    assert set(found) == set(reference["terms"]) == set(spots.reward_manager.active_terms)
    for name, values in reference["terms"].items():
        np.testing.assert_allclose(found[name].numpy(), values, rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_same_actions_give_mujocos_motion_and_reward(spots):
    """The same model, law, integrator and solver in single instead of double precision.

    In four policy steps the largest differences were 10⁻⁶ m and rad, and 2·10⁻⁵ in rewards of up to 500. A hundred
    times that is allowed, as roundings differ between machines and contacts magnify them; a physics step more or less,
    or gains off by 1 %, moves joints by more than 10⁻³ rad.
    """
    wanted, term = load()["motion"], spots.spots
    hold = torch.as_tensor(holding(term.stand.action_scale), dtype=torch.float32)
    stiffen(spots, 60.0)
    spots.task.early_termination = False
    spots.task.begin(EVERYBODY)
    term.place(tensors(starts()), EVERYBODY)
    term.stand.action = hold.clone()
    for step, swing in enumerate(swings()):
        _, reward, terminated, truncated, _ = spots.step(hold + torch.as_tensor(swing, dtype=torch.float32))
        state = spots.state()
        assert not (terminated | truncated).any()
        np.testing.assert_allclose(state.base_position.numpy(), wanted["positions"][step], atol=1e-4)
        np.testing.assert_allclose(state.base_quaternion.numpy(), wanted["quaternions"][step], atol=1e-4)
        np.testing.assert_allclose(state.joint_positions.numpy(), wanted["joints"][step], atol=1e-4)
        np.testing.assert_allclose(reward.numpy(), wanted["rewards"][step], rtol=1e-3, atol=2e-3)
    spots.task.early_termination = True


def test_falls_end_episodes_and_others_go_on(spots):
    reference, term = load(), spots.spots
    term.place(tensors(starts()), EVERYBODY)
    spots.task.begin(EVERYBODY)
    seen = []
    spots.watchers.append(seen.append)
    _, _, terminated, truncated, extras = spots.step(torch.as_tensor(holding(term.stand.action_scale)).float())
    spots.watchers.clear()
    assert terminated.tolist() == reference["terminated"] and not truncated.any()
    assert extras["holds"].tolist() == reference["holds"]
    assert seen[0].terminated.tolist() == reference["terminated"]
    lying = NAMES.index("lying")
    assert spots.episode_length_buf[lying] == 0
    assert spots.state().projected_gravity[lying, 2] < -0.9  # it stands again


def test_knees_are_limited_by_their_angle(spots):
    """Stiff knees that are told to bend far from where they are nearly straight: the table allows 40 N·m, not 113."""
    term = spots.spots
    stiffen(spots, 300.0)
    term.place(tensors(starts()), EVERYBODY)
    begin = term.state().joint_positions.clone()
    limits = JointTable(SPOT).torque_limits(begin)
    term.reader.command(begin - 1.0)
    spots.scene.write_data_to_sim()
    spots.sim.step()
    spots.scene.update(dt=spots.physics_dt)
    term.reader.note_step()
    torques = term.state().joint_torques.abs()
    torch.testing.assert_close(torques, limits, rtol=1e-4, atol=1e-3)
    knees = [i for i, name in enumerate(JOINT_NAMES) if name.endswith("kn")]
    assert float(limits[:, knees].min()) < 50.0 < float(limits[:, knees].max())


def test_everything_that_can_be_randomized_is():
    kinds = [kind for kind in randomization.KINDS if kind != "delay"]  # latency is one
    env = make_env("spot-handstand", backend="mjlab", num_envs=3, device="cpu", seed=1, randomize=kinds, limiter=True)
    observation, _ = env.reset(seed=1)
    model, robot = env.sim.model, env.scene["robot"]
    friction = model.geom_friction[:, robot.indexing.geom_ids[0], 0]
    low, high = randomization.FRICTION
    assert ((friction >= low) & (friction <= high)).all() and len(friction.unique()) == 3
    base = int(robot.indexing.body_ids[robot.body_names.index(LINK_NAMES[0])])
    offset = model.body_mass[:, base] - float(env.sim.mj_model.body_mass[base])
    assert (offset.abs() <= randomization.MASS + 1e-4).all() and len(offset.unique()) == 3
    assert (model.dof_frictionloss[:, robot.indexing.joint_v_adr] > 0).all()
    raw = model.actuator_gainprm[:, :, 0]
    assert ((raw > 35.9) & (raw < 44.1)).all() and len(raw.unique()) > 30
    np.testing.assert_allclose(to_numpy(env.actuator_backend.gains().stiffness), 40.0, rtol=1e-6)
    again, _ = env.reset(seed=1)
    torch.testing.assert_close(again["policy"], observation["policy"])  # a seed says it all
    before = env.state().base_linear_velocity.norm(dim=1)
    push(env, torch.tensor([1]), SceneEntityCfg("robot"), (0, 1, 2))
    pushed = (env.state().base_linear_velocity.norm(dim=1) != before).tolist()
    assert pushed == [False, True, False]
    with torch.inference_mode():
        for _ in range(3):
            env.step(torch.zeros(3, 12))
    env.reset()  # outside of inference mode, after steps inside
    env.close()
