"""RLlib: one curriculum for all env runners, also for those that die, and in every checkpoint."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

try:
    import ray.rllib
except ImportError as error:
    pytest.skip(f"ray[rllib] is not installed here ({error}); `make test-rllib` has it.", allow_module_level=True)

import rllib_helpers as helpers
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers import FakeBackend
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.tune.registry import register_env

from adc_wrappers import (
    ActuatorCurriculum,
    ActuatorCurriculumVectorWrapper,
    ActuatorCurriculumWrapper,
    BackendError,
    CurriculumConfig,
    CurriculumError,
    EpisodeTotals,
    make_env,
)
from adc_wrappers.rllib import (
    NextStepAutoreset,
    add_curriculum,
    find_curriculum,
    latest_checkpoint,
    save_checkpoint,
)
from adc_wrappers.rllib.runner import RunnerSettings, wrap_runner_env
from adc_wrappers.runs import RunFolderError

ROOT = Path(__file__).parents[2]
CONFIG = CurriculumConfig(start_stiffness=36.0, target_stiffness=6.25, length_max=100, ema=0.3)
SCRIPTS = [[3], [7], [9], [1]]
PRIORITY = {"RAY_worker_niceness": "0", "OMP_NUM_THREADS": "1"}
"""Ray's own niceness, 15, starves its workers on a busy machine."""

for env_name in ("logged_cartpole", "clock_env", "ported_env", "wrapped_env", "cartpole_batch"):
    register_env(env_name, getattr(helpers, env_name))


# --- the layer inside an env runner, without a cluster ---------------------------------------------------------------


def clocks(mode, scripts=SCRIPTS):
    return SyncVectorEnv([functools.partial(helpers.ClockEnv, script) for script in scripts], autoreset_mode=mode)


def test_a_same_step_batch_is_turned_into_what_rllib_expects():
    """Step by step what Gymnasium's own NEXT_STEP mode gives."""
    wanted, env = clocks(AutoresetMode.NEXT_STEP), NextStepAutoreset(clocks(AutoresetMode.SAME_STEP))
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    np.testing.assert_array_equal(wanted.reset()[0], env.reset()[0])
    actions = np.zeros((4, 1), np.float32)
    for _ in range(60):
        one, other = wanted.step(actions), env.step(actions)
        for a, b in zip(one[:4], other[:4], strict=True):
            np.testing.assert_array_equal(a, b)
        done = one[2] | one[3]
        assert ("is_success" in other[4]) == bool(done.any())
        if done.any():
            np.testing.assert_array_equal(other[4]["_is_success"], done)


def layer_around(env, **arguments):
    return wrap_runner_env(env, RunnerSettings(**arguments), worker=1, training=True)


def wrapped_children():
    return SyncVectorEnv(
        [functools.partial(lambda s: ActuatorCurriculumWrapper(helpers.ClockEnv(s), CONFIG), s) for s in SCRIPTS]
    )


LAYERS = {
    "bare": lambda: layer_around(clocks(AutoresetMode.NEXT_STEP), curriculum=CONFIG),
    "bare, same step": lambda: layer_around(clocks(AutoresetMode.SAME_STEP), curriculum=CONFIG),
    "wrapped": lambda: layer_around(
        ActuatorCurriculumVectorWrapper(clocks(AutoresetMode.NEXT_STEP), CONFIG), curriculum=CONFIG
    ),
    "children wrapped": lambda: layer_around(wrapped_children()),
}


def next_step_reference(steps):
    lengths = []
    for script in SCRIPTS:
        clock, episode = 0, 0
        while clock + script[episode % len(script)] <= steps:
            clock += script[episode % len(script)] + 1  # the reset takes a step of its own
            lengths.append(script[episode % len(script)])
            episode += 1
    return EpisodeTotals.from_lengths(lengths, [True] * len(lengths))


@pytest.mark.parametrize("name", LAYERS)
def test_every_kind_of_env_counts_and_follows(name):
    layer = LAYERS[name]()
    layer.reset()
    for _ in range(40):
        infos = layer.step(layer.action_space.sample())[-1]
        assert "adc" not in infos  # RLlib would carry it to the learner with every step
    assert layer.collect() == next_step_reference(40)
    assert layer.collect() == EpisodeTotals()
    curriculum = ActuatorCurriculum(CONFIG, layer.settings["joint_names"])
    curriculum.update([50, 70])
    layer.follow(curriculum.state_dict())
    rows = [pair[0] for pair in layer.unwrapped.call("adc_get_gains")]
    np.testing.assert_allclose(np.concatenate(rows), curriculum.stiffness[0])


