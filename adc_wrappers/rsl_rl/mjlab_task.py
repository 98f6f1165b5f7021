"""The handstand as one of mjlab's own tasks; mjlab imports this module by itself (entry point ``mjlab.tasks``)."""

from __future__ import annotations

import dataclasses
from typing import Any

from mjlab.rl import MjlabOnPolicyRunner, RslRlModelCfg, RslRlOnPolicyRunnerCfg, RslRlPpoAlgorithmCfg
from mjlab.tasks.registry import list_tasks, register_mjlab_task

# From the modules themselves: their packages may be what imports mjlab, and be half made while this is read.
from adc_wrappers.backends.mjlab.backend import MjlabBackend
from adc_wrappers.backends.mjlab.env import GymMjlabEnv, as_gym
from adc_wrappers.core import ActuatorCurriculumWrapper, CurriculumConfig
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.envs.spot_mjlab.cfg import HANDSTAND_ID, handstand_cfg
from adc_wrappers.envs.spot_mjlab.env import SpotStandMjlabEnv
from adc_wrappers.training.recipes import PAPER_PPO

from .config import paper_runner_config
from .runner import CurriculumRunner
from .vec_env import OBSERVATION_GROUP

__all__ = ["HandstandRunner", "MjlabCurriculumRunner", "agent_cfg"]


class MjlabCurriculumRunner(CurriculumRunner, MjlabOnPolicyRunner):
    """Runner for mjlab's own ``train`` and ``play`` that puts a curriculum around the env; subclass it with yours.

    ``play`` gives it no folder to log to: the env is then pinned at the target gains.

    Args:
        env: mjlab's ``RslRlVecEnvWrapper``, without a curriculum in it.
        train_cfg: RSL-RL's config.
        log_dir: Where checkpoints go; None: nothing is trained.
        device: Where the policy lives.

    Raises:
        CurriculumError: Something stands between the env and RSL-RL's view of it, such as mjlab's video recorder.

    Example::

        class Runner(MjlabCurriculumRunner):
            curriculum = CurriculumConfig(start_stiffness={"*": 60.0}, target_stiffness={"*": 40.0})

        register_mjlab_task("My-Task", env_cfg, play_env_cfg, rl_cfg, Runner)
    """

    curriculum: CurriculumConfig | None = None
    """The curriculum; None for what the env recommends, else the paper's."""

    env_class: type[GymMjlabEnv] = GymMjlabEnv
    """What mjlab's plain env becomes."""

    def __init__(self, env: Any, train_cfg: dict[str, Any], log_dir: str | None = None, device: str = "cpu") -> None:
        if env.env is not env.unwrapped:
            raise CurriculumError(
                f"expected mjlab's env inside {type(env).__name__}, got {type(env.env).__name__}: the curriculum's "
                "wrapper goes between the two. Leave --video out."
            )
        inner = as_gym(env.unwrapped, self.env_class)
        backend = None if hasattr(inner, "actuator_backend") else MjlabBackend
        env.env = ActuatorCurriculumWrapper(env.env, self.curriculum, backend=backend, training=log_dir is not None)
        env.reset()
        super().__init__(env, train_cfg, log_dir, device)


class HandstandRunner(MjlabCurriculumRunner):
    """The runner of ``ADC-Spot-Handstand``."""

    env_class = SpotStandMjlabEnv


def agent_cfg() -> RslRlOnPolicyRunnerCfg:
    """Return the paper's PPO and networks as mjlab's ``train`` takes them."""
    paper = paper_runner_config()
    known = {field.name for field in dataclasses.fields(RslRlPpoAlgorithmCfg)} - {"class_name"}
    algorithm = {name: value for name, value in paper["algorithm"].items() if name in known}
    network = {"hidden_dims": tuple(PAPER_PPO.hidden), "activation": paper["actor"]["activation"]}
    gaussian = {"class_name": "GaussianDistribution", "init_std": PAPER_PPO.initial_std, "std_type": "log"}
    return RslRlOnPolicyRunnerCfg(
        experiment_name="adc_spot_handstand",
        logger="tensorboard",
        num_steps_per_env=PAPER_PPO.n_steps,
        max_iterations=PAPER_PPO.iterations,
        obs_groups={"actor": (OBSERVATION_GROUP,), "critic": (OBSERVATION_GROUP,)},
        actor=RslRlModelCfg(**network, distribution_cfg=gaussian),
        critic=RslRlModelCfg(**network),
        algorithm=RslRlPpoAlgorithmCfg(**algorithm),
    )


if HANDSTAND_ID not in list_tasks():
    register_mjlab_task(
        HANDSTAND_ID, handstand_cfg(), handstand_cfg(num_envs=16, randomize=False), agent_cfg(), HandstandRunner
    )
