"""mjlab itself on a CPU: gains by motion, per env and per kind of actuator; the curriculum under RSL-RL."""

from __future__ import annotations

import copy

import numpy as np
import pytest

pytest.importorskip("mjlab", reason="needs mjlab: make test-mjlab")
pytestmark = [pytest.mark.mjlab]

import torch  # noqa: E402
from mjlab.envs.mdp.dr import pd_gains  # noqa: E402
from mjlab.managers.event_manager import EventTermCfg  # noqa: E402
from mjlab.managers.scene_entity_config import SceneEntityCfg  # noqa: E402
from mjlab.rl import RslRlVecEnvWrapper  # noqa: E402
from mjlab_helpers import ARMATURE, ARMS, INERTIA, RigProbe, make_rig  # noqa: E402

from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig  # noqa: E402
from adc_wrappers.backends.mjlab import MjlabBackend  # noqa: E402
from adc_wrappers.core.actuators import to_numpy  # noqa: E402
from adc_wrappers.core.errors import BackendError  # noqa: E402
from adc_wrappers.rsl_rl import CurriculumRunner  # noqa: E402
from adc_wrappers.testing import check_backend  # noqa: E402

CONFIG = CurriculumConfig(length_max=20.0, ema=0.5)


@pytest.fixture(scope="module")
def env():
    made = make_rig()
    yield made
    made.close()


def test_gains_are_proven_by_motion_per_env_and_per_actuator(env):
    backend = MjlabBackend(env)
    assert backend.joint_names == tuple(ARMS)
    np.testing.assert_allclose(backend.effective_inertia(), INERTIA + ARMATURE, rtol=1e-6)
    # large steps, because a step is slow on a CPU: the tolerance is half of what tells the two stiffnesses apart
    assert check_backend(RigProbe(env, backend), (30.0, 60.0), tolerance=0.06) > 0


def test_one_env_is_one_env(env):
    """A field that is not expanded is one for all: what is written for env 1 must not be env 0's."""
    backend = MjlabBackend(env)
    backend.set_gains(np.full((2, 3), 40.0), np.full((2, 3), 3.0))
    backend.set_gains(np.full((1, 3), 55.0), np.full((1, 3), 4.0), np.array([1]))
    live = backend.gains()
    assert to_numpy(live.stiffness).tolist() == [[40.0] * 3, [55.0] * 3]
    assert to_numpy(live.damping).tolist() == [[3.0] * 3, [4.0] * 3]


def test_gains_changed_behind_the_curriculum_are_found_out(env):
    wrapped = ActuatorCurriculumWrapper(env, CONFIG, backend=MjlabBackend)
    wrapped.reset()
    wrapped.adc.verify()
    env.sim.model.actuator_gainprm[0, 0, 0] = 12.0
    with pytest.raises(BackendError, match="joint 'position' should be 60 and reads nan"):
        wrapped.adc.verify()
    env.sim.model.actuator_gainprm[0, 0, 0] = 60.0
    wrapped.adc.verify()


def test_rsl_rl_trains_and_a_checkpoint_holds_the_curriculum(tmp_path):
    made = make_rig(episode=0.05)  # five steps
    wrapped = ActuatorCurriculumWrapper(made, CONFIG, backend=MjlabBackend)
    model = {"class_name": "MLPModel", "hidden_dims": [8], "activation": "elu", "obs_normalization": False}
    gaussian = {"class_name": "GaussianDistribution", "init_std": 0.1, "std_type": "scalar"}
    algorithm = {"class_name": "PPO", "num_learning_epochs": 1, "num_mini_batches": 1}
    config = {
        "num_steps_per_env": 12, "save_interval": 50, "obs_groups": {"actor": ["actor"], "critic": ["actor"]},
        "actor": {**model, "distribution_cfg": gaussian}, "critic": model, "algorithm": algorithm,
    }  # fmt: skip
    runner = CurriculumRunner(RslRlVecEnvWrapper(wrapped), copy.deepcopy(config), str(tmp_path), device="cpu")
    runner.learn(2, init_at_random_ep_len=True)
    assert wrapped.curriculum.iteration == 2
    assert wrapped.adc.last_totals.mean_length == 5.0  # and no fragments
    assert wrapped.curriculum.length_ema == pytest.approx(0.75 * 5.0)
    assert 40.0 < wrapped.adc.report["stiffness"] < 60.0
    runner.save(str(tmp_path / "model.pt"))
    saved = wrapped.adc.report["stiffness"]
    again = ActuatorCurriculumWrapper(made, CONFIG, backend=MjlabBackend)
    resumed = CurriculumRunner(RslRlVecEnvWrapper(again), config, str(tmp_path / "again"), device="cpu")
    resumed.load(str(tmp_path / "model.pt"), map_location="cpu")
    np.testing.assert_allclose(to_numpy(again.adc.backend.gains().stiffness), saved, rtol=1e-5)
    with again.evaluation():
        np.testing.assert_allclose(to_numpy(again.adc.backend.gains().stiffness), 40.0, rtol=1e-6)
    made.close()


def test_its_own_randomization_of_gains_is_refused(env):
    ranges = {"kp_range": (0.8, 1.2), "kd_range": (0.8, 1.2), "asset_cfg": SceneEntityCfg("robot")}
    made = make_rig(gains=EventTermCfg(func=pd_gains, mode="reset", params=ranges))
    with pytest.raises(BackendError, match=r"'gains'.*overwrite"):
        MjlabBackend(made)
    made.close()
    with pytest.raises(BackendError, match="no entity 'robt'"):
        MjlabBackend(env, entity="robt")
    with pytest.raises(BackendError, match="Did you mean 'ideal'"):
        MjlabBackend(env, joints=["idel"])
    assert MjlabBackend(env, joints=["ideal"]).joint_names == ("ideal",)
    with pytest.raises(BackendError, match="expected shape"):
        MjlabBackend(env).set_gains(torch.ones(2, 2), torch.ones(2, 3))