@pytest.mark.parametrize("name", LAYERS)
def test_an_evaluation_runner_is_pinned(name):
    layer = LAYERS[name]()
    pinned = wrap_runner_env(layer.env, RunnerSettings(), worker=1, training=False)
    rows = np.concatenate([pair[0] for pair in pinned.unwrapped.call("adc_get_gains")])
    assert (rows == 6.25).all()
    pinned.verify()
    pinned.unwrapped.envs[2].unwrapped.actuator_backend.stiffness[:] = 7.0
    with pytest.raises(BackendError, match="behind the curriculum"):
        pinned.verify()


def test_random_stiffness_differs_between_runners_and_repeats():
    def drawn(worker):
        env = clocks(AutoresetMode.NEXT_STEP)
        settings = RunnerSettings(curriculum=CurriculumConfig(start_stiffness=36, target_stiffness=6, driver="uniform"))
        layer = wrap_runner_env(env, settings, worker=worker, training=True)
        layer.follow(ActuatorCurriculum(settings.curriculum).state_dict())
        layer.reset()
        return np.concatenate([pair[0] for pair in layer.unwrapped.call("adc_get_gains")]).tolist()

    assert drawn(1) == drawn(1)
    assert not set(drawn(1)) & set(drawn(2))


def test_refusals_say_what_to_do():
    with pytest.raises(BackendError, match="autoreset_mode"):
        layer_around(clocks(AutoresetMode.DISABLED))
    same_step = ActuatorCurriculumVectorWrapper(clocks(AutoresetMode.SAME_STEP), CONFIG)
    with pytest.raises(BackendError, match="bare batch"):
        layer_around(same_step)
    own_pace = ActuatorCurriculumVectorWrapper(clocks(AutoresetMode.NEXT_STEP), CONFIG, iteration_steps=10)
    with pytest.raises(CurriculumError, match="without iteration_steps"):
        layer_around(own_pace)
    with pytest.raises(CurriculumError, match="one place only"):
        layer_around(wrapped_children(), curriculum=CurriculumConfig())
    config = add_curriculum(PPOConfig())
    with pytest.raises(CurriculumError, match="once"):
        add_curriculum(config)
    discrete = gym.make_vec("Blackjack-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(BackendError, match="Box"):
        NextStepAutoreset(discrete)


def test_callbacks_of_the_user_stay():
    from ray.rllib.callbacks.callbacks import RLlibCallback

    class Mine(RLlibCallback):
        pass

    config = add_curriculum(PPOConfig().callbacks(Mine))
    assert config.callbacks_class[0] is Mine and len(config.callbacks_class) == 2
    assert len(add_curriculum(PPOConfig()).callbacks_class) == 1


# --- whole algorithms ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    os.environ.update(PRIORITY)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)])
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=200 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}},
    )
    yield
    ray.shutdown()


def small(env, runners=0, envs=2, batch=128, **env_config):
    return (
        PPOConfig()
        .environment(env, env_config=env_config)
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=envs)
        .training(train_batch_size_per_learner=batch, minibatch_size=64, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [16]})
        .debugging(seed=0, log_level="ERROR")
    )


def live(algorithm, group=None):
    answers = (group or algorithm.env_runner_group).foreach_env_runner(helpers.live_stiffness)
    return dict(answer for answer in answers if answer is not None)


def all_equal_to(algorithm, result):
    """Every env of every env runner has the stiffness that the driver reports."""
    runners = live(algorithm)
    assert {k for rows in runners.values() for k in rows} == {result["adc"]["stiffness"]}
    assert result["adc"]["stiffness"] == find_curriculum(algorithm).stiffness[0]
    return set(runners)


class Logs:
    """The lines that the envs wrote since the last look."""

    def __init__(self, folder):
        self.folder, self.seen = folder, {}

    def new(self):
        rows = []
        for path in sorted(self.folder.glob("*.txt")):
            lines = path.read_text().splitlines()
            rows += lines[self.seen.get(path, 0) :]
            self.seen[path] = len(lines)
        lengths, stiffness = zip(*(row.split() for row in rows), strict=True)
        return [int(length) for length in lengths], {float(k) for k in stiffness}


