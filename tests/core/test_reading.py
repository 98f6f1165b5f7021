"""Reading of strangers' files: what is refused, in whose words, before anything is built from it."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

from adc_wrappers.core import CurriculumConfig, CurriculumError
from adc_wrappers.core.errors import UnknownSettingError
from adc_wrappers.core.reading import check_fields, parse_json, read_object
from adc_wrappers.runs import CheckpointError, RunFolder, RunFolderError
from adc_wrappers.runs.checkpoint import CheckpointStore
from adc_wrappers.runs.metrics import MetricsFile


@dataclass
class Example:
    number: float
    count: int = 1
    flag: bool = False
    name: str | None = None
    pair: tuple[int, str] = (0, "")
    many: tuple[float, ...] = ()
    table: Mapping[str, float] = field(default_factory=dict)
    side: Literal["left", "right"] = "left"
    anything: Any = None


@pytest.mark.parametrize(
    "values",
    [
        {"number": 1},
        {"number": np.float32(1.0), "count": np.int64(3), "many": np.ones(2)},
        {"number": float("inf"), "name": None, "pair": [1, "a"], "many": [1, 2.5], "table": {"a": 1}, "side": "right"},
        {"number": 0.5, "anything": object()},
    ],
)
def test_values_of_the_declared_kinds_pass(values):
    check_fields(Example, values, "example")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r"example: expected names and values, got \[\]"),
        ({}, "example lacks number"),
        ({"number": 1, "flog": True}, r"unknown name 'flog'\. Did you mean 'flag'"),
        ({"number": float("nan")}, "number: expected a number, got nan"),
        ({"number": True}, "number: expected a number, got True"),
        ({"number": 2**70}, "number: expected a number"),
        ({"number": "1"}, "number: expected a number, got '1'"),
        ({"number": 1, "count": 1.0}, r"count: expected a whole number, got 1\.0"),
        ({"number": 1, "count": 2**63}, "count: expected a whole number"),
        ({"number": 1, "flag": 1}, "flag: expected true or false, got 1"),
        ({"number": 1, "name": 3}, "name: expected a text or null, got 3"),
        ({"number": 1, "pair": [1]}, r"pair: expected a list of 2, got \[1\]"),
        ({"number": 1, "many": [None]}, r"many: expected numbers, got \[None\]"),
        ({"number": 1, "table": {"a": "b"}}, r"table: expected names and numbers, got \{'a': 'b'\}"),
        ({"number": 1, "side": "up"}, "side: expected one of 'left', 'right', got 'up'"),
    ],
)
def test_values_of_other_kinds_are_refused_by_name(values, message):
    with pytest.raises(CurriculumError, match=message):
        check_fields(Example, values, "example")


def test_parts_and_additions_may_be_allowed():
    check_fields(Example, {}, "example", partial=True)
    check_fields(Example, {"number": 1, "other": 2}, "example", more=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON that can be read"),
        ("[" * 100_000, "not JSON that can be read"),
        ("[" * 70 + "]" * 70, "more than 64 levels"),
        ("9" * 400, "a whole number of 1329 bits"),
        ('"\\ud800"', "no Unicode"),
        (b"\xff\xfe\xff", "not JSON that can be read"),
    ],
)
def test_json_that_python_cannot_work_with_is_refused(text, message):
    with pytest.raises(RunFolderError, match=f"here.*{message}"):
        parse_json(text, "here", RunFolderError)


def test_constants_are_refused_where_they_are_not_wanted():
    assert np.isnan(parse_json("NaN", "here", RunFolderError))
    with pytest.raises(RunFolderError, match="NaN is no number"):
        parse_json("NaN", "here", RunFolderError, constants=False)


def test_a_file_that_is_missing_no_text_or_no_object_says_so(tmp_path):
    path = tmp_path / "file.json"
    with pytest.raises(RunFolderError, match="cannot be read"):
        read_object(path, RunFolderError)
    path.write_bytes(b"\xff")
    with pytest.raises(RunFolderError, match="UTF-8"):
        read_object(path, RunFolderError)
    path.write_text("[]")
    with pytest.raises(RunFolderError, match=r"expected a JSON object, got \[\]"):
        read_object(path, RunFolderError)


@pytest.mark.parametrize(
    "change",
    [
        {"ppo": None},
        {"ppo": {"hidden": "x"}},
        {"curriculum": []},
        {"seed": -1},
        {"seed": 0.5},
        {"actions": {"noise_std": "x"}},
        {"task": "nothing"},
        {"settings": []},
    ],
)
def test_a_config_with_a_wrong_part_is_refused(change, tmp_path):
    pytest.importorskip("torch")
    from adc_wrappers.training import TrainConfig, default_config

    folder = RunFolder.create(tmp_path / "run", {**default_config("cartpole", "analytic").to_dict(), **change})
    with pytest.raises(CurriculumError):
        TrainConfig.from_dict(folder.config())


def test_a_task_refuses_settings_of_another_kind():
    from adc_wrappers import make_env

    with pytest.raises(CurriculumError, match="start_angle: expected a number, got 'x'"):
        make_env("cartpole", backend="analytic", start_angle="x")
    with pytest.raises(UnknownSettingError, match="no setting 'start'"):
        make_env("cartpole", backend="analytic", start=1)


def test_seeds_that_no_generator_takes_are_refused():
    for seed in (-1, 2**32):
        with pytest.raises(CurriculumError, match="seed: expected a whole number"):
            CurriculumConfig(seed=seed)


def _archive(parts, method=zipfile.ZIP_STORED, **changes):
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}
    manifest = {"format": "adc-checkpoint", "version": 1, "step": 1, "sha256": digests, **changes}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in {**parts, "manifest.json": json.dumps(manifest).encode()}.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_archive({"a": bytes(10**7)}, zipfile.ZIP_DEFLATED), "is compressed"),
        (_archive({"a": b""}, step="1"), "does not say the step"),
        (_archive({"a": b""}, sha256=[]), "does not say the step"),
        (_archive({"a": b""}, format=None), "expected adc-checkpoint version 1"),
        (b"PK", "not a whole checkpoint"),
    ],
)
def test_a_checkpoint_from_a_stranger_is_refused_before_it_is_unpacked(content, message, tmp_path):
    path = tmp_path / "step_1.ckpt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        CheckpointStore(tmp_path).load(path)


def test_parts_that_are_missing_or_foreign_are_named(tmp_path):
    store = CheckpointStore(tmp_path)
    checkpoint = store.load(store.save(1, {"a.json": b"[]", "b.json": b"{"}))
    for name, message in (("a.json", "expected a JSON object"), ("b.json", "not JSON"), ("c.json", "lacks the part")):
        with pytest.raises(CheckpointError, match=message):
            checkpoint.json(name)


def test_metrics_that_are_no_table_are_refused(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.csv")
    for content, message in ((b"\xff", "UTF-8"), (b"a" * 200_000, "not a table")):
        metrics.path.write_bytes(content)
        with pytest.raises(RunFolderError, match=message):
            metrics.read()
    metrics.path.write_text("steps\n1\n")
    with pytest.raises(RunFolderError, match="column 'iteration'"):
        metrics.keep_until(3)


def test_scores_are_numbers_and_no_pickles(tmp_path):
    pytest.importorskip("torch")
    from adc_wrappers.study.analysis import load_scores

    path = tmp_path / "scores.npz"
    for array, message in ((np.array([[{}]], dtype=object), "not a table"), (np.ones(3), r"expected numbers \(runs")):
        np.savez(path, adc=array)
        with pytest.raises(RunFolderError, match=message):
            load_scores(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("adc", b"no array")
    with pytest.raises(RunFolderError, match="expected an array"):
        load_scores(path)


def test_random_states_that_are_too_short_are_refused():
    pytest.importorskip("torch")
    from adc_wrappers.training.resuming import kept_random_states, load_random_states, random_states

    for change in ({"python_rng": [3, [1], None]}, {"python_rng": 3}, {"numpy_rng": {}}):
        with kept_random_states(), pytest.raises(CheckpointError, match="random states cannot be read"):
            load_random_states({**random_states(), **change})
    state = random_states()
    state["numpy_rng"]["state"]["key"] = state["numpy_rng"]["state"]["key"][:607]
    with kept_random_states(), pytest.raises(CheckpointError, match="random states cannot be read"):
        load_random_states(state)
