"""Run folders: what --overwrite may remove, and who may write at a time."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from helpers import heeding_signals
from study_helpers import small_jobs

from adc_wrappers.cli.main import main
from adc_wrappers.runs import FolderLock, FolderLockedError, RunFolder, RunFolderError
from adc_wrappers.runs.folder import MARKER, entries_of_others
from adc_wrappers.runs.lock import LOCK_FILE, LockOwner
from adc_wrappers.study import run_job
from adc_wrappers.training import default_config

QUICK = ["--backend", "analytic", "--workers", "batch", "--num-envs", "4", "--ppo.n-steps", "32", "--ppo.hidden", "8"]
FORK = multiprocessing.get_context("fork")


def train(path, *more):
    words = ["train", "cartpole", *QUICK, "--steps", "256", "--out", str(path), "--eval-episodes", "4", *more]
    return main(words)


# --- what may be removed ---------------------------------------------------------------------------------------------


def test_a_folder_with_somebodys_config_is_never_overwritten(tmp_path, capsys):
    thesis = tmp_path / "thesis"
    (thesis / "figures").mkdir(parents=True)
    (thesis / "config.json").write_text('{"editor": "vim"}')
    (thesis / "thesis.tex").write_text("years of work")
    (thesis / "figures" / "one.pdf").write_text("more of it")
    before = {path: path.read_bytes() for path in thesis.rglob("*") if path.is_file()}
    assert train(thesis, "--overwrite") == 1
    said = capsys.readouterr().err
    assert "not a run folder that this library made" in said and "config.json, figures, thesis.tex" in said
    assert {path: path.read_bytes() for path in thesis.rglob("*") if path.is_file()} == before


def test_overwriting_a_run_removes_all_of_it_and_only_it(tmp_path):
    run = tmp_path / "run"
    assert train(run) == 0
    assert main(["eval", str(run), "--episodes", "4", "--set", "time_limit=20"]) == 0
    (run / ".config.json.4711.part").write_text("cut off")
    old = {path for path in run.rglob("*") if path.is_file()}
    assert entries_of_others(run) == [] and MARKER in {path.name for path in old}
    RunFolder.create(run, {"task": "other"}, overwrite=True)
    assert {path.name for path in run.rglob("*")} == {MARKER, "config.json", "versions.json", "command.txt"}


@pytest.mark.parametrize("name", ["notes.txt", "plots/for-the-paper.png", "checkpoints/best.pt", "my evaluation/a.csv"])
def test_a_run_with_something_else_in_it_is_kept_whole(tmp_path, name):
    run = RunFolder.create(tmp_path / "run", {"task": "cartpole"})
    run.checkpoints.save(10, {"a": b"b"})
    (run.path / name).parent.mkdir(exist_ok=True)
    (run.path / name).write_text("precious")
    before = sorted(run.path.rglob("*"))
    with pytest.raises(RunFolderError, match=rf"did not write: .*{name.split('/')[-1]}.*Nothing was removed"):
        RunFolder.create(run.path, {}, overwrite=True)
    assert sorted(run.path.rglob("*")) == before


def test_a_link_is_nobodys_to_follow(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "step_000000000001.ckpt").write_text("precious")
    (run.path / "checkpoints").symlink_to(tmp_path / "data")
    with pytest.raises(RunFolderError, match="did not write: checkpoints"):
        RunFolder.create(run.path, {}, overwrite=True)
    assert (tmp_path / "data" / "step_000000000001.ckpt").exists()


def test_a_run_of_a_version_that_did_not_mark_is_known_by_its_settings_and_versions(tmp_path):
    run = RunFolder.create(tmp_path / "run", default_config("cartpole", "analytic").to_dict())
    (run.path / MARKER).unlink()
    versions = (run.path / "versions.json").read_text()
    (run.path / "versions.json").write_text('{"numpy": "2"}')
    with pytest.raises(RunFolderError, match="not a run folder"):
        RunFolder.create(run.path, {}, overwrite=True)
    (run.path / "versions.json").write_text(versions)
    RunFolder.create(run.path, {"task": "new"}, overwrite=True)
    assert run.config() == {"task": "new"}


def test_a_folder_that_was_cut_off_while_it_was_made_is_begun_again(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    for name in (MARKER, ".config.json.4711.part", "job.json"):
        (path / name).write_text("{}")
    assert RunFolder.create(path, {"task": "cartpole"}).config() == {"task": "cartpole"}


# --- one at a time ---------------------------------------------------------------------------------------------------


def write_lock(folder, **changes):
    """A lock as another process leaves it."""
    folder.mkdir(exist_ok=True)
    owner = dataclasses.replace(LockOwner.this_process(), **changes)
    (folder / LOCK_FILE).write_text(json.dumps(dataclasses.asdict(owner)))
    return owner


def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def try_lock(folder):
    """What another process gets that asks for the lock: None, or the refusal."""
    with FORK.Pool(1) as pool:
        return pool.apply(_try, (folder,))


def _try(folder):
    try:
        with FolderLock(folder):
            return None
    except FolderLockedError as error:
        return str(error)


def test_a_second_process_is_told_who_trains_and_may_when_it_is_done(tmp_path):
    with FolderLock(tmp_path):
        said = try_lock(tmp_path)
        assert f"in use by process {os.getpid()} on" in said and "since" in said and "--out" in said
        with FolderLock(tmp_path):  # the one who has it may take it again
            pass
        assert try_lock(tmp_path) is not None
    assert try_lock(tmp_path) is None and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["new", "resume", "overwrite"])
def test_no_way_of_training_gets_past_the_lock(tmp_path, capsys, command):
    run = tmp_path / "run"
    if command != "new":
        assert train(run) == 0
    write_lock(run, pid=os.getppid(), started="")  # a process that is there
    before = sorted(run.rglob("*"))
    assert train(run, *([] if command == "new" else [f"--{command}"])) == 1
    assert f"in use by process {os.getppid()}" in capsys.readouterr().err
    assert sorted(run.rglob("*")) == before


def test_a_search_for_k0_holds_its_folder(tmp_path, capsys):
    write_lock(tmp_path / "search", pid=os.getppid(), started="")
    assert main(["select-k0", "cartpole", *QUICK, "--steps", "128", "--out", str(tmp_path / "search")]) == 1
    assert "in use by process" in capsys.readouterr().err


def test_a_trainer_that_is_called_from_python_holds_it_too(tmp_path):
    from adc_wrappers.sb3.training import train as train_sb3

    config = default_config("cartpole", "analytic")
    folder = RunFolder.create(tmp_path / "run", config.to_dict())
    write_lock(folder.path, pid=os.getppid(), started="")
    with pytest.raises(FolderLockedError, match="in use by process"):
        train_sb3(config, folder, resume=False, reporter=None)


def test_a_run_of_a_study_that_another_study_trains_is_left_to_it(tmp_path):
    job = small_jobs(tmp_path, conditions=("adc",), seeds=(0,))[0]
    Path(job.folder).mkdir(parents=True)
    write_lock(Path(job.folder), pid=os.getppid(), started="")
    result = run_job(job)
    assert result.state == "failed" and "in use by process" in result.error
    assert [path.name for path in Path(job.folder).iterdir()] == [LOCK_FILE]  # not even a failure is written down


def test_two_studies_in_one_folder_are_one_too_many(tmp_path, capsys):
    write_lock(tmp_path / "study", pid=os.getppid(), started="")
    words = ["study", "run", "cartpole", *QUICK, "--steps", "128", "--conditions", "adc", "--seeds", "1"]
    assert main([*words, "--out", str(tmp_path / "study")]) == 1
    assert "in use by process" in capsys.readouterr().err and not (tmp_path / "study" / "study.json").exists()


def test_a_lock_of_a_dead_process_is_taken_over(tmp_path):
    write_lock(tmp_path, pid=dead_pid())
    with FolderLock(tmp_path):
        owner = LockOwner.parse((tmp_path / LOCK_FILE).read_bytes())
        assert owner.pid == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_process_with_the_same_number_that_began_later_is_another_one(tmp_path):
    write_lock(tmp_path, pid=os.getppid(), started="1")
    assert try_lock(tmp_path) is None


def test_a_machine_that_was_restarted_runs_nothing_of_before(tmp_path):
    write_lock(tmp_path, pid=os.getppid(), machine="", boot="another")
    assert "in use" in try_lock(tmp_path)  # without an id it may be another machine of that name
    owner = dataclasses.replace(LockOwner.this_process(), boot="another", machine="m")
    here = dataclasses.replace(LockOwner.this_process(), machine="m")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LockOwner, "this_process", classmethod(lambda cls: here))
        assert owner.is_certainly_dead()


@pytest.mark.parametrize("changes", [{"host": "node7"}, {"namespace": "pid:[1]"}, {"machine": "another"}])
def test_a_lock_from_elsewhere_is_explained_and_never_taken(tmp_path, changes):
    write_lock(tmp_path, pid=dead_pid(), **changes)
    said = try_lock(tmp_path)
    assert "cannot be seen from here" in said and f"remove {tmp_path / LOCK_FILE}" in said
    if "host" in changes:
        assert "look on node7 (`ps -p" in said


def test_a_slurm_job_that_was_queued_again_takes_its_own_lock(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    write_lock(tmp_path, host="node7", restarts=0)
    assert "Slurm job 4711" in try_lock(tmp_path)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert try_lock(tmp_path) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 3}', "\x00" * 20])
def test_a_lock_that_says_nothing_is_explained(tmp_path, content):
    (tmp_path / LOCK_FILE).write_text(content)
    assert "does not say by whom" in try_lock(tmp_path)
    assert (tmp_path / LOCK_FILE).read_text() == content


def _race(folder, barrier, answers, finish):
    barrier.wait()
    try:
        with FolderLock(folder):
            answers.put("mine")
            finish.wait()
    except FolderLockedError:
        answers.put("refused")


@pytest.mark.parametrize("stale", [False, True])
def test_of_many_that_come_at_once_one_gets_it(tmp_path, stale):
    for i in range(5):
        folder = tmp_path / str(i)
        folder.mkdir()
        if stale:
            write_lock(folder, pid=dead_pid())
        barrier, answers, finish = FORK.Barrier(6), FORK.Queue(), FORK.Event()
        racers = [FORK.Process(target=_race, args=(folder, barrier, answers, finish)) for _ in range(6)]
        for racer in racers:
            racer.start()
        found = [answers.get() for _ in racers]
        finish.set()
        for racer in racers:
            racer.join()
        assert sorted(found) == ["mine"] + 5 * ["refused"]
        assert list(folder.iterdir()) == []


def test_a_forked_child_neither_has_nor_frees_it(tmp_path):
    lock = FolderLock(tmp_path)
    with lock:
        child = os.fork()
        if child == 0:
            lock.__exit__(None, None, None)
            os._exit(0)
        os.waitpid(child, 0)
        assert (tmp_path / LOCK_FILE).exists()
        assert try_lock(tmp_path) is not None


def test_another_thread_is_another(tmp_path):
    said = []

    def other():
        said.append(_try(tmp_path))

    with FolderLock(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "another thread of this process" in said[0]


def test_a_lock_that_was_removed_and_taken_by_another_is_left_to_it(tmp_path):
    with FolderLock(tmp_path):
        (tmp_path / LOCK_FILE).unlink()
        write_lock(tmp_path, pid=os.getppid(), started="")
    assert (tmp_path / LOCK_FILE).exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_it_is_given_back_however_the_block_ends(tmp_path, error):
    with pytest.raises(error), FolderLock(tmp_path):
        raise error
    assert list(tmp_path.iterdir()) == []


_HOLDER = """
import signal, sys
from pathlib import Path
from adc_wrappers.runs import FolderLock
with FolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    while True:
        signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_signals_free_it_and_after_a_kill_it_is_taken_over(tmp_path, number):
    holder = subprocess.Popen(
        heeding_signals([sys.executable, "-c", _HOLDER, str(tmp_path)]), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert holder.stdout.readline() == b"held\n"
    assert try_lock(tmp_path) is not None
    holder.send_signal(number)
    holder.communicate(timeout=120)
    assert (tmp_path / LOCK_FILE).exists() == (number == signal.SIGKILL)
    if number in (signal.SIGTERM, signal.SIGHUP):
        assert holder.returncode == 128 + number
    assert try_lock(tmp_path) is None
