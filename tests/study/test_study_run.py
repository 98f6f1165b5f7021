"""Running a study: nothing finished is repeated, a failed run is survived, every executor gives the same."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from study_helpers import SMALL, small_jobs, small_plan

from adc_wrappers import CurriculumError
from adc_wrappers.cli import main
from adc_wrappers.cli.study import StudyRun
from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.runs import RunFolderError
from adc_wrappers.study import JobResult, LocalExecutor, RobotFacts, find_condition, is_finished, read_study, run_job
from adc_wrappers.study.executors import pack_unless_shared, run_study, unpack
from adc_wrappers.study.results import read_results


class Inline:
    """An executor that does jobs in this process."""

    def map(self, function, jobs):
        for job in jobs:
            yield function(job)


def numbers(out):
    """What a study found: evaluations and learning curves, without times."""
    found = {}
    for path in sorted(out.glob("*/seed*/eval.json")):
        rows = [line.rsplit(",", 1)[0] for line in (path.parent / "metrics.csv").read_text().splitlines()]
        found[f"{path.parent.parent.name}/{path.parent.name}"] = (json.loads(path.read_text()), rows)
    return found


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The small study, done in this process."""
    out = tmp_path_factory.mktemp("reference")
    outcome = run_study(small_jobs(out), Inline())
    assert len(outcome.finished) == 4 and not outcome.failed and not outcome.kept
    return out


def test_a_run_is_an_ordinary_run_folder_with_an_evaluation_at_the_target(reference):
    path = reference / "adc" / "seed1"
    assert {"config.json", "metrics.csv", "checkpoints", "eval.json", "eval.csv", "job.json"} <= {
        entry.name for entry in path.iterdir()
    }
    summary = json.loads((path / "eval.json").read_text())
    assert summary["at_target"] and summary["episodes"] == 4 and summary["stiffness"] == [6.25]
    assert summary["trained"]["steps"] == 256 and summary["seed"] == 10_000
    assert main(["plot", str(path), "--out", str(reference / "x.png")]) == 0


def test_what_is_finished_is_not_touched(reference):
    before = {path: path.stat().st_mtime_ns for path in reference.rglob("*") if path.is_file() and "seed" in str(path)}
    outcome = run_study(small_jobs(reference), Inline())
    assert len(outcome.kept) == 4 and not outcome.finished
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_run_that_was_cut_off_goes_on_to_the_same_numbers(reference, tmp_path):
    """Trained but not evaluated; and begun with nothing saved yet."""
    first, second = small_jobs(tmp_path, conditions=("adc",))
    run_job(first)
    expected = json.loads((tmp_path / "adc/seed0/eval.json").read_text())
    (tmp_path / "adc/seed0/eval.json").unlink()
    trained = (tmp_path / "adc/seed0/metrics.csv").stat().st_mtime_ns
    assert not is_finished(first)
    assert run_job(first).summary == expected
    assert (tmp_path / "adc/seed0/metrics.csv").stat().st_mtime_ns == trained
    begun = tmp_path / "adc/seed1"
    begun.mkdir()
    (begun / "config.json").write_text(json.dumps(second.config))
    assert run_job(second).state == "finished"
    assert numbers(tmp_path)["adc/seed1"] == numbers(reference)["adc/seed1"]


def test_an_evaluation_of_another_size_is_done_again_without_training(reference, tmp_path):
    (job,) = small_jobs(tmp_path, conditions=("adc",), seeds=(0,))
    run_job(job)
    trained = (tmp_path / "adc/seed0/metrics.csv").stat().st_mtime_ns
    result = run_job(dataclasses.replace(job, episodes=6))
    assert result.summary["episodes"] == 6
    assert (tmp_path / "adc/seed0/metrics.csv").stat().st_mtime_ns == trained


def test_a_failed_run_is_written_down_and_the_others_go_on(tmp_path):
    jobs = small_jobs(tmp_path)
    bad = {**jobs[0].config, "settings": {"time_limit": 60, "pole_mass": -1.0}}
    outcome = run_study([dataclasses.replace(jobs[0], config=bad), *jobs[1:]], Inline())
    assert [result.condition for result in outcome.failed] == ["adc"] and len(outcome.finished) == 3
    written = json.loads((tmp_path / "adc/seed0/job.json").read_text())
    assert written["state"] == "failed" and "pole_mass" in written["error"]


