"""Stop a training run and go on with it later, curriculum included.

Run it twice with the same folder: the second run finds what the first one saved and continues.
"""

import sys
from pathlib import Path

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from adc_wrappers import make_env
from adc_wrappers.sb3 import ActuatorCurriculumVecEnv, CurriculumCallback

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/resume-example")
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
model_file, curriculum_file = folder / "model.zip", folder / "curriculum.json"

venv = DummyVecEnv([lambda: make_env("cartpole", backend="pybullet")] * 8)
if curriculum_file.exists():
    venv = ActuatorCurriculumVecEnv.load(curriculum_file, venv)
    model = PPO.load(model_file, venv, device="cpu")
    print(f"resumed at {model.num_timesteps} steps and K = {venv.curriculum.stiffness[0]:.3f}")
else:
    venv = ActuatorCurriculumVecEnv(venv)
    model = PPO("MlpPolicy", venv, n_steps=256, batch_size=512, seed=0, device="cpu")
    print(f"started at K = {venv.curriculum.stiffness[0]:.3f}")

model.learn(steps, callback=CurriculumCallback(), reset_num_timesteps=False)

model.save(model_file)
venv.save(curriculum_file)
print(f"saved at {model.num_timesteps} steps and K = {venv.curriculum.stiffness[0]:.3f}")
