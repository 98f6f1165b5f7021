"""Two ranks under gloo in Isaac Lab and in mjlab themselves: one K, after a resume too, and no rank left waiting."""

from __future__ import annotations

import importlib.util
import json

import pytest
from rank_helpers import ranks

pytestmark = [pytest.mark.slow]

OPTIONS = {
    "mjlab": {},
    "isaaclab": {"engine": "physx" if importlib.util.find_spec("ovphysx") else "newton", "source": "generated"},
}
SIMULATORS = [
    pytest.param("mjlab", marks=pytest.mark.mjlab),
    pytest.param("isaaclab", marks=pytest.mark.isaac),
]

RANK = """
import json, os
import torch
torch.set_num_threads(1)
from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig, make_env
from adc_wrappers.core.errors import BackendError
from adc_wrappers.rsl_rl import CurriculumRunner
from adc_wrappers.rsl_rl.config import paper_config
from adc_wrappers.rsl_rl.vec_env import TensorVecEnv

backend, options, folder = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
rank = int(os.environ["RANK"])
# the ranks' episodes differ in length, so that one who counted its own alone would have another K
env = make_env(
    "spot-handstand", backend=backend, num_envs=2, device="cpu", seed=rank, time_limit=3 + 3 * rank, randomize=False,
    **options,
)
curriculum = CurriculumConfig(length_max=12.0, ema=0.5)

class Watched(CurriculumRunner):
    def __init__(self):
        self.stiffness = []
        wrapped = ActuatorCurriculumWrapper(env, curriculum)
        super().__init__(TensorVecEnv(wrapped), paper_config(2, n_steps=8, hidden=(8,)), None, "cpu")

    def after_iteration(self, losses):
        live = self.curriculum_env.adc.backend.gains().stiffness
        self.stiffness.append([float(live.min()), float(live.max())])

first = Watched()
first.learn(2)
first.save(f"{folder}/rank{rank}.pt")
torch.distributed.barrier()  # all load what the first has written
again = Watched()
again.load(f"{folder}/rank0.pt", map_location="cpu")
resumed = float(again.curriculum_env.adc.backend.gains().stiffness[0, 0])
again.learn(2)
if rank == 1:
    actuators = again.curriculum_env.adc.backend
    gains = actuators.gains()
    actuators.set_gains(1.1 * gains.stiffness, gains.damping)
try:
    again.learn(2)
    told = ""
except BackendError as error:
    told = str(error)
print(json.dumps([first.stiffness, resumed, again.stiffness, told]), flush=True)
os._exit(0)  # engines that are taken down with half a process group alive may hang
"""


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_two_ranks_keep_one_stiffness(simulator, free_port, tmp_path):
    pytest.importorskip(simulator, reason=f"needs {simulator}: see the Makefile")
    first, second = ranks(RANK, 2, free_port, simulator, json.dumps(OPTIONS[simulator]), tmp_path)
    trained, resumed, later, other = first
    assert second[:3] == [trained, resumed, later]
    assert all(low == high for low, high in (*trained, *later))
    assert 40.0 < trained[-1][0] < trained[0][0] < 60.0  # both ranks' episodes moved it
    assert resumed == pytest.approx(trained[-1][0], rel=1e-6)
    assert later[-1][0] <= resumed
    assert "the gains of 1 other rank(s) are not what was written" in other
    assert "were changed behind the curriculum" in second[3]