def test_a_failed_run_is_tried_again(tmp_path, monkeypatch):
    (job,) = small_jobs(tmp_path, conditions=("adc",), seeds=(0,))
    with monkeypatch.context() as patch:
        patch.setattr("adc_wrappers.training.evaluating.evaluate_policy", lambda *_, **__: 1 / 0)
        assert "ZeroDivisionError" in run_job(job).error
    assert run_job(job).state == "finished"
    assert json.loads((tmp_path / "adc/seed0/job.json").read_text())["attempts"] == 2


def vanish(job):
    """A job function whose process dies for one of the jobs."""
    if job.condition == "adc":
        os._exit(9)
    return JobResult(condition=job.condition, seed=job.seed, state="finished")


@pytest.mark.slow
def test_a_process_that_dies_costs_its_own_run_only(tmp_path):
    results = list(LocalExecutor(2).map(vanish, small_jobs(tmp_path)))
    states = {(result.condition, result.seed): (result.state, result.gone) for result in results}
    assert len(results) == 4
    assert states == {
        ("adc", 0): ("failed", True), ("adc", 1): ("failed", True), ("train_at_target", 0): ("finished", False),
        ("train_at_target", 1): ("finished", False),
    }  # fmt: skip


class Losing(Inline):
    """An executor that loses the first of its jobs before it has written anything."""

    def map(self, function, jobs):
        yield JobResult.lost(jobs[0], "the process died.")
        yield from super().map(function, jobs[1:])


def test_a_run_whose_process_died_is_in_its_folder_and_in_the_report_and_is_tried_again(tmp_path):
    jobs = small_jobs(tmp_path, conditions=("adc",))
    run_study(jobs, Losing())
    assert json.loads((tmp_path / "adc/seed0/job.json").read_text())["error"] == "the process died."
    states = {run.seed: (run.state, run.error) for run in read_results(tmp_path).runs}
    assert states == {0: ("failed", "the process died."), 1: ("finished", None)}
    assert [result.seed for result in run_study(jobs, Inline()).finished] == [0]


def test_an_evaluation_with_another_seed_is_no_result_of_a_study(reference, tmp_path):
    (job,) = small_jobs(tmp_path, conditions=("adc",), seeds=(0,))
    run_job(job)
    path = tmp_path / "adc/seed0/eval.json"
    expected = path.read_text()
    path.write_text(json.dumps({**json.loads(expected), "seed": 10_007}))
    assert not is_finished(job)
    with pytest.raises(RunFolderError, match="--seed 10000"):
        read_results(tmp_path)
    run_job(job)
    assert path.read_text() == expected


def test_a_run_that_comes_back_is_finished_only_when_all_of_it_is_there(reference, tmp_path, monkeypatch):
    (job,) = small_jobs(tmp_path / "there", conditions=("adc",), seeds=(0,))
    (tmp_path / "there/study.json").unlink()
    result = pack_unless_shared(run_job, job)
    written = []
    monkeypatch.setattr("adc_wrappers.study.executors.write_atomically", lambda path, _: written.append(path.name))
    unpack(result, tmp_path / "here/adc/seed0")
    assert "metrics.csv" in written and written[-1] == "eval.json"


def test_a_study_keeps_its_settings_and_may_grow(tmp_path):
    small_jobs(tmp_path)
    small_jobs(tmp_path, conditions=("time",), seeds=(2,))
    study = read_study(tmp_path)
    assert study["seeds"] == [0, 1, 2] and len(study["commands"]) == 2
    assert [condition["name"] for condition in study["conditions"]] == ["adc", "train_at_target", "time"]
    plan = dataclasses.replace(small_plan(), episodes=5)
    with pytest.raises(CurriculumError, match="episodes: was 4, asked 5"):
        plan.begin(tmp_path, [], "")


def test_a_study_of_an_older_version_goes_on(tmp_path):
    """It did not know a setting that was added since; what it does not say is today's default."""
    small_jobs(tmp_path)
    study = json.loads((tmp_path / "study.json").read_text())
    del study["config"]["ppo"]["privileged_value"]
    (tmp_path / "study.json").write_text(json.dumps(study))
    small_jobs(tmp_path)
    assert read_study(tmp_path)["config"]["ppo"]["privileged_value"] is False


