"""Train Spot's handstand in Isaac Lab with RSL-RL and the curriculum: 4096 robots on a GPU, as in the paper.

    python examples/isaaclab/train.py
    python examples/isaaclab/train.py --resume
    torchrun --nproc-per-node 4 examples/isaaclab/train.py --distributed
    python examples/isaaclab/train.py --device cpu --num-envs 8 --iterations 2 --source generated   # only to see it run

Every checkpoint (``model_*.pt``) holds the curriculum. The last lines evaluate at the target stiffness.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import torch
from common import local_device, options, rank, simulator

import adc_wrappers
from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig


def newest(folder: Path) -> Path | None:
    """The checkpoint with the most iterations."""
    found = sorted(folder.glob("model_*.pt"), key=lambda path: int(path.stem.split("_")[1]))
    return found[-1] if found else None


def main() -> None:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--length-max", type=float, default=1000.0, help="mean episode length at which K = K_*")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in --out")
    parser.add_argument("--distributed", action="store_true", help="one process per GPU, under torchrun")
    arguments = parser.parse_args()
    folder = Path(arguments.out)
    with simulator(arguments) as make_config:
        from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper

        from adc_wrappers.envs.spot_isaaclab import HANDSTAND_ID
        from adc_wrappers.rsl_rl import CurriculumRunner
        from adc_wrappers.rsl_rl.config import paper_config

        env = gym.make(HANDSTAND_ID, cfg=make_config())
        env = ActuatorCurriculumWrapper(env, CurriculumConfig(length_max=arguments.length_max))
        rsl_env = RslRlVecEnvWrapper(env)
        runner = CurriculumRunner(
            rsl_env, paper_config(arguments.num_envs), str(folder), device=local_device(arguments)
        )
        checkpoint = newest(folder) if arguments.resume else None
        if checkpoint is not None:
            runner.load(str(checkpoint))
            print(f"resumed {checkpoint} at K = {env.adc.report['stiffness']:g}")
        remaining = arguments.iterations - env.curriculum.iteration
        if remaining > 0:
            runner.learn(remaining, init_at_random_ep_len=True)
        if rank() == 0:
            runner.save(str(folder / f"model_{env.curriculum.iteration}.pt"))
            print(f"{folder}: K = {env.adc.report['stiffness']:g} after {env.curriculum.iteration} iterations")
        with env.evaluation(), torch.inference_mode():
            print(f"mean reward at the target gains: {evaluate(rsl_env, runner):.3f} per step")
        rsl_env.close()


def evaluate(env, runner, steps: int = 100) -> float:
    """Mean reward of the deterministic policy over a few steps."""
    policy = runner.get_inference_policy()
    observation, _ = env.reset()
    total = 0.0
    for _ in range(steps):
        observation, reward, _, _ = env.step(policy(observation))
        total += float(reward.mean())
    return total / steps


if __name__ == "__main__":
    print(f"adc-wrappers {adc_wrappers.__version__}")
    main()
