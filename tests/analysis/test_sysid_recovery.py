"""From a log to K_*, end to end."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

pytest.importorskip("mujoco")
pytest.importorskip("cma")

from sysid_helpers import HIDDEN, SETTINGS, record_spot

from adc_wrappers import CurriculumConfig
from adc_wrappers.cli import main
from adc_wrappers.sysid import (
    FreeParameter,
    WindowSettings,
    identify,
    load_identification,
    validate,
    write_report,
)
from adc_wrappers.sysid.simulation import model_digest
from adc_wrappers.trajectories import read_log, write_log

NOISY = dataclasses.replace(HIDDEN, position_noise=0.001, velocity_noise=0.03, seed=3)


@pytest.fixture(scope="module")
def found():
    return identify([record_spot(NOISY)], SETTINGS)


@pytest.mark.slow
def test_hidden_parameters_are_found_inside_their_intervals(found):
    truth = {"stiffness": 2 / 3, "damping": 1.1, "coulomb": 0.6, "delay": 0.006}
    for name, value in truth.items():
        parameter = found.parameter(name)
        assert parameter.lower <= value <= parameter.upper, name
        assert parameter.verdict == "identified", name
    assert abs(found.simulated_stiffness[0] / 40.0 - 1.0) < 0.05
    assert found.errors.position < 0.1 * found.errors_as_commanded.position
    assert found.warnings == ()


@pytest.mark.slow
def test_both_kinds_of_gains_and_their_mapping_are_written_and_training_takes_the_target(found, tmp_path):
    made = {path.name for path in write_report(found, tmp_path)}
    assert made == {"identification.json", "traces.csv", "curriculum.json", "report.png", "report.html"}
    gains = json.loads((tmp_path / "identification.json").read_text())["gains"]
    for joint in found.joint_names:
        commanded, simulated = (gains[side]["stiffness"][joint] for side in ("commanded", "simulated"))
        assert commanded == 60.0 and simulated == pytest.approx(gains["mapping"]["stiffness"][joint] * commanded)
    config = CurriculumConfig.from_dict(json.loads((tmp_path / "curriculum.json").read_text()))
    assert config.target_stiffness == pytest.approx(40.0, rel=0.05)
    assert config.start_stiffness == pytest.approx(60.0, rel=0.05)
    assert "gains" in (tmp_path / "report.html").read_text().lower()


@pytest.mark.slow
def test_a_log_at_other_gains_validates_the_mapping(found, tmp_path):
    write_report(found, tmp_path)
    saved = load_identification(tmp_path / "identification.json")
    other = validate(saved, [record_spot(NOISY, stiffness=90.0)], saved.settings)
    assert other.agrees and other.errors.position < 0.2 * other.errors_as_commanded.position
    strange = dataclasses.replace(NOISY, stiffness_scale=0.9)
    assert not validate(found, [record_spot(strange, stiffness=90.0)], SETTINGS).agrees


@pytest.mark.slow
def test_an_interrupted_search_goes_on_to_the_same_answer(tmp_path):
    log = record_spot(NOISY, seconds=0.8)
    settings = dataclasses.replace(SETTINGS, free=(FreeParameter("stiffness"),), generations=4, tolerance=1e-6)
    whole = identify([log], settings)
    state = tmp_path / "search.json"
    identify([log], dataclasses.replace(settings, generations=2), state_file=state)
    again = identify([log], settings, state_file=state)
    assert again.loss == whole.loss and again.generations == 4
    others = (
        {"seed": 9}, {"free": (FreeParameter("damping"),)}, {"loss": "mmd"}, {"windows": WindowSettings(length=0.3)},
        {"free": (FreeParameter("stiffness", lower=0.4, upper=0.9),)}, {"robot": {"physics_step": 0.001}},
    )  # fmt: skip
    for change in others:
        with pytest.raises(ValueError, match="other settings or logs"):
            identify([log], dataclasses.replace(settings, **change), state_file=state)
    with pytest.raises(ValueError, match="other settings or logs"):
        identify([record_spot(NOISY, seconds=1.0)], settings, state_file=state)


def test_a_validation_with_another_model_is_refused(tmp_path):
    from adc_wrappers.backends.spot_model import spot_mjcf
    from adc_wrappers.sysid.validation import SavedIdentification

    files = [tmp_path / "heavy.xml", tmp_path / "light.xml"]
    for file, text in zip(files, (spot_mjcf(), spot_mjcf(self_collision=True)), strict=True):
        file.write_text(text)
    digests = [model_digest({"model": file}) for file in files]
    assert digests[0] != digests[1] and digests[0] == model_digest({"model": files[0].read_text()})
    saved = SavedIdentification(values=(), parameters=(), settings=SETTINGS, model=digests[0])
    assert saved.with_robot({"model": files[0]}).robot["model"] == files[0]
    for robot in ({}, {"model": files[1]}):
        with pytest.raises(ValueError, match="--model"):
            saved.with_robot(robot)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "other_model"), [("mujoco", False), ("pybullet", True)])
def test_errors_that_are_not_noise_are_warned_of(engine, other_model):
    """Velocities are exact here: what little is left of them comes from the measured start, and counts for nothing."""
    pytest.importorskip(engine)
    hidden = dataclasses.replace(HIDDEN, position_noise=0.001)
    found = identify([record_spot(hidden, engine=engine)], dataclasses.replace(SETTINGS, generations=0))
    assert any("not noise" in warning for warning in found.warnings) == other_model
    assert abs(found.simulated_stiffness[0] / 40.0 - 1.0) < 0.05


def test_what_cannot_be_identified_is_said_and_gives_no_curriculum():
    """A robot that holds still without weight says nothing about its stiffness."""
    log = record_spot(NOISY, seconds=0.8)
    rng = np.random.default_rng(0)
    shape = log.positions.shape
    held = dataclasses.replace(
        log,
        targets=np.tile(log.targets[0], (shape[0], 1)),
        positions=log.targets[0] + 1e-5 * rng.standard_normal(shape),
        velocities=1e-3 * rng.standard_normal(shape),
    )
    free = (FreeParameter("stiffness"), FreeParameter("coulomb"))
    settings = dataclasses.replace(SETTINGS, free=free, generations=2, valleys=1, robot={"gravity": False})
    result = identify([held], settings)
    assert result.parameter("stiffness").verdict == "not identified"
    assert any("stiffness is not identified" in text for text in result.warnings)
    with pytest.raises(ValueError, match="the stiffness was not identified"):
        result.curriculum()
    without = identify([held], dataclasses.replace(settings, free=(FreeParameter("damping"),)))
    assert not without.identified, "a stiffness that was not looked for is not known"


@pytest.mark.slow
def test_the_command_line_from_collect_to_fit(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    collect = ["sysid", "collect", "mujoco", "--seconds", "1.0", "--out", "log.csv"]
    assert main([*collect, "--rehearsal.stiffness-scale", "0.75"]) == 0
    assert read_log("log.csv").commanded_stiffness.tolist() == [60.0] * 12
    fit = ["sysid", "fit", "log.csv", "--window", "0.4", "--generations", "8", "--out", "fit", "--free"]
    assert main([*fit, "stiffness", "damping"]) == 0
    printed = capsys.readouterr().out
    assert "adc train spot-handstand --curriculum.start-stiffness 67.5 --curriculum.target-stiffness 45" in printed
    assert main([*fit, "stiffness", "damping"]) == 1, "a search that is there is not overwritten"
    assert main(["sysid", "validate", "fit", "log.csv"]) == 0


def test_the_command_line_refuses_a_malformed_log_with_row_and_column(tmp_path, capsys):
    path = write_log(record_spot(seconds=0.4), tmp_path / "log.csv")
    lines = path.read_text().splitlines()
    cells = lines[7].split(",")
    cells[3] = "nan"
    lines[7] = ",".join(cells)
    path.write_text("\n".join(lines))
    assert main(["sysid", "fit", str(path)]) == 1
    assert "row 7, column 'position.fl_kn'" in capsys.readouterr().err