def test_a_run_with_other_settings_is_refused_before_anything_is_written(tmp_path):
    jobs = small_jobs(tmp_path, seeds=(0,))
    run_job(jobs[0])
    (tmp_path / "study.json").unlink()
    plan = small_plan(seeds=(0,))
    plan = dataclasses.replace(plan, config=dataclasses.replace(plan.config, checkpoint_every=7))
    with pytest.raises(CurriculumError, match="other settings"):
        plan.begin(tmp_path, plan.jobs(tmp_path, RobotFacts.of(plan.config)), "")
    assert not (tmp_path / "study.json").exists()


@pytest.mark.parametrize("options", [{"seeds": ()}, {"seeds": (1, 1)}, {"seeds": (-1,)}, {"conditions": ()}])
def test_a_plan_that_cannot_be_is_refused(options):
    with pytest.raises(CurriculumError, match="expected at least one"):
        small_plan(**options)


def test_a_machine_without_the_folder_sends_its_run_back(reference, tmp_path):
    """The other machine's path is another folder; the archive brings the run to where it belongs."""
    (job,) = small_jobs(tmp_path / "far", conditions=("adc",), seeds=(0,))
    (tmp_path / "far" / "study.json").unlink()
    result = pack_unless_shared(run_job, job)
    assert result.archive is not None
    here = tmp_path / "here" / "adc" / "seed0"
    assert unpack(result, here).archive is None
    assert numbers(tmp_path / "here")["adc/seed0"] == numbers(reference)["adc/seed0"]
    assert pack_unless_shared(run_job, small_jobs(reference)[0]).archive is None


def test_options_of_other_engines_are_refused(tmp_path, capsys):
    assert main(["study", "run", "cartpole", *SMALL, "--out", str(tmp_path / "x"), "--address", "auto"]) == 1
    assert "--executor" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    assert main(["study", "run", "cartpole", *SMALL, "--out", str(tmp_path / "x"), "--conditions", "acd"]) == 1
    assert "Did you mean 'adc'" in capsys.readouterr().err


def test_missing_packages_are_named(tmp_path, monkeypatch):
    from adc_wrappers.study.executors import RayExecutor, SlurmExecutor

    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingExtraError, match=r"\[ray\]"):
        RayExecutor()
    with pytest.raises(MissingExtraError, match=r"\[slurm\]"):
        SlurmExecutor(tmp_path)


def test_options_reach_every_condition(tmp_path):
    """ADC's own settings are the base that conditions differ from; the hold is fitted to the budget."""
    changes = {"start_stiffness": 20.0, "ema": 0.2}
    run = StudyRun(task="cartpole", recipe="narrow", ppo={"total_steps": 40_960}, curriculum=changes)
    config = run._config(print)
    assert config.backend == "analytic" and config.ppo.total_steps == 40_960
    assert (config.curriculum.start_stiffness, config.curriculum.ema) == (20.0, 0.2)
    assert config.curriculum.hold_share == 0.4 and config.curriculum.total_iterations == 10
    facts = RobotFacts.of(config)
    assert find_condition("retuned_scale").applied_to(config, facts, 0).settings["command_limit"] == 20.0


# --- executors -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_local_processes_give_the_same(reference, tmp_path):
    outcome = run_study(small_jobs(tmp_path), LocalExecutor(2))
    assert len(outcome.finished) == 4
    assert numbers(tmp_path) == numbers(reference)