@pytest.mark.slow
def test_two_runners_keep_one_stiffness_through_deaths(cluster, tmp_path):
    config = small("logged_cartpole", runners=2, batch=400, folder=str(tmp_path))
    (tmp_path / "evaluation").mkdir()
    config.evaluation(evaluation_interval=100, evaluation_duration=4)
    config.evaluation(evaluation_config={"env_config": {"folder": str(tmp_path / "evaluation")}})
    config.fault_tolerance(restart_failed_env_runners=True, delay_between_env_runner_restarts_s=0.0)
    algorithm = add_curriculum(config, CONFIG).build_algo()
    logs, ema, before = Logs(tmp_path), 0.0, 36.0

    def train():
        """One iteration: its episodes were run at one K, and their mean, counted apart, moves the average."""
        nonlocal ema, before
        result = algorithm.train()
        lengths, stiffness = logs.new()
        assert stiffness == {before}
        assert result["adc"]["episodes"] == len(lengths)
        ema = 0.7 * ema + 0.3 * np.mean(lengths)
        assert result["adc"]["episode_length_ema"] == pytest.approx(ema, rel=1e-12)
        before = result["adc"]["stiffness"]
        return all_equal_to(algorithm, result)

    first = train()
    assert len(first) == 2 and train() == first and before < 36.0

    # A runner dies while RLlib watches: the other one goes on, and the restarted one has its stiffness.
    os.kill(victim := min(first), signal.SIGKILL)
    for _ in range(30):
        survivors = train()
        assert victim not in survivors
        if len(survivors) == 2:
            break
        time.sleep(1)
    assert len(survivors) == 2 and len(first & survivors) == 1

    # A runner is restarted between two iterations, which RLlib does not notice.
    actor = algorithm.env_runner_group._worker_manager.actors()[2]
    ray.kill(actor, no_restart=False)
    for _ in range(60):
        with contextlib.suppress(ray.exceptions.RayError):  # it is down
            pid, rows = ray.get(actor.apply.remote(helpers.live_stiffness))
            if pid not in survivors:  # before it is killed, it may answer once more
                break
        time.sleep(1)
    assert pid not in survivors and rows == [36.0, 36.0]  # a new process, at the start
    assert pid in train() and train()

    # Evaluation is at the target, and its episodes move nothing.
    state = find_curriculum(algorithm).state_dict()
    algorithm.evaluate()
    assert set(live(algorithm, algorithm.eval_env_runner_group).popitem()[1]) == {6.25}
    assert Logs(tmp_path / "evaluation").new()[1] == {6.25}
    assert find_curriculum(algorithm).state_dict() == state
    algorithm.stop()


@pytest.mark.slow
def test_a_checkpoint_continues_the_curriculum(cluster, tmp_path):
    """Episodes whose length tells their stiffness: a restored run repeats the uninterrupted one to the digit."""
    config = small("clock_env", runners=1, batch=150)
    config.env_runners(batch_mode="complete_episodes")  # RLlib resets all envs before every sample
    algorithm = add_curriculum(config, CONFIG).build_algo()
    for _ in range(2):
        algorithm.train()
    assert latest_checkpoint(tmp_path) is None
    path = save_checkpoint(algorithm, tmp_path)
    assert latest_checkpoint(tmp_path) == path and path.name == "checkpoint_000002"
    saved = find_curriculum(algorithm).state_dict()
    straight = [algorithm.train()["adc"] for _ in range(3)]
    algorithm.restore_from_path(str(path))  # back in the same algorithm
    assert find_curriculum(algorithm).state_dict() == saved
    assert [algorithm.train()["adc"] for _ in range(3)] == straight
    algorithm.stop()

    (tmp_path / ".checkpoint_000009.part").mkdir()  # what a killed save leaves
    restored = PPO.from_checkpoint(str(latest_checkpoint(tmp_path)))
    assert find_curriculum(restored).state_dict() == saved
    assert {k for rows in live(restored).values() for k in rows} == {find_curriculum(restored).stiffness[0]}
    resumed = [restored.train()["adc"] for _ in range(3)]
    assert resumed == straight and len({row["stiffness"] for row in resumed}) == 3
    restored.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "mode"),
    [
        ("ported_env", "sync"),
        ("ported_env", "async"),
        ("wrapped_env", "sync"),
        ("cartpole_batch", "vector_entry_point"),
    ],
)
def test_every_vectorization_counts_what_rllib_counts(cluster, env, mode):
    config = small(env).env_runners(gym_env_vectorize_mode=mode)
    algorithm = add_curriculum(config, None if env == "wrapped_env" else CONFIG).build_algo()
    result = algorithm.train()
    assert result["adc"]["episodes"] == result["env_runners"]["num_episodes"] > 1
    assert result["adc"]["episode_length_mean"] == pytest.approx(result["env_runners"]["episode_len_mean"])
    all_equal_to(algorithm, result)
    algorithm.env_runner.make_env()  # as RLlib does after an env's failure
    all_equal_to(algorithm, result)
    with pytest.raises(CurriculumError, match="evaluation_interval"):
        algorithm.evaluate()
    algorithm.stop()


