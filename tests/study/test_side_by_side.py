"""The demo: two conditions trained side by side, one picture, one film."""

from __future__ import annotations

import numpy as np
import pytest
from study_helpers import SMALL, write_run

from adc_wrappers.cli import main
from adc_wrappers.study import Job
from adc_wrappers.study.results import read_results
from adc_wrappers.study.side_by_side import RunsWatch, draw_side_by_side, verdict


@pytest.mark.slow
def test_the_demo_trains_both_draws_and_films_and_goes_on_when_it_exists(tmp_path, capsys):
    from PIL import Image

    out = tmp_path / "demo"
    words = ["demo", "cartpole", *SMALL, "--out", str(out), "--seconds", "0.5"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "Ours (ADC)" in said and "Train at K*" in said and "One seed each" in said
    assert Image.open(out / "demo.png").width > 500
    film = Image.open(out / "demo.gif")
    assert film.width > 2 * film.height and film.n_frames > 1  # two robots in one picture
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/seed0/eval.json")}
    assert len(before) == 2
    assert main(words) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_demo_with_other_settings_in_the_same_folder_is_refused(tmp_path, capsys):
    (tmp_path / "demo").mkdir()
    write_run(tmp_path / "demo", "adc", 0)
    assert main(["demo", "cartpole", *SMALL, "--out", str(tmp_path / "demo")]) == 1
    assert "other settings" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--seconds", "0"], ["--episodes", "0"], ["--conditions", "adk"]])
def test_nonsense_is_refused_before_anything_is_made(tmp_path, capsys, words):
    assert main(["demo", "cartpole", *SMALL, "--out", str(tmp_path / "demo"), *words]) == 1
    assert capsys.readouterr().err.startswith("adc: ")
    assert not (tmp_path / "demo").exists()


def test_the_picture_of_runs_that_differ_in_what_they_logged(tmp_path):
    write_run(tmp_path, "adc", 0, success=0.9)
    write_run(tmp_path, "train_at_target", 0, success=0.1)
    results = read_results(tmp_path)
    assert draw_side_by_side(results, tmp_path / "demo.png").stat().st_size > 10_000
    said = verdict(results)
    assert "90.0 % success" in said and "10.0 % success" in said


def test_the_watch_tells_the_last_row_of_every_run_at_the_end(tmp_path):
    paths = [write_run(tmp_path, name, 0) for name in ("adc", "train_at_target")]
    jobs = [Job(condition=p.parent.name, seed=0, folder=str(p), config={}, episodes=1) for p in paths]
    jobs.append(Job(condition="none", seed=0, folder=str(tmp_path / "none"), config={}, episodes=1))
    rows = {}
    with RunsWatch(jobs, lambda job, row: rows.__setitem__(job.condition, row)):
        pass
    assert set(rows) == {"adc", "train_at_target"}
    assert rows["adc"]["iteration"] == 40 and np.isfinite(rows["adc"]["stiffness"])