@pytest.mark.slow
def test_a_ray_cluster_of_two_nodes_gives_the_same(reference, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_worker_niceness", "0")  # Ray's 15 would let it wait for whatever else the machine does
    ray = pytest.importorskip("ray", reason="the executor 'ray' needs Ray")
    from ray.cluster_utils import Cluster

    from adc_wrappers.study.executors import RayExecutor

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        assert sum(node["Alive"] for node in ray.nodes()) == 2
        ray.shutdown()
        outcome = run_study(small_jobs(tmp_path), RayExecutor(cluster.address))
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert [result.error for result in outcome.failed] == [] and len(outcome.finished) == 4
    assert numbers(tmp_path) == numbers(reference)


@pytest.mark.slow
def test_submitits_local_executor_gives_the_same(reference, tmp_path, monkeypatch):
    pytest.importorskip("submitit", reason="the executor 'slurm' needs submitit")
    from adc_wrappers.study.executors import SlurmExecutor

    monkeypatch.setattr("adc_wrappers.study.executors._POLL", 0.1)  # a cluster is not to be asked that often
    executor = SlurmExecutor(tmp_path / "submitit", cluster="local", parallel=2)
    outcome = run_study(small_jobs(tmp_path)[:3], executor)  # one more than run at a time; each starts two processes
    assert [result.error for result in outcome.failed] == [] and len(outcome.finished) == 3
    assert numbers(tmp_path).items() < numbers(reference).items() and len(numbers(tmp_path)) == 3


def test_a_preempted_slurm_job_is_submitted_again():
    pytest.importorskip("submitit", reason="the executor 'slurm' needs submitit")
    from adc_wrappers.study.executors import Requeued

    job = object()
    again = Requeued(run_job).checkpoint(job)
    assert again.args == (job,) and again.function.function is run_job


# --- the command -----------------------------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    """The processes that any thread of a process has started."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(number) for path in found for number in path.read_text().split()]


def running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_killed_study_goes_on_and_repeats_nothing(tmp_path):
    """Killed with SIGKILL when the first runs are finished; its workers end too, and the second start does the rest."""
    out = tmp_path / "study"
    command = [
        sys.executable, "-m", "adc_wrappers.cli", "study", "run", "cartpole", *SMALL, "--seeds", "3", "--out", str(out),
        "--conditions", "adc", "time", "--no-report",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not list(out.glob("*/seed*/job.json")) and process.poll() is None:
        time.sleep(0.1)
    workers = children(process.pid)
    assert workers
    process.send_signal(signal.SIGKILL)
    process.wait()
    while any(map(running, workers)):
        time.sleep(0.1)
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/seed*/eval.json")}
    done = {path.parent: path.read_text() for path in out.glob("*/seed*/job.json")}
    assert done
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert len(list(out.glob("*/seed*/eval.json"))) == 6
    for folder, text in done.items():
        assert (folder / "eval.json").stat().st_mtime_ns == before[folder / "eval.json"]
        assert (folder / "job.json").read_text() == text


@pytest.mark.slow
def test_quick_is_short_and_ends_with_a_page(tmp_path, capsys, monkeypatch):
    """The command of the README, with fewer steps and conditions."""
    words = ["study", "run", "cartpole", "--quick", "--steps", "2048", "--episodes", "10", "--out", str(tmp_path / "q")]
    words += ["--conditions", "adc", "train_at_target", "--seeds", "1"]
    monkeypatch.setattr(sys, "argv", ["adc", *words])
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "2 conditions × 1 seeds" in text and "report.html" in text
    page = (tmp_path / "q" / "report" / "report.html").read_text()
    assert "adc study run cartpole --quick" in page
    assert "data:image/gif" in page


def seen_device(job):
    """Return as the run's error which GPU its process sees, how many threads it was given, and which process it is."""
    seen = {name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")}
    return JobResult(
        condition=job.condition, seed=job.seed, state="failed", error=json.dumps({**seen, "process": os.getpid()})
    )


def test_every_run_of_a_study_on_gpus_sees_its_own(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    jobs = small_jobs(tmp_path)
    seen = [json.loads(result.error) for result in LocalExecutor(None, ("1", "3")).map(seen_device, jobs)]
    assert len(seen) == len(jobs) > 2
    assert {found["CUDA_VISIBLE_DEVICES"] for found in seen} == {"1", "3"}
    assert {found["OMP_NUM_THREADS"] for found in seen} == {None}
    assert len({found["process"] for found in seen}) == len(jobs)  # what a simulator leaves behind goes with it


@pytest.mark.parametrize(("processes", "devices"), [(None, ("0", "0")), (None, ("gpu",)), (3, ("0", "1"))])
def test_devices_are_numbers_each_once(processes, devices):
    with pytest.raises(ValueError, match=r"devices|jobs"):
        LocalExecutor(processes, devices)


def test_devices_are_for_simulators_on_a_gpu(capsys, tmp_path):
    arguments = ["study", "run", "cartpole", "--out", str(tmp_path / "study"), "--devices", "0,1"]
    assert main(arguments) != 0
    assert "--devices 0,1: expected" in capsys.readouterr().err
    assert main(["train", "cartpole", "--device", "cuda:0", "--out", str(tmp_path / "run")]) != 0
    assert "runs on the CPU" in capsys.readouterr().err
