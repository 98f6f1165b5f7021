"""Trajectory logs: what is read is what was written, and what cannot be used is refused with row and column."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adc_wrappers.trajectories import BaseTrack, TrajectoryError, TrajectoryLog, read_log, write_log

JOINTS = ("a_hx", "a_kn")


def make_log(rows=12, *, base=True, torques=True, seed=0):
    rng = np.random.default_rng(seed)
    quaternion = rng.standard_normal((rows, 4))
    track = BaseTrack(
        rng.standard_normal((rows, 3)),
        quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True),
        rng.standard_normal((rows, 3)),
        rng.standard_normal((rows, 3)),
    )
    return TrajectoryLog(
        joint_names=JOINTS,
        time=np.cumsum(rng.uniform(0.001, 0.02, rows)),
        positions=rng.standard_normal((rows, 2)),
        velocities=rng.standard_normal((rows, 2)),
        targets=rng.standard_normal((rows, 2)),
        torques=rng.standard_normal((rows, 2)) if torques else None,
        base=track if base else None,
        commanded_stiffness=np.array([60.0, 50.0]),
        commanded_damping=np.array([1.5, 1.0]),
        source="a test",
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("extras", [True, False])
def test_a_log_survives_the_disk_to_the_last_bit(tmp_path, ending, extras):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    log = make_log(base=extras, torques=extras)
    again = read_log(write_log(log, tmp_path / f"log.{ending}"))
    assert again.joint_names == log.joint_names and again.source == "a test"
    for name in ("time", "positions", "velocities", "targets", "commanded_stiffness", "commanded_damping"):
        np.testing.assert_array_equal(getattr(again, name), getattr(log, name))
    if extras:
        np.testing.assert_array_equal(again.torques, log.torques)
        for ours, theirs in zip(again.base, log.base, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    else:
        assert again.torques is None and again.base is None


@settings(max_examples=30, deadline=None)
@given(row=st.integers(0, 11), column=st.integers(0, 21), bad=st.sampled_from(["nan", "inf", "", "12,5x", "-inf"]))
def test_any_bad_cell_is_named(tmp_path_factory, row, column, bad):
    path = write_log(make_log(), tmp_path_factory.mktemp("log") / "log.csv")
    lines = [line.split(",") for line in path.read_text().splitlines()]
    name = lines[0][column]
    lines[row + 1][column] = bad.replace(",", ".")
    path.write_text("\n".join(",".join(cells) for cells in lines))
    with pytest.raises(TrajectoryError) as error:
        read_log(path)
    assert f"row {row + 1}, column {name!r}" in str(error.value)


def edit(tmp_path, change, description=None):
    path = write_log(make_log(), tmp_path / "log.csv")
    lines = [line.split(",") for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("\n".join(",".join(cells) for cells in lines))
    if description is not None:
        beside = path.with_suffix(".json")
        values = json.loads(beside.read_text())
        description(values)
        beside.write_text(json.dumps(values))
    return path


def drop(name):
    def change(lines):
        place = lines[0].index(name)
        for cells in lines:
            del cells[place]

    return change


def rename(old, new):
    def change(lines):
        lines[0][lines[0].index(old)] = new

    return change


def same_time(lines):
    lines[5][0] = lines[4][0]


def few_rows(lines):
    del lines[6:]


def cut_row(lines):
    del lines[3][7:]


def twice(lines):
    lines[0][1] = lines[0][2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop("velocity.a_kn"), "column 'velocity.a_kn' is missing"),
        (drop("time"), "column 'time' is missing"),
        (drop("torque.a_hx"), "column 'torque.a_hx' is missing"),
        (drop("base_quaternion.z"), "column 'base_quaternion.z' is missing"),
        (rename("position.a_kn", "position.b_kn"), "column 'position.b_kn': no joint of this name"),
        (rename("target.a_kn", "target.a_kx"), "column 'target.a_kn' is missing. Did you mean 'target.a_kx'?"),
        (same_time, "row 5, column 'time': expected more than"),
        (few_rows, "too short: expected at least 10 rows, got 5"),
        (cut_row, "row 3, column 'target.a_kn': expected 22 cells"),
        (twice, "is there twice"),
    ],
)
def test_a_malformed_table_is_refused(tmp_path, change, words):
    with pytest.raises(TrajectoryError) as error:
        read_log(edit(tmp_path, change))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("commanded"), "'commanded'"),
        (lambda d: d.pop("joints"), "'joints'"),
        (lambda d: d["commanded"].update(stiffness={"a_hx": 60.0}), "commanded stiffness"),
        (lambda d: d["commanded"].update(damping=[1.0]), "commanded damping"),
        (lambda d: d["commanded"].update(damping=-1.0), "at least 0"),
    ],
)
def test_a_description_that_does_not_say_is_refused(tmp_path, change, words):
    with pytest.raises(TrajectoryError, match=words):
        read_log(edit(tmp_path, lambda lines: None, change))


def test_missing_files_are_named(tmp_path):
    with pytest.raises(TrajectoryError, match="no such file"):
        read_log(tmp_path / "log.csv")
    path = write_log(make_log(), tmp_path / "log.csv")
    path.with_suffix(".json").unlink()
    with pytest.raises(TrajectoryError, match=r"log\.json is missing"):
        read_log(path)


def test_a_quaternion_that_is_none_is_refused(tmp_path):
    def change(lines):
        lines[4][lines[0].index("base_quaternion.w")] = "3.0"

    with pytest.raises(TrajectoryError, match=r"row 4, column 'base_quaternion\.w'"):
        read_log(edit(tmp_path, change))


def test_a_changed_byte_in_a_parquet_page_is_found_by_its_checksum(tmp_path):
    path = write_log(make_log(rows=200), tmp_path / "log.parquet")
    content = path.read_bytes()
    place = content.find(make_log(rows=200).positions[100, 0].tobytes())
    assert place > 0  # a number of the table, as it lies in the file
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(TrajectoryError, match="not a whole Parquet file"):
        read_log(path)


def test_a_csv_table_goes_only_when_its_parquet_file_reads_back(tmp_path, monkeypatch):
    from adc_wrappers.trajectories import parquet

    file = tmp_path / "states.csv"
    file.write_text("time,phase\n0.1,stand\n0.2,stand\n")

    def damaged(path, content):
        path.write_bytes(content[: len(content) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(parquet, "write_atomically", damaged)
        with pytest.raises(TrajectoryError, match="not a whole Parquet file"):
            parquet.csv_to_parquet(file)
    assert file.exists()
    parquet.csv_to_parquet(file)
    assert not file.exists() and (tmp_path / "states.parquet").exists()


def test_logs_need_numpy_only():
    heavy = ["mujoco", "pyarrow", "cma", "torch", "scipy", "matplotlib"]
    code = f"import sys, adc_wrappers.trajectories; print([m for m in {heavy} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
