"""Stumbling blocks of somebody who uses the command for the first time."""

from __future__ import annotations

import configparser
import importlib.util
import io
import math
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from adc_wrappers.cli import main
from adc_wrappers.cli.doctor import _PARTS
from adc_wrappers.cli.main import COMMANDS, read_command
from adc_wrappers.cli.progress import TrainingProgress, curriculum_in_words
from adc_wrappers.core import CurriculumConfig
from adc_wrappers.core.drivers import DRIVERS
from adc_wrappers.core.errors import install_command
from adc_wrappers.runs import RunFolder

ROOT = Path(__file__).parents[2]
QUICK = ["--backend", "analytic", "--workers", "batch", "--num-envs", "4", "--ppo.n-steps", "32", "--ppo.hidden", "8"]
SUBCOMMANDS = [("study", "run"), ("study", "report"), ("sysid", "collect"), ("sysid", "fit"), ("sysid", "validate")]


def train(path, *more):
    return main(["train", "cartpole", *QUICK, "--steps", "256", "--out", str(path), "--eval-episodes", "0", *more])


def without(monkeypatch, *modules):
    """Let packages look as if they were not installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in modules else find(name))
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    theirs = tuple(f"{module}." for module in modules)  # an earlier test may have imported them
    for name in list(sys.modules):
        if name.startswith(("adc_wrappers.sb3", "adc_wrappers.rsl_rl", *theirs)):
            monkeypatch.delitem(sys.modules, name)


# --- the progress line -----------------------------------------------------------------------------------------------


def row(length, episodes, average):
    numbers = {"steps_per_second": 1.0, "stiffness": 20.0, "success_ema": math.nan}
    return numbers | {"episode_length_ema": average, "episode_length_mean": length, "episodes": episodes}


def test_the_line_shows_the_length_of_late_and_the_average_beside_it():
    lines = io.StringIO()
    progress = TrainingProgress(Console(file=lines, width=200), total=1)
    progress.update(1, row(math.nan, 0, 0.0))
    progress.update(1, row(400.0, 3, 20.0))
    progress.update(1, row(440.0, 1, 23.6))
    progress.update(1, row(math.nan, 0, 23.6))
    shown = [line.split("length")[1].split("K")[0].split() for line in lines.getvalue().splitlines()]
    assert shown == [["nan", "(average", "0.0)"], ["400.0", "(average", "20.0)"]] + [["410.0", "(average", "23.6)"]] * 2
    for _ in range(10):
        progress.update(1, row(100.0, 2, 50.0))
    assert "length  100.0 (average 50.0)" in lines.getvalue()


def test_a_run_says_what_will_happen_to_k(tmp_path, capsys):
    assert train(tmp_path / "run", "--recipe", "quick") == 0
    out = capsys.readouterr().out
    assert "K follows the average episode length and arrives at 450 steps; for the last 40 % of training" in out


def test_every_driver_has_words():
    for driver in DRIVERS:
        config = CurriculumConfig(driver=driver, total_iterations=10)
        assert curriculum_in_words(config).startswith("K ")
    assert "a function of your own" in curriculum_in_words(CurriculumConfig(driver=lambda report: 0.0))
    assert "never back" in curriculum_in_words(CurriculumConfig(monotone=True))


# --- folders ---------------------------------------------------------------------------------------------------------


def test_plot_leaves_out_what_is_no_run(tmp_path, capsys):
    study, run, notes = tmp_path / "study", tmp_path / "run", tmp_path / "notes.txt"
    train(run)
    study.mkdir()
    (study / "study.json").write_text("{}")
    notes.write_text("")
    RunFolder.create(tmp_path / "empty", {})
    words = sorted(map(str, tmp_path.iterdir()))
    assert main(["plot", *words]) == 0
    out = capsys.readouterr().out
    assert f"adc study report {study}" in out and f"left out {notes}: not a run folder" in out
    assert f"left out {tmp_path / 'empty'}: a run without metrics yet" in out
    assert (run / "plots" / "curriculum.png").exists()
    assert main(["plot", str(study)]) == 1
    assert "not a run folder" in capsys.readouterr().err


def test_a_missing_trainer_offers_the_other_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    without(monkeypatch, "stable_baselines3")
    assert train(tmp_path / "run") == 1
    error = capsys.readouterr().err
    assert install_command("sb3") in error and "--trainer rsl_rl" in error
    assert not (tmp_path / "run").exists()


def test_what_cannot_train_a_recipe_is_not_offered(tmp_path, monkeypatch, capsys):
    pytest.importorskip("rsl_rl.runners")  # as if an earlier test had used it
    without(monkeypatch, "rsl_rl")
    assert main(["train", "spot-planar-handstand", "--steps", "1", "--out", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err
    assert install_command("rsl-rl") in error and "--trainer" not in error


@pytest.mark.parametrize(
    "command",
    [
        ["demo", "--steps", "1"],
        ["study", "run", "spot-planar-handstand", "--steps", "1"],
        ["select-k0", "spot-handstand", "--steps", "1"],
    ],
)
def test_commands_of_many_runs_ask_for_their_trainer_before_they_begin(tmp_path, monkeypatch, capsys, command):
    without(monkeypatch, "rsl_rl")
    assert main([*command, "--out", str(tmp_path / "out")]) == 1
    assert install_command("rsl-rl") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_run_that_failed_for_a_package_does_not_block_the_next(tmp_path, monkeypatch):
    from adc_wrappers.sb3 import training

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(training, "build_model", lambda *_: (_ for _ in ()).throw(ImportError("no package 'x'")))
        with pytest.raises(ImportError, match="no package 'x'"):
            train(run)
    assert train(run) == 0


def test_an_interrupted_run_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    run, update = tmp_path / "run", TrainingProgress.update

    def interrupt(self, steps, row):
        update(self, steps, row)
        if row["iteration"] == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingProgress, "update", interrupt)
    assert train(run) == 130
    error = capsys.readouterr().err
    assert "checkpoint, of 128 steps, is kept" in error and f"adc train cartpole --out {run} --resume" in error
    monkeypatch.setattr(TrainingProgress, "update", update)
    assert main(["train", "cartpole", "--out", str(run), "--resume", "--eval-episodes", "0"]) == 0


def test_an_interrupted_search_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    from adc_wrappers.cli.select_k0 import SelectK0

    monkeypatch.setattr(SelectK0, "_try", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(["select-k0", "cartpole", *QUICK, "--out", str(tmp_path / "search")]) == 130
    assert "Give the same command with --resume." in capsys.readouterr().err


# --- help ------------------------------------------------------------------------------------------------------------


def helped(capsys, *words):
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_the_help_of_train_names_recipes_and_no_none(capsys):
    text = helped(capsys, "train")
    assert "cartpole: default, narrow, quick;" in text and "default: None" not in text
    assert "Discount factor. (default: as the recipe says)" in text


@pytest.mark.parametrize("words", [*((name,) for name in COMMANDS), *SUBCOMMANDS, ("train", "cartpole")], ids=" ".join)
def test_no_help_shows_a_none_or_a_default_that_is_nothing(capsys, words):
    text = helped(capsys, *words)
    assert f"usage: adc {words[0]}" in text
    for noise in ("default: None", "{None", "(default: )"):
        assert noise not in text


def test_the_help_shows_kinds_and_where_none_is_a_value(capsys):
    text = helped(capsys, "study", "run")
    assert "--seeds INT Number of seeds, by default 10. --first-seed INT" in text
    assert "--early-termination {True,False} " in text and "--ppo.final-target-kl FLOAT|None " in text
    assert "likewise. RSL-RL only. (not set)" in helped(capsys, "train", "cartpole")
    assert "Number of episodes. (default: 100)" in helped(capsys, "eval")


def test_none_can_be_given_as_before():
    command = read_command("study", ["run", "cartpole", "--seeds", "None", "--ppo.final-target-kl", "None"]).command
    assert command.seeds is None and command.ppo == {"final_target_kl": None}
    assert read_command("study", ["run", "cartpole", "--seeds", "3"]).command.seeds == 3


@pytest.mark.parametrize(
    ("words", "steps", "target", "trainer"),
    [
        (("train", "cartpole"), 250000, "6.25", "sb3"),
        (("train", "cartpole", "--recipe", "narrow"), 400000, "1", "sb3"),
        (("train", "--recipe=quick", "cartpole"), 100000, "6.25", "sb3"),
        (("study", "run", "spot-handstand"), 10000000, "40", "rsl_rl"),
    ],
)
def test_the_help_of_a_task_shows_its_recipes_values(capsys, words, steps, target, trainer):
    text = helped(capsys, *words)
    assert f"Env steps of the whole training, summed over envs. (default: {steps})" in text
    assert f"K_*, the identified stiffness, at progress 1. (default: {target})" in text
    assert f"by default as the recipe says. (default: {trainer})" in text


def test_the_command_itself_lists_watching_a_policy(capsys):
    assert main(["--help"]) == 0
    assert "adc view POLICY.onnx" in capsys.readouterr().out


# --- doctor and extras -----------------------------------------------------------------------------------------------


def test_doctor_knows_every_package_of_every_extra():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"]
    ours = {
        "dev",
        "docs",
        "all",
        "viability-check",
        "isaaclab",
        "mjlab",
    }  # of our own work, or for machines of their own
    names = {part.package for part in _PARTS}
    for extra in set(extras) - ours:
        for line in filter(None, extras[extra].splitlines()):
            package = line.split(">")[0].split("[")[0].strip()
            assert package in names | {"adc-wrappers", "tomli"}, f"{extra} brings {package}"
    for part in _PARTS:
        assert part.extra is None or part.extra in extras


def test_doctor_says_which_command_needs_what(capsys):
    assert main(["doctor"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for word in ("rsl-rl-lib", "cma", "pyarrow", "huggingface_hub", "study run --executor slurm"):
        assert word in out


def test_doctor_knows_a_cuda_build_without_a_gpu(monkeypatch, capsys):
    import torch

    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    main(["doctor"])
    assert "is built for CUDA 12.8, and there is no GPU here" in capsys.readouterr().out
    monkeypatch.setattr(torch.version, "cuda", None)
    main(["doctor"])
    assert "CUDA" not in capsys.readouterr().out


def test_extras_are_named_by_what_works_where_the_library_is(tmp_path):
    assert install_command("study") == f'pip install -e "{ROOT}[study]"'
    folder = tmp_path / "adc_wrappers" / "core"
    folder.mkdir(parents=True)
    (folder / "errors.py").write_text((ROOT / "adc_wrappers/core/errors.py").read_text())
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import errors; print(errors.install_command('a', 'b'))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == 'pip install "adc-wrappers[a,b]"'


# --- watching --------------------------------------------------------------------------------------------------------


def test_a_task_without_a_policy_is_explained_and_stands(capsys, monkeypatch):
    from adc_wrappers.viewing import BrowserView, Playback

    outcomes = []
    monkeypatch.setattr(BrowserView, "__init__", lambda self, session, *_, **__: None)
    monkeypatch.setattr(BrowserView, "address", "http://127.0.0.1:1")
    monkeypatch.setattr(BrowserView, "close", lambda self: None)
    monkeypatch.setattr(BrowserView, "draw", lambda self: None)

    def run(session: Playback, *_):
        for _step in range(300):
            session.advance()
        outcomes.append(session.status)

    monkeypatch.setattr(Playback, "run", run)
    assert main(["view", "spot-handstand", "--action", "standing"]) == 0
    out = capsys.readouterr().out
    assert "holds" not in out and "hold the robot's nominal pose" in out and "Nothing is randomized" in out
    assert outcomes[0].episode == 1
    assert main(["view", "spot-handstand", "--action", "standing", "--set", "randomize=True"]) == 0
    assert outcomes[1].episode > 1 and "Nothing is randomized" not in capsys.readouterr().out


def test_the_camera_goes_with_a_robot_that_leaves():
    import numpy as np

    from adc_wrappers.viewing.puppets import FollowingCamera

    camera = FollowingCamera(radius=0.5)
    assert camera.shift(np.array([0.3, 0.3, 1.0])) is None
    np.testing.assert_allclose(camera.shift(np.array([1.5, 0.0, 0.2])), [1.0, 0.0, 0.0])
    assert camera.shift(np.array([1.2, 0.0, 0.2])) is None
    np.testing.assert_allclose(camera.shift(np.array([0.0, 0.0, 0.2])), [-0.5, 0.0, 0.0])


def test_the_page_moves_the_cameras_of_those_who_look():
    import numpy as np

    from adc_wrappers.viewing import PuppetPage
    from adc_wrappers.viewing.puppets import LinkPose

    class Looking:
        def __init__(self, known):
            self.camera = self
            self.update_timestamp, self.position = known, np.zeros(3)

    class Page(PuppetPage):
        def __init__(self):
            from adc_wrappers.viewing.puppets import FollowingCamera

            self.following, self._camera, self.server, self._puppet = True, FollowingCamera(0.4), self, self
            self.moving, self.clients = "base", {0: Looking(1.0), 1: Looking(0.0)}

        def get_clients(self):
            return self.clients

    page, pose = Page(), {"base": LinkPose(np.array([2.4, 0.0, 0.3]), np.array([1.0, 0.0, 0.0, 0.0]))}
    page._follow(pose)
    np.testing.assert_allclose(page.clients[0].position, [2.0, 0.0, 0.0])
    np.testing.assert_allclose(page.clients[1].position, 0.0)
    page.following = False
    page._follow({"base": LinkPose(np.zeros(3), pose["base"].quaternion)})
    np.testing.assert_allclose(page.clients[0].position, [2.0, 0.0, 0.0])


def test_a_reader_that_has_had_enough_is_no_error():
    """As `adc train --help | head -1`."""
    command = [sys.executable, "-m", "adc_wrappers.cli", "train", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()  # long before the command has begun to print
        assert process.stderr.read() == ""
        assert process.wait() == 1
