"""Isaac Lab's modules as far as our Spot for it needs them to be imported: configs keep what they are given."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym
import torch

_OWN = "adc_wrappers.envs.spot_isaaclab"


class Cfg(SimpleNamespace):
    """Any config class."""

    InitialStateCfg = SimpleNamespace


class FakeDirectRLEnv(gym.Env):
    """``DirectRLEnv`` without a simulator: the order in which a step asks a task for things, and same-step resets."""

    def __init__(self, cfg: Any, render_mode: str | None = None, **kwargs: Any) -> None:
        self.cfg, self.num_envs, self.device = cfg, cfg.num_envs, "cpu"
        self.step_dt, self.physics_dt, self.max_episode_length = 0.02, 0.002, cfg.max_episode_length
        self.action_space = gym.spaces.Box(-1.0, 1.0, (self.num_envs, 12))
        self.observation_space = gym.spaces.Box(-10.0, 10.0, (self.num_envs, 45))
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.extras: dict[str, Any] = {}
        self.scene = _Scene()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._reset_idx(torch.arange(self.num_envs))
        return self._get_observations(), self.extras

    def step(self, action: torch.Tensor) -> Any:
        self._pre_physics_step(action)
        self._apply_action()
        self.episode_length_buf += 1
        terminated, truncated = self._get_dones()
        reward = self._get_rewards()
        ended = (terminated | truncated).nonzero().flatten()
        if len(ended):
            self._reset_idx(ended)
        return self._get_observations(), reward, terminated, truncated, self.extras

    def _reset_idx(self, env_ids: torch.Tensor) -> None:
        self.episode_length_buf[env_ids] = 0


class _Scene(dict[str, Any]):
    """A scene in which nothing is."""

    env_origins = None

    def __missing__(self, name: str) -> None:
        return None


class FakeReader:
    """``SpotReader`` of robots that are where ``now`` says, whatever is done to them."""

    now: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def state(self) -> Any:
        return self.now

    def command(self, targets: torch.Tensor) -> None:
        pass

    def place(self, *args: Any) -> None:
        pass


def fake_spots(state: Any, max_episode_length: int = 1000, **settings: Any) -> Any:
    """Our Spots for Isaac Lab without it, in a state of tensors; put others into ``env.reader.now``."""
    with stubbed("env") as module:
        module.SpotReader = type("Reader", (FakeReader,), {"now": state})
        cfg = Cfg(num_envs=len(state.joint_positions), max_episode_length=max_episode_length)
        cfg.settings = {"randomize": False, **settings}
        return module.SpotStandIsaacEnv(cfg)


def _modules() -> dict[str, ModuleType]:
    members: dict[str, dict[str, Any]] = {
        "isaaclab": {},
        "isaaclab.sim": {"UsdFileCfg": Cfg},
        "isaaclab.actuators": {"DelayedPDActuatorCfg": Cfg, "RemotizedPDActuatorCfg": Cfg},
        "isaaclab.assets": {"ArticulationCfg": Cfg},
        "isaaclab.envs": {"DirectRLEnv": FakeDirectRLEnv},
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
