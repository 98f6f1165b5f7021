"""Scripted envs and a small PPO for tests of the RSL-RL adapter."""

from __future__ import annotations

from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers import FakeBackend, ScriptedEnv
from tensordict import TensorDict

from adc_wrappers import (
    ActuatorCurriculumVectorWrapper,
    CurriculumConfig,
)
from adc_wrappers.rsl_rl import CurriculumRunner, RslRlVecEnv
from adc_wrappers.training import PpoConfig

FAST = CurriculumConfig(start_stiffness=60.0, target_stiffness=40.0, length_max=12, ema=0.5)


TINY = PpoConfig(total_steps=256, num_envs=4, n_steps=8, batch_size=16, n_epochs=1, hidden=(8,))


LENGTHS = [[3, 7], [5, 4], [11, 2], [8, 8]]


def scripted(rows=LENGTHS, mode=AutoresetMode.SAME_STEP, **wrapper):
    envs = SyncVectorEnv([lambda row=row: ScriptedEnv(row) for row in rows], autoreset_mode=mode)
    backend = FakeBackend(len(rows))
    return ActuatorCurriculumVectorWrapper(envs, FAST, backend=backend, **wrapper)


class Watched(CurriculumRunner):
    """A runner that notes K after every iteration."""

    def after_iteration(self, losses):
        self.stiffness = [*getattr(self, "stiffness", []), self.curriculum_env.adc.report["stiffness"]]


class Lab(RslRlVecEnv):
    """Isaac Lab's own wrapper for RSL-RL as seen from here: an env that has the curriculum's wrapper in it."""

    def __init__(self, env):
        self.env, self.num_envs, self.max_episode_length = env, env.unwrapped.num_envs, 20
        self.num_actions = env.action_space.shape[-1]
        self.device, self.cfg = "cpu", {}
        self._observation = self.pack(env.reset()[0])

    def pack(self, observation):
        return TensorDict(observation, batch_size=[self.num_envs])

    def step(self, actions):
        observation, reward, terminated, truncated, extras = self.env.step(actions)
        self._observation = self.pack(observation)
        return self._observation, reward, (terminated | truncated).long(), extras
