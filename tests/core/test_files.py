"""Files: whole or not there, durable, and what a full disk says."""

from __future__ import annotations

import errno
import os
import pickle
import stat
from pathlib import Path

import pytest

from adc_wrappers.cli.main import main
from adc_wrappers.core.files import (
    DiskFullError,
    full_disk_explained,
    is_leftover,
    make_folder,
    whole_file,
    write_atomically,
)
from adc_wrappers.runs import MetricsFile, RunFolder

QUICK = ["--backend", "analytic", "--workers", "batch", "--num-envs", "4", "--ppo.n-steps", "32", "--ppo.hidden", "8"]


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def flushed(monkeypatch):
    """What is flushed and moved, in order: ``file``, ``move``, ``folder NAME``."""
    seen = []
    plain_sync, plain_move = os.fsync, Path.replace

    def sync(descriptor):
        status = os.fstat(descriptor)
        folder = stat.S_ISDIR(status.st_mode)
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        seen.append(f"folder {name}" if folder else "file")
        plain_sync(descriptor)

    def move(path, target):
        seen.append("move")
        return plain_move(path, target)

    monkeypatch.setattr("os.fsync", sync)
    monkeypatch.setattr(Path, "replace", move)
    return seen


def test_a_file_is_flushed_then_moved_then_its_folder_is_flushed(tmp_path, flushed):
    write_atomically(tmp_path / "there.json", b"1")
    assert flushed == ["file", "move", f"folder {tmp_path.name}"]


def test_new_folders_are_flushed_into_those_above(tmp_path, flushed):
    make_folder(tmp_path / "a" / "b")
    assert flushed == [f"folder {tmp_path.name}", "folder a"]


def test_pictures_and_models_are_written_like_everything_else(tmp_path, flushed):
    with whole_file(tmp_path / "picture.png") as beside:
        assert beside.suffix == ".png" and beside.parent == tmp_path and is_leftover(beside.name)
        beside.write_bytes(b"x")
    assert (tmp_path / "picture.png").read_bytes() == b"x"
    assert flushed == ["file", "move", f"folder {tmp_path.name}"]


def test_a_writer_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), whole_file(tmp_path / "film.gif") as beside:
        beside.write_bytes(b"half")
        raise KeyError("frame 7")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".config.json.0123456789ab.part.json", ".config.json.4711.part", ".a.b.part.png"])
def test_leftovers_are_known_by_their_name(name):
    assert is_leftover(name)


@pytest.mark.parametrize("name", ["part.json", "config.json", ".hidden", "chapter.part", ".part of my thesis.tex"])
def test_other_files_are_no_leftovers(name):
    assert not is_leftover(name)


def test_a_full_disk_names_file_and_room_and_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    write_atomically(path, b"old")
    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(DiskFullError, match=r"config\.json could not be written: the disk is full \([\d,.]+ MiB free"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_travels_between_processes_with_its_advice(tmp_path):
    error = pickle.loads(pickle.dumps(DiskFullError(tmp_path / "x", "Make room.")))
    assert error.errno == errno.ENOSPC and error.path == tmp_path / "x" and str(error).endswith("Make room.")


def test_the_kernels_own_full_device_is_recognised(tmp_path):
    with (
        pytest.raises(DiskFullError, match=r"rows\.csv could not be written"),
        full_disk_explained(tmp_path / "rows.csv"),
        Path("/dev/full").open("w") as file,
    ):
        file.write("1,2,3\n")


def test_other_errors_of_the_system_are_not_taken_for_a_full_disk(tmp_path):
    with pytest.raises(PermissionError), full_disk_explained(tmp_path):
        raise PermissionError(errno.EACCES, "no")


def test_metrics_on_a_full_disk_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(DiskFullError, match=r"metrics\.csv could not be written: the disk is full"):
        MetricsFile(tmp_path / "metrics.csv").append({"iteration": 1})


def test_a_training_whose_disk_is_full_keeps_its_checkpoint_and_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    words = ["train", "cartpole", *QUICK, "--steps", "512", "--out", str(run), "--eval-episodes", "0"]
    plain = RunFolder(run).checkpoints.save.__func__
    with monkeypatch.context() as patch:

        def save(store, step, files):
            if step > 256:
                patch.setattr("os.fsync", no_space)
            return plain(store, step, files)

        patch.setattr("adc_wrappers.runs.checkpoint.CheckpointStore.save", save)
        assert main(words) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said and "step_000000000384.ckpt could not be written: the disk is full" in said
    assert "The newest whole checkpoint, of 256 steps, is kept." in said
    assert f"go on with: adc train cartpole --out {run} --resume" in said
    assert RunFolder(run).checkpoints.load_latest().step == 256
    assert main(["train", "cartpole", "--out", str(run), "--resume", "--eval-episodes", "0"]) == 0
    assert RunFolder(run).checkpoints.load_latest().step == 512


def test_a_command_without_a_run_says_it_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("os.fsync", no_space)
    run = tmp_path / "run"
    assert main(["train", "cartpole", *QUICK, "--steps", "128", "--out", str(run)]) == 1
    assert "could not be written: the disk is full" in capsys.readouterr().err
