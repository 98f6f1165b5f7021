"""Teach Spot the handstand with RSL-RL on a CPU while its joints soften from K = 60 to K = 40 N·m/rad.

Without arguments it trains for 300 iterations (about 1.2 M steps, some minutes on two cores), enough to see the robot
kick up; ``adc train spot-handstand`` runs the same recipe to the end, with checkpoints and logs.
"""

import sys

import torch

from adc_wrappers import ActuatorCurriculumVectorWrapper, make_env
from adc_wrappers.rsl_rl import CurriculumRunner, RslRlVecEnv, runner_config
from adc_wrappers.training import default_config

iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 300
recipe = default_config("spot-handstand", "mujoco")
torch.manual_seed(0)

envs = make_env("spot-handstand", num_envs=recipe.ppo.num_envs, **recipe.training_settings)
envs = ActuatorCurriculumVectorWrapper(envs, recipe.curriculum)
env = RslRlVecEnv(envs, reward_scale=recipe.ppo.reward_scale, seed=0)
runner = CurriculumRunner(env, runner_config(recipe.ppo, env), log_dir="runs/rsl_rl_handstand")
runner.learn(iterations)  # closes an iteration after every update, saves the curriculum in every checkpoint

policy = runner.get_inference_policy("cpu")
with envs.evaluation(), torch.inference_mode():  # joints at exactly the target stiffness
    observation, holding = env.reset(seed=1), 0.0
    for _ in range(250):
        observation, _, _, extras = env.step(policy(observation))
        holding += extras["log"]["task/holds"] / 250
print(f"K came to {envs.curriculum.stiffness[0]:.2f}")
print(f"at the target stiffness {holding:.1%} of the time is spent in the handstand")
env.close()
