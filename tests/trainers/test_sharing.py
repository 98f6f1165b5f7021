"""Sharing: pushing to and pulling from a hub, and Weights & Biases without a network."""

from __future__ import annotations

import json
import socket

import pytest
from hub_helpers import COMMIT, TOKEN, serving

from adc_wrappers.cli import main
from adc_wrappers.policy import PolicyFileError, load
from adc_wrappers.runs import RunFolder

QUICK = ["--backend", "analytic", "--workers", "batch", "--num-envs", "4", "--ppo.n-steps", "32", "--ppo.hidden", "8"]


def train(path, *more):
    words = ["train", "cartpole", *QUICK, "--steps", "128", "--out", str(path), "--eval-episodes", "0"]
    return main([*words, "--set", "time_limit=40", *more])


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """A policy file of a short training."""
    pytest.importorskip("onnxscript")
    run = tmp_path_factory.mktemp("shared") / "run"
    assert train(run) == 0
    assert main(["export", str(run)]) == 0
    return run / "policy.onnx"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    pytest.importorskip("huggingface_hub")
    with serving() as (hub, address):
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
        monkeypatch.chdir(tmp_path)
        yield hub


def push(path, *more):
    return main(["push", str(path), "me/pole", "--episodes", "4", "--seconds", "0.3", *more])


def test_a_policy_goes_to_the_hub_and_comes_back_the_same(policy, hub, tmp_path, capsys):
    assert push(policy.parent) == 0
    assert set(hub.repos["me/pole"]) == {"README.md", "film.gif", "policy.onnx"} and hub.private["me/pole"]
    assert hub.repos["me/pole"]["film.gif"][:3] == b"GIF"
    assert main(["pull", "me/pole"]) == 0
    assert (tmp_path / "pole.onnx").read_bytes() == policy.read_bytes()
    assert load(tmp_path / "pole.onnx").config.task == "cartpole"
    out = capsys.readouterr().out
    assert f"/me/pole/commit/{COMMIT}" in out and "adc view pole.onnx" in out and TOKEN not in out
    assert hub.tokens == {f"Bearer {TOKEN}"}


def test_the_card_says_task_gains_evaluation_and_film(policy, hub, tmp_path):
    assert push(policy, "--dry-run", str(tmp_path / "dry")) == 0
    assert hub.requests == []
    card = (tmp_path / "dry" / "README.md").read_text()
    evaluation = json.loads((policy.with_name("policy-eval") / "eval.json").read_text())
    metadata = load(policy).metadata
    assert card.startswith("---\nlibrary_name: adc-wrappers\n") and "# cartpole" in card
    assert f"| {metadata.joint_names[0]} | 6.25 | {metadata.simulated_damping[0]:.4g} |" in card
    assert f"| episodes | {evaluation['episodes']} in analytic, seed 10000 |" in card and "(film.gif)" in card
    assert f"{evaluation['success_rate']:.1%}" in card and metadata.network_sha256 in card
    assert "K 36.0 → 6.25" in card and "time\\_limit" not in card and "time_limit=40" in card
    assert push(policy, "--no-film", "--dry-run", str(tmp_path / "plain")) == 0
    assert not (tmp_path / "plain" / "film.gif").exists()


def test_a_name_in_a_strangers_file_is_only_text_in_the_card():
    from adc_wrappers.core.markdown import plain_markdown

    assert plain_markdown("<img src=x> [a](b) `c` | d\ne") == "&lt;img src=x> \\[a\\](b) \\`c\\` \\| d e"


@pytest.mark.parametrize("damage", ["cut", "changed", "other"])
def test_what_is_pulled_passes_the_checks_of_every_policy_file(policy, hub, tmp_path, damage, capsys):
    content = policy.read_bytes()
    broken = {"cut": content[:-100], "changed": content.replace(b"6.25", b"9.25"), "other": b"\x80\x04pickle"}[damage]
    hub.repos["me/pole"] = {"policy.onnx": broken, "evil.pkl": b"\x80\x04"}
    assert main(["pull", "me/pole"]) == 1
    error = capsys.readouterr().err
    assert "Nothing was written" in error and "me/pole" in error and "Traceback" not in error
    assert list(tmp_path.iterdir()) == []
    assert not any("evil" in request for request in hub.requests)


def test_a_file_that_is_too_large_is_not_brought(hub, monkeypatch):
    from adc_wrappers.hub import ShareError, pull, sharing

    monkeypatch.setattr(sharing, "_LARGEST", 10)
    hub.repos["me/pole"] = {"policy.onnx": b"x" * 11}
    from pathlib import Path

    with pytest.raises(ShareError, match="has 11 bytes; expected at most 10"):
        pull("me/pole", Path("a.onnx"))
    assert not any(request.startswith("GET") for request in hub.requests)


def test_a_file_that_is_there_is_kept(policy, hub, tmp_path, capsys):
    hub.repos["me/pole"] = {"policy.onnx": policy.read_bytes()}
    (tmp_path / "pole.onnx").write_bytes(b"mine")
    assert main(["pull", "me/pole"]) == 1
    assert "--overwrite" in capsys.readouterr().err and (tmp_path / "pole.onnx").read_bytes() == b"mine"
    assert main(["pull", "me/pole", "--overwrite"]) == 0
    assert main(["pull", "me/pole", "--out", "model.bin"]) == 1
    assert "ends in .onnx" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["pull", "me/pole"], ["push"]])
