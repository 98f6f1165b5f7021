"""Time and samples from nothing to a held stance, per recipe and trainer, over seeds.

A learner is a trainer with a recipe: `rsl_rl:default`, `sb3:default`, `cleanrl:default`, and for the recipe of another
day the settings of one of its runs, `rsl_rl:path/of/config.json`. `sb3` is Stable-Baselines3's PPO through this
library's adapter and `cleanrl` the loop of examples/cleanrl_style.py, both with the recipe's envs, steps, epochs,
minibatches, network sizes, reward and curriculum, and without what only our PPO has (mirrored networks, scaled
observations and rewards, bounded deviation, annealing).

All learners of a seed take turns, an iteration each, every one in a process of its own, so that what else the machine
does meets all of them. The time of a learner is what its main thread uses of a CPU in its own turns: on idle cores that
is the time it takes. Imports and evaluations are not counted. Half of the steps are in the stance when they are so over
ten iterations; 90 % success is that of the mean action at exactly the target stiffness, evaluated at equal distances. A
learner stops when it has reached both, or at the end of its budget. The table has medians over seeds, with 95 %
intervals of the median (bootstrap; a seed that did not get there counts as later than all others), and how many seeds
got there.

    python benchmarks/learning.py --task spot-planar-handstand --seeds 101 102 103 104 105 --write
    python benchmarks/learning.py --task spot-handstand --seeds 101 102 103 --write

What is done is kept in `--folder`; the same command goes on where it was stopped, from the newest checkpoints.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import adc_wrappers
from adc_wrappers.core.errors import did_you_mean
from adc_wrappers.envs.task_env import TaskVectorEnv
from adc_wrappers.runs import RunFolder
from adc_wrappers.runs.folder import source_commit
from adc_wrappers.training import PpoConfig, TrainConfig, default_config
from adc_wrappers.training.evaluating import EvaluationSetup, evaluate_policy
from adc_wrappers.training.trained import TrainedPolicy, load_trained
from adc_wrappers.training.trainer import find_trainer, steps_done

STANCE, WINDOW = 0.5, 10
"""Share of steps in the stance, and iterations over which it is taken."""
SUCCESS = 0.9
TRAINERS = ("rsl_rl", "sb3", "cleanrl")
LEARNERS = ("rsl_rl:default", "sb3:default", "cleanrl:default")
EVALUATION_SEED = 777_000
RESAMPLED = 4000
Row = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Learner:
    """A trainer with a recipe."""

    name: str
    """As on the command line."""

    trainer: str
    """One of :data:`TRAINERS`."""

    recipe: str
    """Name of a recipe, or a run's ``config.json``."""

    @classmethod
    def parse(cls, text: str) -> Learner:
        """Read ``trainer:recipe``."""
        trainer, _, recipe = text.partition(":")
        if trainer not in TRAINERS:
            raise ValueError(f"learner {text!r}: expected trainer:recipe. {did_you_mean(trainer, TRAINERS)}")
        return cls(text, trainer, recipe or "default")

    def config(self, task: str, seed: int, steps: int | None, evaluations: int) -> TrainConfig:
        """Return the settings of a training, with a checkpoint at each evaluation."""
        if self.recipe.endswith(".json"):
            config = TrainConfig.from_dict(json.loads(Path(self.recipe).read_text()))
            if config.task != task:
                raise ValueError(f"learner {self.name!r}: the settings are of {config.task}, the benchmark of {task}.")
        else:
            config = default_config(task, "mujoco", recipe=None if self.recipe == "default" else self.recipe)
        ppo = config.ppo if steps is None else dataclasses.replace(config.ppo, total_steps=steps)
        if self.trainer != "rsl_rl":
            own = {name: getattr(PpoConfig(), name) for name in _OURS}
            ppo = dataclasses.replace(ppo, **own)
        curriculum = dataclasses.replace(config.curriculum, seed=seed)
        if config.curriculum.hold_share or config.curriculum.driver == "time":
            curriculum = dataclasses.replace(curriculum, total_iterations=ppo.iterations)
        return dataclasses.replace(
            config, seed=seed, ppo=ppo, curriculum=curriculum, trainer="rsl_rl" if self.trainer == "rsl_rl" else "sb3",
            workers="batch", checkpoint_every=max(1, ppo.iterations // evaluations),
        )  # fmt: skip


_OURS = (
    "mirrored", "equivariant", "sideways_std", "scale_observations", "output_gain", "reward_scale", "min_std",
    "final_target_kl", "final_entropy_coef",
)  # fmt: skip


class StanceShare:
    """Share of the envs that are in the stance, over the steps since it was last asked."""

    def __init__(self) -> None:
        self._held, self._seen = 0, 0
        self.began: tuple[float, float] | None = None
        """CPU and wall time at the first episode: what comes before is imports and models."""

    def begin(self, env_ids: Any) -> None:
        """Note the time of the first episode."""
        if self.began is None:
            self.began = time.thread_time(), time.perf_counter()

    def step(self, outcome: Any) -> None:
        """Count."""
        self._held += int(outcome.holds.sum())
        self._seen += len(outcome.holds)

    def take(self) -> float:
        """Return the share and begin anew."""
        share = self._held / max(self._seen, 1)
        self._held = self._seen = 0
        return share

    @contextlib.contextmanager
    def of_the_next_batch(self, num_envs: int) -> Iterator[None]:
        """Watch the first batch of this size that is made inside the block: the training's own."""
        plain, waiting = TaskVectorEnv.__init__, [self]

        def watched(env: TaskVectorEnv, *args: Any, **kwargs: Any) -> None:
            plain(env, *args, **kwargs)
            if waiting and env.num_envs == num_envs:
                env.watchers.append(waiting.pop())

        TaskVectorEnv.__init__ = watched  # type: ignore[method-assign]
        try:
            yield
        finally:
            TaskVectorEnv.__init__ = plain  # type: ignore[method-assign]


class Stopped(Exception):  # noqa: N818 (nothing is wrong)
    """The parent wants no more iterations."""


class Turns:
    """A training's reporter: tells the parent about an iteration and waits for the next turn.

    Args:
        pipe: To the parent.
        stance: Counts the stance.
        folder: The run.
        episodes: Of an evaluation.
    """

    def __init__(self, pipe: Connection, stance: StanceShare, folder: RunFolder, episodes: int) -> None:
        self._pipe, self._stance, self._folder, self._episodes = pipe, stance, folder, episodes
        self._evaluated = folder.checkpoints.paths()[-1:]
        self._first = True
        self._told: Row = {}
        self.wait()

    def wait(self) -> None:
        """Wait for a turn."""
        if self._pipe.recv() != "go":
            raise Stopped
        self._cpu, self._wall = time.thread_time(), time.perf_counter()

    def update(self, steps: int, row: Row, policy: TrainedPolicy | None = None) -> None:
        """Report an iteration; evaluate where there is a new checkpoint, or a policy is given."""
        if self._first and self._stance.began is not None:
            self._cpu, self._wall = self._stance.began
        self._first = False
        cpu, wall = time.thread_time() - self._cpu, time.perf_counter() - self._wall
        self._told = told = {
            "steps": steps,
            "stance": self._stance.take(),
            "stiffness": row["stiffness"],
            "cpu": cpu,
            "wall": wall,
        }
        newest = self._folder.checkpoints.paths()[-1:]
        if policy is None and newest != self._evaluated:
            policy = load_trained(self._folder)
        self._evaluated = newest
        self._pipe.send(told if policy is None else told | self._judge(policy))
        self.wait()

    def finish(self) -> None:
        """Report a checkpoint that was written after the last iteration's report."""
        if self._told and self._folder.checkpoints.paths()[-1:] != self._evaluated:
            self._pipe.send(self._told | {"cpu": 0.0, "wall": 0.0} | self._judge(load_trained(self._folder)))
            self.wait()

    def _judge(self, policy: TrainedPolicy) -> Row:
        setup = EvaluationSetup.of(policy.config)
        _, summary = evaluate_policy(policy, setup, episodes=self._episodes, seed=EVALUATION_SEED)
        return {"success": float(summary["success_rate"]), "evaluated_steps": policy.steps}


def learn(pipe: Connection, learner: Learner, config: TrainConfig, path: Path, episodes: int) -> None:
    """Train in a process of its own, an iteration per turn; the first message says from which step on."""
    begun = (path / "config.json").exists()
    folder = RunFolder.open(path) if begun else RunFolder.create(path, config.to_dict())
    stance = StanceShare()
    done = steps_done(folder)
    pipe.send({"steps": done})
    if done < config.ppo.total_steps:
        with contextlib.suppress(Stopped), stance.of_the_next_batch(config.ppo.num_envs):
            turns = Turns(pipe, stance, folder, episodes)
            if learner.trainer == "cleanrl":
                learn_in_one_file(config, folder, turns)
            else:
                find_trainer(config.trainer).train(config, folder, resume=begun, reporter=turns)
                turns.finish()
    else:
        pipe.recv()
    pipe.send(None)


def learn_in_one_file(config: TrainConfig, folder: RunFolder, turns: Turns) -> None:
    """Train with the functions of examples/cleanrl_style.py; a checkpoint has all that a run needs to go on."""
    import torch

    from adc_wrappers.core import ActuatorCurriculumVectorWrapper
    from adc_wrappers.envs.registry import make_env
    from adc_wrappers.training.deterministic import DeterministicPolicy
    from adc_wrappers.training.trained import read_tensors, tensor_bytes

    loop, ppo = one_file_loop(), config.ppo
    args = loop.Args(
        task=config.task, total_steps=ppo.total_steps, num_envs=ppo.num_envs, num_steps=ppo.n_steps, seed=config.seed,
        minibatches=ppo.minibatches, epochs=ppo.n_epochs, hidden=ppo.hidden, initial_std=ppo.initial_std,
    )  # fmt: skip
    torch.manual_seed(config.seed)
    torch.set_num_threads(1)
    envs = make_env(config.task, backend=config.backend, num_envs=args.num_envs, **config.settings)
    wrapped = ActuatorCurriculumVectorWrapper(envs, config.curriculum)
    sizes = wrapped.single_observation_space.shape[0], wrapped.single_action_space.shape[0]
    agent = loop.Agent(*sizes, args.hidden, args.initial_std)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    rollout = loop.Rollout.empty(args, *sizes)
    observation, first = wrapped.reset(seed=config.seed)[0], 0
    if folder.checkpoints.paths():
        kept = read_tensors(folder.checkpoints.load_latest(), "all.pt")
        agent.load_state_dict(kept["agent"])
        optimizer.load_state_dict(kept["optimizer"])
        torch.set_rng_state(kept["rng"])
        wrapped.load_state_dict(json.loads(kept["curriculum"]))
        first = kept["iteration"]
        observation = wrapped.reset(seed=config.seed + first)[0]  # episodes begin anew, learning goes on
    for iteration in range(first, config.iterations):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - iteration / config.iterations)
        observation = loop.collect(agent, wrapped, rollout, observation, args.gamma)
        loop.update(agent, optimizer, rollout, loop.advantages(agent, rollout, observation, args), args)
        report, steps, policy = wrapped.end_iteration(), (iteration + 1) * ppo.iteration_steps, None
        if (iteration + 1) % config.checkpoint_every == 0:
            state = {
                "agent": agent.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state(),
                "curriculum": json.dumps(wrapped.state_dict()), "iteration": iteration + 1,
            }  # fmt: skip
            folder.checkpoints.save(steps, {"all.pt": tensor_bytes(state)})
            module = DeterministicPolicy(agent.mean, wrapped.single_action_space)
            policy = TrainedPolicy(config, module, steps, {}, None)
        turns.update(steps, {"stiffness": report["stiffness"]}, policy)
    wrapped.close()


