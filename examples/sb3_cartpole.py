"""Train a cart-pole with Stable-Baselines3 while its cart softens from K = 36 to K = 6.25 N/m."""

import sys

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from adc_wrappers import CurriculumConfig, make_env
from adc_wrappers.sb3 import ActuatorCurriculumVecEnv, CurriculumCallback

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 150_000
curriculum = CurriculumConfig(start_stiffness=36.0, target_stiffness=6.25, length_max=450)

venv = DummyVecEnv([lambda: make_env("cartpole", backend="pybullet")] * 8)
venv = VecMonitor(ActuatorCurriculumVecEnv(venv, curriculum))
model = PPO("MlpPolicy", venv, n_steps=256, batch_size=512, verbose=1, seed=0, device="cpu")
model.learn(steps, callback=CurriculumCallback())  # closes an iteration after every rollout, logs adc/*

with venv.evaluation():  # joints at exactly the target stiffness
    observation, lengths = venv.reset(), []
    while len(lengths) < 40:
        observation, _, _, infos = venv.step(model.predict(observation, deterministic=True)[0])
        lengths += [info["episode"]["l"] for info in infos if "episode" in info]
print(f"K came to {venv.curriculum.stiffness[0]:.2f}")
print(f"at the target stiffness an episode lasts {sum(lengths) / len(lengths):.0f} of 500 steps")