@pytest.mark.parametrize("status", [401, 403, 500])
def test_no_token_is_ever_shown(policy, hub, status, words, capsys):
    hub.refuse = status
    words = ["push", str(policy), "me/pole", "--no-film", "--episodes", "4"] if words == ["push"] else words
    assert main(words) == 1
    said = capsys.readouterr()
    assert TOKEN not in said.err + said.out and "hf auth login" in said.err and "Traceback" not in said.err
    assert "me/pole was not pu" in said.err


@pytest.mark.parametrize("command", ["pull", "push"])
def test_a_hub_that_is_not_there_is_said(policy, hub, command, monkeypatch, capsys):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{probe.getsockname()[1]}")
    words = ["me/pole"] if command == "pull" else [str(policy), "me/pole", "--no-film", "--episodes", "4"]
    assert main([command, *words]) == 1
    error = capsys.readouterr().err
    assert "is there a connection" in error and "Traceback" not in error and TOKEN not in error


def test_names_and_policies_that_are_none_are_refused_before_anything_is_sent(policy, hub, tmp_path, capsys):
    assert main(["pull", "not a name"]) == 1
    assert main(["push", str(tmp_path), "me/pole"]) == 1
    assert "adc export" in capsys.readouterr().err
    (tmp_path / "fake.onnx").write_bytes(b"nothing")
    assert main(["push", str(tmp_path / "fake.onnx"), "me/pole"]) == 1
    assert hub.requests == []
    with pytest.raises(PolicyFileError):
        load(tmp_path / "fake.onnx")


# --- Weights & Biases ------------------------------------------------------------------------------------------------


@pytest.fixture
def offline(monkeypatch, tmp_path):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    return tmp_path


def test_a_run_is_logged_without_a_network_and_goes_on_under_its_id(offline):
    run = offline / "run"
    assert train(run, "--wandb", "poles") == 0
    kept = json.loads((run / "wandb.json").read_text())
    assert kept["project"] == "poles"
    logs = list((offline / "wandb").glob(f"offline-run-*/run-{kept['id']}.wandb"))
    assert len(logs) == 1 and logs[0].stat().st_size > 500
    assert b"step_" not in logs[0].read_bytes()  # no checkpoint
    assert not list((offline / "wandb").glob("offline-run-*/files/*.ckpt"))
    words = ["train", "cartpole", "--out", str(run), "--resume", "--steps", "256", "--eval-episodes", "4"]
    assert main([*words, "--wandb", "poles"]) == 0
    assert json.loads((run / "wandb.json").read_text()) == kept
    assert train(run, "--overwrite") == 0  # the file is the library's own


def test_what_is_logged_is_the_metrics_and_checkpoints_only_when_asked(tmp_path, monkeypatch):
    import types

    from adc_wrappers.training import default_config, wandb_log
    from adc_wrappers.training.trainer import QuietReporter

    class Run:
        id = "abc"

        def __init__(self):
            self.rows, self.artifacts, self.summary, self.codes = [], [], {}, []

        def log(self, row, step):
            self.rows.append((step, row))

        def log_artifact(self, artifact):
            self.artifacts.append(artifact)

        def finish(self, exit_code):
            self.codes.append(exit_code)

    class Artifact:
        def __init__(self, name, type):
            self.files = []

        def add_file(self, path):
            self.files.append(path)

    runs = []
    fake = types.ModuleType("wandb")
    fake.init = lambda **options: runs.append(Run()) or runs[-1]
    fake.Settings, fake.Artifact = dict, Artifact
    monkeypatch.setitem(__import__("sys").modules, "wandb", fake)
    config = default_config("cartpole", "analytic")
    folder = RunFolder.create(tmp_path / "run", config.to_dict())
    folder.checkpoints.save(7, {"state.json": b"{}"})
    for asked in (False, True):
        options = {"project": "p", "checkpoints": asked}
        with wandb_log.WandbReporter(QuietReporter(), config, folder, **options) as log:
            log.update(7, {"stiffness": 20.0, "return_mean": float("nan"), "episodes": 3.0})
            log.summarize({"success_rate": 0.5, "length_mean": 1.0, "return_mean": 2.0, "episodes": 4})
    assert [len(run.artifacts) for run in runs] == [0, 1]
    assert runs[0].rows == [(7, {"adc/stiffness": 20.0, "train/episodes": 3.0})] and runs[0].codes == [0]
    assert runs[0].summary["eval/success_rate"] == 0.5
    assert runs[1].artifacts[0].files == [str(folder.checkpoints.paths()[-1])]


def test_checkpoints_need_a_project(tmp_path, capsys):
    assert train(tmp_path / "run", "--wandb-checkpoints") == 1
    assert "name a project too, with --wandb" in capsys.readouterr().err and not (tmp_path / "run").exists()
