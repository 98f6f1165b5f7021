"""Isaac Lab's modules as far as our Spot for it needs them to be imported: configs keep what they are given."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym

_OWN = "adc_wrappers.envs.spot_isaaclab"


class Cfg(SimpleNamespace):
    """Any config class."""

    InitialStateCfg = SimpleNamespace


def _modules() -> dict[str, ModuleType]:
    members: dict[str, dict[str, Any]] = {
        "isaaclab": {},
        "isaaclab.sim": {"UsdFileCfg": Cfg},
        "isaaclab.actuators": {"DelayedPDActuatorCfg": Cfg, "RemotizedPDActuatorCfg": Cfg},
        "isaaclab.assets": {"ArticulationCfg": Cfg},
        "isaaclab.envs": {"DirectRLEnv": type("DirectRLEnv", (), {})},
        f"{_OWN}.cfg": {"SpotHandstandEnvCfg": Cfg},
    }
    made = {name: ModuleType(name) for name in members}
    for name, values in members.items():
        vars(made[name]).update(values)
    made["isaaclab"].sim = made["isaaclab.sim"]  # type: ignore[attr-defined]
    return made


@contextmanager
def stubbed(module: str) -> Iterator[Any]:
    """Import ``assets`` or ``env`` of our Spot for Isaac Lab over stubs, and leave nothing of it behind."""
    before, registered = dict(sys.modules), set(gym.registry)
    for name in [name for name in sys.modules if name.startswith(("isaaclab", _OWN))]:
        del sys.modules[name]
    sys.modules.update(_modules())
    try:
        yield importlib.import_module(f"{_OWN}.{module}")
    finally:
        for name in [name for name in sys.modules if name.startswith(("isaaclab", _OWN))]:
            del sys.modules[name]
        sys.modules.update({name: old for name, old in before.items() if name.startswith(("isaaclab", _OWN))})
        parent = vars(importlib.import_module("adc_wrappers.envs"))
        if _OWN in before:
            parent["spot_isaaclab"] = before[_OWN]
        else:
            parent.pop("spot_isaaclab", None)
        for name in set(gym.registry) - registered:
            del gym.registry[name]
