"""skrl's PPO on any task, with the curriculum around the vector env and closed once per update.

skrl has no callbacks: the agent's own ``update`` is where an iteration ends, so a small subclass closes it there, logs
it under ``adc /``, and puts the curriculum into skrl's checkpoints (``agent.save`` and ``agent.load`` restore it).

How skrl 2.1 treats the end of an episode, which matters with envs that reset finished envs in the same step (as all of
``make_env`` do; Gymnasium's own default is the next step, whose extra reset steps skrl would learn from):

- It never looks at ``final_obs``: what it takes for the observation after a step is already the next episode's first.
- With its default ``time_limit_bootstrap=False`` an episode that was cut by the time limit is not even ended: the
  advantage runs on into the next one.
- With ``time_limit_bootstrap=True`` the episode ends there, and γ V(next observation) is added to the reward: the value
  of the next episode's start instead of the value of where this one was cut.

Here it is switched on, and the subclass hands the true last observation to the bootstrap. Against RSL-RL's PPO: a
clipped value loss takes the clipped prediction's error alone (here it is not clipped), the learning rate follows a
sampled KL once per epoch (exact, once per minibatch there), gradients are clipped together for both networks, and
minibatches are drawn anew every epoch.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.resources.schedulers.torch import KLAdaptiveLR
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

from adc_wrappers import ActuatorCurriculumVectorWrapper, make_env
from adc_wrappers.runs.evaluation import evaluate


@dataclass
class Args:
    """Options; the defaults are for the cart-pole."""

    task: str = "cartpole"
    """Name of the task."""
    backend: str | None = None
    """Engine; by default the closed form for a cart-pole, and a robot's first."""
    steps: int = 300_000
    """Env steps in all."""
    num_envs: int = 16
    """Envs that are stepped together; at least two, or skrl resets by itself."""
    num_steps: int = 128
    """Policy steps per env in one iteration."""
    hidden: int = 64
    """Units in each of two hidden layers."""
    out: Path = Path("runs/skrl-example")
    """Where logs and checkpoints go."""
    eval_episodes: int = 50
    """Episodes at the target stiffness after training."""
    seed: int = 0
    """Seed of envs and networks."""


def network(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(), nn.Linear(hidden, outputs)
    )


class Policy(GaussianMixin, Model):
    """Mean from a network, deviation from a parameter."""

    def __init__(self, env, hidden: int) -> None:
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        GaussianMixin.__init__(self)
        self.net = network(self.num_observations, hidden, self.num_actions)
        self.log_std = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs, role):
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class Value(DeterministicMixin, Model):
    """One number from a network."""

    def __init__(self, env, hidden: int) -> None:
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        DeterministicMixin.__init__(self)
        self.net = network(self.num_observations, hidden, 1)

    def compute(self, inputs, role):
        return self.net(inputs["observations"]), {}


class CurriculumPPO(PPO):
    """skrl's PPO that closes the curriculum's iteration after every update."""

    def __init__(self, curriculum: ActuatorCurriculumVectorWrapper, **arguments) -> None:
        super().__init__(**arguments)
        self.curriculum = curriculum
        self.checkpoint_modules["curriculum"] = curriculum  # has state_dict() and load_state_dict()

    def update(self, *, timestep: int, timesteps: int) -> None:
        super().update(timestep=timestep, timesteps=timesteps)
        for name, value in self.curriculum.end_iteration().items():
            self.track_data(f"adc / {name}", value)

    def record_transition(self, *, next_observations, terminated, truncated, infos, **rest) -> None:
        cut = (truncated & ~terminated).flatten()
        if cut.any():  # the value of where the episode was cut, not of where the next one begins
            next_observations = next_observations.clone()
            last = np.stack(infos["final_obs"][cut.numpy()])
            next_observations[cut] = torch.as_tensor(last, device=next_observations.device)
        super().record_transition(
            next_observations=next_observations, terminated=terminated, truncated=truncated, infos=infos, **rest
        )


def settings(args: Args) -> PPO_CFG:
    return PPO_CFG(
        rollouts=args.num_steps,
        learning_epochs=10,
        mini_batches=4,
        discount_factor=0.99,
        gae_lambda=0.95,
        learning_rate=1e-3,
        learning_rate_scheduler=KLAdaptiveLR,
        learning_rate_scheduler_kwargs={"kl_threshold": 0.01, "min_lr": 1e-5, "max_lr": 3e-3},
        grad_norm_clip=1.0,
        ratio_clip=0.2,
        value_clip=0.0,  # returns are large beside 0.2
        value_loss_scale=0.5,
        time_limit_bootstrap=True,
        experiment={"directory": str(args.out.parent), "experiment_name": args.out.name},
    )


def main(args: Args) -> None:
    if args.num_envs < 2:
        raise SystemExit(f"--num-envs: expected at least 2, got {args.num_envs}.")
    set_seed(args.seed)
    torch.set_num_threads(1)
    backend = args.backend or ("analytic" if "cartpole" in args.task else None)
    curriculum = ActuatorCurriculumVectorWrapper(make_env(args.task, backend=backend, num_envs=args.num_envs))
    env = wrap_env(curriculum, wrapper="gymnasium")
    models = {"policy": Policy(env, args.hidden), "value": Value(env, args.hidden)}
    agent = CurriculumPPO(
        curriculum,
        models=models,
        memory=RandomMemory(memory_size=args.num_steps, num_envs=env.num_envs, device=env.device),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=env.device,
        cfg=settings(args),
    )
    iterations = max(1, args.steps // (args.num_steps * args.num_envs))
    timesteps = iterations * args.num_steps
    quiet = {"headless": True, "disable_progressbar": None, "close_environment_at_exit": False}
    SequentialTrainer(env=env, agents=agent, cfg={"timesteps": timesteps, **quiet}).train()
    agent.save(str(args.out / "agent.pt"))
    print(f"K came to {curriculum.curriculum.stiffness[0]:.2f} after {curriculum.curriculum.iteration} iterations")
    if args.eval_episodes:
        with torch.no_grad():
            result = evaluate(  # pins the target stiffness, and gives every env its share of the episodes
                lambda observation: models["policy"].net(torch.as_tensor(observation)).numpy(),
                curriculum.env,
                curriculum.curriculum.config,
                episodes=args.eval_episodes,
                seed=args.seed + 10_000,
            )
        length, success = result.lengths.mean(), result.successes.mean()
        print(f"at the target stiffness an episode lasts {length:.0f} steps, {success:.0%} succeed")
    print(f"run {args.out}")
    curriculum.close()


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
