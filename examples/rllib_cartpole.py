"""Train a cart-pole with RLlib on two env-runner processes while its cart softens from K = 36 to K = 6.25 N/m.

Run it again with the same folder: it goes on from the last whole checkpoint, curriculum included, also after a kill.

    python examples/rllib_cartpole.py runs/rllib-cartpole 60
"""

import sys

import ray
from ray.rllib.algorithms.ppo import PPO, PPOConfig

from adc_wrappers import CurriculumConfig
from adc_wrappers.rllib import add_curriculum, find_curriculum, latest_checkpoint, save_checkpoint

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/rllib-cartpole"
iterations = int(sys.argv[2]) if len(sys.argv) > 2 else 60
batch = int(sys.argv[3]) if len(sys.argv) > 3 else 2048

config = (
    PPOConfig()
    .environment("ADC/CartPole-v0", env_config={"backend": "analytic"})
    .env_runners(num_env_runners=2, num_envs_per_env_runner=8, gym_env_vectorize_mode="vector_entry_point")
    .training(train_batch_size_per_learner=batch, minibatch_size=256, num_epochs=10, lr=1e-3, gamma=0.99, lambda_=0.95)
    .evaluation(evaluation_interval=10, evaluation_duration=20)  # its env runner is pinned at the target gains
    .debugging(seed=0)
)
add_curriculum(config, CurriculumConfig(start_stiffness=36.0, target_stiffness=6.25, length_max=450, ema=0.1))

ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False)
saved = latest_checkpoint(folder)
algorithm = config.build_algo() if saved is None else PPO.from_checkpoint(str(saved))
curriculum = find_curriculum(algorithm)
if saved is not None:
    print(f"resumed at iteration {curriculum.iteration}: K {curriculum.stiffness[0]:.6f}", flush=True)

while curriculum.iteration < iterations:
    result = algorithm.train()
    adc = result["adc"]
    line = f"iteration {curriculum.iteration:3d}: K {adc['stiffness']:.6f}, {adc['episodes']} episodes"
    if curriculum.iteration % 10 == 0:
        line += f", {result['evaluation']['env_runners']['episode_len_mean']:.0f} of 500 steps at the target stiffness"
    save_checkpoint(algorithm, folder)
    print(line, flush=True)

algorithm.stop()
print(f"K came to {curriculum.stiffness[0]:.2f}")