@pytest.mark.slow
def test_gains_changed_behind_the_curriculum_reach_the_user(cluster):
    """RLlib ends and restarts a runner that raises, for ever; the driver raises instead."""
    algorithm = add_curriculum(small("clock_env", runners=1), CONFIG).build_algo()

    def meddle(env_runner):
        if env_runner.env is not None:
            env_runner.env.unwrapped.envs[1].unwrapped.actuator_backend.stiffness[:] = 50.0

    algorithm.env_runner_group.foreach_env_runner(meddle)
    with pytest.raises(BackendError, match=r"env runner 1: .* behind the curriculum.*env 1"):
        algorithm.train()
    algorithm.stop()


@pytest.mark.slow
def test_the_example_resumes_after_a_kill(tmp_path):
    environment = {**os.environ, **PRIORITY, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / "rllib_cartpole.py"), str(tmp_path / "run")]
    line = re.compile(r"iteration +(\d+): K ([\d.]+)")
    killed = subprocess.Popen(
        [*command, "1000", "256"], stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    rows = {}
    for text in killed.stdout:
        rows.update([line.match(text).groups()])
        if len(rows) == 3:
            killed.kill()  # leaves no time for anything
            break
    rows.update(line.match(text).groups() for text in killed.stdout)
    killed.wait()
    number = int(latest_checkpoint(tmp_path / "run").name.split("_")[1])
    answer = subprocess.run(
        [*command, str(number + 2), "256"], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert answer.returncode == 0, answer.stderr
    resumed = re.search(r"resumed at iteration (\d+): K ([\d.]+)", answer.stdout).groups()
    assert int(resumed[0]) == number and rows.get(resumed[0], resumed[1]) == resumed[1]
    assert [int(n) for n, _ in line.findall(answer.stdout)][-2:] == [number + 1, number + 2]
    assert 6.25 <= float(re.search(r"K came to ([\d.]+)", answer.stdout).group(1)) < float(resumed[1]) < 36.0


@pytest.mark.slow
def test_the_example_learns(tmp_path):
    """Fourteen iterations: episodes grow from some 45 steps to hundreds, and the cart softens."""
    command = [sys.executable, str(ROOT / "examples" / "rllib_cartpole.py"), str(tmp_path / "run"), "14"]
    environment = {**os.environ, **PRIORITY, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert answer.returncode == 0, answer.stderr
    rows = re.findall(r"iteration +\d+: K ([\d.]+), (\d+) episodes", answer.stdout)
    stiffness, episodes = [float(k) for k, _ in rows], [int(n) for _, n in rows]
    assert len(rows) == 14 and stiffness == sorted(stiffness, reverse=True) and stiffness[-1] < 30.0
    assert sum(episodes[-4:]) < sum(episodes[:4]) / 3  # in the same number of steps
    assert re.search(r"iteration  10: .* \d+ of 500 steps at the target stiffness", answer.stdout)


def test_a_fake_backend_for_a_whole_batch():
    """``backend=`` makes the actuators from the vector env."""
    env = gym.make_vec("Pendulum-v1", num_envs=3, vectorization_mode="sync")
    layer = layer_around(env, curriculum=CurriculumConfig(), backend=lambda envs: FakeBackend(envs.num_envs))
    assert layer.settings["joint_names"] == ("j0", "j1")
    assert make_env("cartpole", backend="analytic").adc_config is not None


def test_an_rllib_checkpoint_replaces_nothing_but_a_checkpoint(tmp_path):
    class Algorithm:
        training_iteration = 3
        text = "first"

        def save_to_path(self, path):
            path.mkdir()
            (path / "metadata.json").write_text(self.text)
            (path / "class_and_ctor_args.pkl").write_text("")

    algorithm = Algorithm()
    path = save_checkpoint(algorithm, tmp_path)
    algorithm.text = "second"
    assert (save_checkpoint(algorithm, tmp_path) / "metadata.json").read_text() == "second"
    assert list(tmp_path.iterdir()) == [path]
    (path / "metadata.json").rename(path / "diary.txt")
    with pytest.raises(RunFolderError, match=r"class_and_ctor_args\.pkl, diary\.txt"):
        save_checkpoint(algorithm, tmp_path)
    assert (path / "diary.txt").exists() and list(tmp_path.iterdir()) == [path]
