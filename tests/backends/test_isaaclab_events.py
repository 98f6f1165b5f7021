"""Isaac Lab's own randomization of gains, on Isaac Lab itself: refused, and replaced by a factor per env."""

from __future__ import annotations

import importlib.util

import pytest

pytest.importorskip("isaaclab", reason="needs Isaac Lab 3: make test-isaac")
pytestmark = [pytest.mark.isaac]

import torch  # noqa: E402
from isaac_helpers import close, gain_event, make_rig  # noqa: E402
from isaaclab.managers import EventTermCfg  # noqa: E402

from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig  # noqa: E402
from adc_wrappers.backends.isaaclab import IsaacLabBackend, randomize_gain_factors  # noqa: E402
from adc_wrappers.core.errors import BackendError  # noqa: E402

PHYSX = pytest.param(
    "physx", marks=pytest.mark.skipif(importlib.util.find_spec("ovphysx") is None, reason="needs ovphysx")
)
ENGINES = ["newton", PHYSX]


@pytest.mark.parametrize("engine", ENGINES)
def test_randomized_gains_are_refused_and_a_factor_is_the_way(engine, tmp_path):
    env = make_rig(tmp_path, engine, native=True, event=gain_event("reset"))
    with pytest.raises(BackendError, match=r"'gains'.*randomize_gain_factors"):
        IsaacLabBackend(env)
    close(env)
    factors = EventTermCfg(func=randomize_gain_factors, mode="reset", params={"stiffness_range": (0.5, 2.0)})
    env = make_rig(tmp_path, engine, native=True, event=factors)
    wrapped = ActuatorCurriculumWrapper(env, CurriculumConfig(), backend=IsaacLabBackend)
    wrapped.reset()
    backend = wrapped.adc.backend
    live = torch.cat([group.read()[0] for group in backend.groups], dim=1)
    wrapped.adc.verify()
    close(env)
    assert ((live > 29.9) & (live < 120.1)).all()
    assert live.std() > 5.0
