"""Run a handstand policy trained by train.py in Isaac Lab, at the identified stiffness.

python examples/isaaclab/play.py --checkpoint runs/isaaclab-handstand/model_10000.pt --num-envs 64
"""

from __future__ import annotations

import gymnasium as gym
import torch
from common import local_device, options, simulator

from adc_wrappers import ActuatorCurriculumWrapper


def main() -> None:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", required=True, help="model_*.pt of train.py")
    parser.add_argument("--steps", type=int, default=1000, help="policy steps; an episode has 1000")
    parser.set_defaults(num_envs=16)
    arguments = parser.parse_args()
    with simulator(arguments) as make_config:
        from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper
        from rsl_rl.runners import OnPolicyRunner

        from adc_wrappers.envs.spot_isaaclab import PLAY_ID
        from adc_wrappers.rsl_rl.config import paper_config

        env = gym.make(PLAY_ID, cfg=make_config(randomize=False))
        wrapped = ActuatorCurriculumWrapper(env, training=False)  # pins the target gains
        rsl_env = RslRlVecEnvWrapper(wrapped)
        device = local_device(arguments)
        runner = OnPolicyRunner(rsl_env, paper_config(arguments.num_envs), None, device=device)
        runner.load(arguments.checkpoint)
        policy = runner.get_inference_policy()
        with torch.inference_mode():
            play(rsl_env, policy, arguments.steps)
        print(f"K = {wrapped.adc.report['stiffness']:g}")
        rsl_env.close()


def play(env, policy, steps: int) -> None:
    """Step and count: falls, successes, and the share of time in the stance."""
    observation, _ = env.reset()
    falls = successes = ended = held = 0
    for _ in range(steps):
        observation, _, dones, extras = env.step(policy(observation))
        held += int(env.unwrapped.holds().sum())
        ended += int(dones.sum())
        successes += int(extras["is_success"].sum())
        falls += int((dones.bool() & ~extras["time_outs"]).sum())
    share = held / (steps * env.num_envs)
    print(
        f"{ended} episodes ended, {falls} by a fall, {successes} successes; in the stance {100 * share:.1f} % of steps"
    )


if __name__ == "__main__":
    main()
