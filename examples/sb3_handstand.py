"""Spot's handstand with Stable-Baselines3's PPO, at the settings nearest to the paper's, which are RSL-RL's.

All envs are one batch in this process; the curriculum's wrapper goes around the batch, and a callback closes its
iteration after every rollout. As in the paper: 24 steps per env and iteration, 5 epochs of 4 minibatches, γ 0.99,
λ 0.95, clip 0.2 (value too), entropy 0.0025, value loss 0.5, gradient norm 1, networks 512-256-128 with ELU, initial
deviation 1, learning rate from 1e-3 towards a KL of 0.01. Not as in the paper: the number of envs (4096 there), and a
fall costs 50 (10 there, which is less than standing on four feet costs; ``--fall-cost 10`` is the paper's).

What Stable-Baselines3 2.9 does otherwise than RSL-RL 5.5, with the same numbers:

- Value loss: SB3 takes the clipped prediction's error alone, so that the gradient vanishes where the prediction has
  moved by more than 0.2; RSL-RL takes the larger of the clipped and the plain error.
- Learning rate: RSL-RL follows the exact KL divergence of the Gaussians after every minibatch. Here it follows SB3's
  sampled estimate, averaged over the last epoch, once per iteration; same rule and bounds.
- Advantages: normalized per minibatch, not over the whole rollout.
- Gradient clipping: one norm over policy and value network together, not one each.
- Minibatches: drawn anew in every epoch; RSL-RL goes through the same four each time.
- Time limits: SB3 adds γ V(last observation of the episode), RSL-RL γ V(the observation before the last step).
- Start: orthogonal weights, and 0.01 of them in the policy's last layer, so that it begins at the nominal pose; RSL-RL
  keeps torch's. The logarithm of the deviation is learned, not the deviation. Adam's ε is 1e-5, not 1e-8.
- SB3 clips actions to the action space before the env sees them, RSL-RL does not; the task clips them anyway.
"""

from dataclasses import dataclass

import torch
import tyro
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

from adc_wrappers import ActuatorCurriculumVectorWrapper, make_env
from adc_wrappers.runs.evaluation import evaluate
from adc_wrappers.sb3 import CurriculumCallback, KLAdaptiveCallback, KLAdaptiveLearningRate, VectorEnvAdapter


@dataclass
class Args:
    """Options of the example."""

    steps: int = 5_000_000
    """Env steps in all."""
    num_envs: int = 256
    """Robots that are stepped together."""
    hidden: tuple[int, ...] = (512, 256, 128)
    """Hidden layers of both networks."""
    fall_cost: float = 50.0
    """What a fall costs."""
    eval_episodes: int = 50
    """Episodes at the target stiffness after training."""
    backend: str = "mujoco"
    """Engine."""
    seed: int = 0
    """Seed of envs and networks."""


def build(args: Args) -> tuple[PPO, ActuatorCurriculumVectorWrapper, KLAdaptiveLearningRate]:
    torch.set_num_threads(1)
    batch = make_env("spot-handstand", backend=args.backend, num_envs=args.num_envs, fall_cost=args.fall_cost)
    curriculum = ActuatorCurriculumVectorWrapper(batch)  # K 60 → 40, as the task recommends
    rate = KLAdaptiveLearningRate(1e-3, target_kl=0.01)
    layers = list(args.hidden)
    model = PPO(
        "MlpPolicy",
        VecMonitor(VectorEnvAdapter(curriculum)),
        learning_rate=rate,
        n_steps=24,
        batch_size=24 * args.num_envs // 4,
        n_epochs=5,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        clip_range_vf=0.2,
        ent_coef=0.0025,
        vf_coef=0.5,
        max_grad_norm=1.0,
        policy_kwargs={
            "net_arch": {"pi": layers, "vf": layers},
            "activation_fn": torch.nn.ELU,
            "log_std_init": 0.0,
        },
        verbose=1,
        seed=args.seed,
        device="cpu",
    )
    return model, curriculum, rate


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    model, curriculum, rate = build(args)
    model.learn(args.steps, callback=[KLAdaptiveCallback(rate), CurriculumCallback()])
    print(f"K came to {curriculum.curriculum.stiffness[0]:.2f} after {model.num_timesteps} steps")
    if args.eval_episodes:
        result = evaluate(  # pins the target stiffness, and gives every env its share of the episodes
            lambda observation: model.predict(observation, deterministic=True)[0],
            curriculum.env,
            curriculum.curriculum.config,
            episodes=args.eval_episodes,
            seed=args.seed + 10_000,
        )
        length, success = result.lengths.mean(), result.successes.mean()
        print(f"at the target stiffness an episode lasts {length:.0f} of 1000 steps, {success:.0%} succeed")
    curriculum.close()


if __name__ == "__main__":
    main()