def one_file_loop() -> Any:
    """Return examples/cleanrl_style.py as a module."""
    path = Path(__file__).parents[1] / "examples" / "cleanrl_style.py"
    spec = importlib.util.spec_from_file_location("cleanrl_style", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"expected the example at {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Log:
    """The iterations of one learner and seed, a line of JSON each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[Row] = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def keep_until(self, steps: float) -> None:
        """Drop what comes after a checkpoint: it will be done again."""
        self.rows = [row for row in self.rows if row["steps"] <= steps]
        self._path.write_text("".join(json.dumps(row) + "\n" for row in self.rows))

    def add(self, row: Row) -> None:
        """Keep an iteration."""
        self.rows.append(row)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def reached(rows: Sequence[Row]) -> dict[str, tuple[float, float]]:
    """Return samples and seconds to each goal; infinite where it was not reached."""
    seconds = np.cumsum([row["cpu"] for row in rows])
    found = {"stance": (math.inf, math.inf), "success": (math.inf, math.inf)}
    for index in range(WINDOW - 1, len(rows)):
        if np.mean([row["stance"] for row in rows[index - WINDOW + 1 : index + 1]]) >= STANCE:
            found["stance"] = rows[index]["steps"], float(seconds[index])
            break
    for row in rows:
        if row.get("success", 0.0) >= SUCCESS:  # of a checkpoint that may be an iteration old
            steps = row["evaluated_steps"]
            found["success"] = steps, float(max(seconds[i] for i, each in enumerate(rows) if each["steps"] <= steps))
            break
    return found


def median_interval(values: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """Return the median with the ends of its 95 % bootstrap interval; values may be infinite."""
    data = np.asarray(values, dtype=np.float64)
    drawn = data[np.random.default_rng(seed).integers(0, len(data), (RESAMPLED, len(data)))]
    # of an even number the later of the two in the middle: half of infinity is no time
    middle = np.sort(np.append(np.sort(drawn, axis=1)[:, len(data) // 2], np.inf))[:-1]
    low, high = (float(middle[int(share * (RESAMPLED - 1))]) for share in (0.025, 0.975))
    return float(np.sort(data)[len(data) // 2]), low, high


def cell(values: Sequence[float], scale: float, digits: int) -> str:
    """Write a median, its interval, and how many seeds got there."""
    texts = [f"{value / scale:.{digits}f}" if math.isfinite(value) else "–" for value in median_interval(values)]
    count = sum(math.isfinite(value) for value in values)
    return f"{texts[0]} ({texts[1]} to {texts[2]}; {count} of {len(values)})"


def table(logs: dict[str, list[Log]]) -> str:
    """Return a row per learner."""
    head = "| learner | million samples to 50 % | minutes | million samples to 90 % | minutes | best success |"
    lines = [head, "|---|---:|---:|---:|---:|---:|"]
    for name, runs in logs.items():
        found = [reached(log.rows) for log in runs]
        cells = []
        for goal in ("stance", "success"):
            cells.append(cell([each[goal][0] for each in found], 1e6, 2))
            cells.append(cell([each[goal][1] for each in found], 60.0, 1))
        best = [max((row["success"] for row in log.rows if "success" in row), default=math.nan) for log in runs]
        lines.append(f"| {name} | {' | '.join(cells)} | {' / '.join(f'{value:.0%}' for value in best)} |")
    return "\n".join(lines)


class Racer:
    """One learner and seed as the parent sees it."""

    def __init__(self, learner: Learner, config: TrainConfig, folder: Path, episodes: int) -> None:
        run = folder / f"{learner.name.replace('/', '_').replace(':', '-')}-seed{config.seed}"
        run.parent.mkdir(parents=True, exist_ok=True)
        self.log = Log(run.with_suffix(".jsonl"))
        self.finished = self._done()
        if self.finished:
            return
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=learn, args=(theirs, learner, config, run, episodes), daemon=True)
        self._process.start()
        theirs.close()
        self.log.keep_until(self._pipe.recv()["steps"])

    def _done(self) -> bool:
        rows = self.log.rows
        return bool(rows) and (
            rows[-1].get("last", 0.0) > 0 or all(math.isfinite(x[0]) for x in reached(rows).values())
        )

    def turn(self) -> None:
        """Let it do an iteration."""
        self._pipe.send("go")
        row = self._pipe.recv()
        if row is not None:
            self.log.add(row)
            if not self._done():
                return
            self._pipe.send("stop")
            self._pipe.recv()
        elif self.log.rows:
            self.log.add({**self.log.rows[-1], "cpu": 0.0, "wall": 0.0, "last": 1.0})
        self.finished = True
        self._process.join()


def main() -> None:
    """Let learners run, print the table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="spot-planar-handstand")
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), help="trainer:recipe or trainer:config.json")
    parser.add_argument("--seeds", nargs="+", type=int, default=[101, 102, 103, 104, 105])
    parser.add_argument("--steps", type=int, help="budget of each learner; default: its recipe's")
    parser.add_argument("--evaluations", type=int, default=40, help="evaluations within a budget")
    parser.add_argument("--episodes", type=int, default=200, help="episodes of an evaluation")
    parser.add_argument("--folder", type=Path, help="default: runs/learning/TASK")
    parser.add_argument("--write", action="store_true", help="write benchmarks/learning-TASK.md")
    given = parser.parse_args()
    folder = given.folder or Path("runs") / "learning" / given.task
    learners = [Learner.parse(text) for text in given.learners]
    logs: dict[str, list[Log]] = {learner.name: [] for learner in learners}
    for seed in given.seeds:
        configs = [learner.config(given.task, seed, given.steps, given.evaluations) for learner in learners]
        racers = [Racer(*pair, folder, given.episodes) for pair in zip(learners, configs, strict=True)]
        while not all(racer.finished for racer in racers):
            for racer in racers:
                if not racer.finished:
                    racer.turn()
        for learner, racer in zip(learners, racers, strict=True):
            logs[learner.name].append(racer.log)
        print(f"seed {seed} is done", flush=True)
    text = table(logs)
    print(text)
    if given.write:
        hours = sum(row["wall"] for runs in logs.values() for log in runs for row in log.rows) / 3600.0
        command = (
            f"Command: `python benchmarks/learning.py {' '.join(sys.argv[1:])}`, {hours:.1f} h of turns, "
            f"commit {source_commit()}. adc-wrappers {adc_wrappers.__version__}."
        )
        paragraphs = (__doc__ or "").split("\n\n")[1:3]
        Path(__file__).with_name(f"learning-{given.task}.md").write_text(
            "\n\n".join([f"# Learning {given.task}", command, text, *paragraphs]) + "\n"
        )


if __name__ == "__main__":
    main()
