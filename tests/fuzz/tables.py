"""Tables: trajectory logs as CSV and Parquet with their description, a run's metrics, a study's scores."""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from adc_wrappers.runs import RunFolderError
from adc_wrappers.runs.metrics import MetricsFile
from adc_wrappers.study.analysis import load_scores
from adc_wrappers.trajectories import BaseTrack, TrajectoryError, TrajectoryLog, read_log, write_log
from adc_wrappers.trajectories.columns import log_to_columns

from .mutations import mutate_bytes, mutate_csv, mutate_json
from .targets import Mutant, Target, expect

__all__ = ["CsvTarget", "DescriptionTarget", "MetricsTarget", "ParquetTarget", "ScoresTarget"]

_JOINTS = ("fl_hx", "fl_kn")
_ROWS = 14


def _make_log() -> TrajectoryLog:
    rng = np.random.default_rng(0)
    shape = (_ROWS, len(_JOINTS))
    quaternion = np.tile((1.0, 0.0, 0.0, 0.0), (_ROWS, 1))
    base = BaseTrack(np.zeros((_ROWS, 3)), quaternion, np.zeros((_ROWS, 3)), np.zeros((_ROWS, 3)))
    return TrajectoryLog(
        joint_names=_JOINTS, time=np.arange(_ROWS) * 0.003, positions=rng.normal(size=shape),
        velocities=rng.normal(size=shape), targets=rng.normal(size=shape), torques=rng.normal(size=shape),
        commanded_stiffness=np.full(2, 60.0), commanded_damping=np.full(2, 5.0), base=base, source="fuzz",
    )  # fmt: skip


class _LogTarget(Target):
    errors = (TrajectoryError,)
    ending = ".csv"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log = _make_log()
        self.path = write_log(self.log, folder / f"log{self.ending}")
        self.content = self.path.read_bytes()

    def read(self, mutant: Mutant) -> None:
        self.path.write_bytes(mutant.content)
        self.check(read_log(self.path))

    def check(self, log: TrajectoryLog) -> None:
        """Look at what was accepted: no table has a digest, so its numbers must be fit to be used."""
        arrays = [log.time, log.positions, log.velocities, log.targets, log.commanded_stiffness, log.commanded_damping]
        expect(all(np.isfinite(array).all() for array in arrays), "accepted with numbers that are not finite")
        expect(bool((np.diff(log.time) > 0.0).all()), "accepted with time that stands still")
        expect(all(isinstance(name, str) for name in log.joint_names), "accepted with joints that are no names")
        expect(np.array_equal(log.commanded_stiffness, self.log.commanded_stiffness), "accepted with other gains")


class CsvTarget(_LogTarget):
    """A log as CSV."""

    name = "trajectory-csv"

    def mutate(self, rng: Random) -> Mutant:
        return Mutant(*mutate_csv(rng, self.content))


class DescriptionTarget(_LogTarget):
    """The JSON beside a log."""

    name = "trajectory-description"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.description = json.loads(self.path.with_suffix(".json").read_text())

    def mutate(self, rng: Random) -> Mutant:
        return Mutant(*mutate_json(rng, self.description))

    def read(self, mutant: Mutant) -> None:
        self.path.with_suffix(".json").write_bytes(mutant.content)
        log = read_log(self.path)
        said = json.loads(mutant.content)["commanded"]
        for name, found in (("stiffness", log.commanded_stiffness), ("damping", log.commanded_damping)):
            values = said[name]
            values = [values[joint] for joint in log.joint_names] if isinstance(values, dict) else values
            expect(np.array_equal(np.broadcast_to(values, found.shape), found), f"accepted with another {name}")
            expect(bool(np.isfinite(found).all() and (found >= 0.0).all()), f"accepted with {name} {found}")


class ParquetTarget(_LogTarget):
    """A log as Parquet: damaged, or whole with columns that are none of ours."""

    name = "trajectory-parquet"
    ending = ".parquet"

    def mutate(self, rng: Random) -> Mutant:
        if rng.random() < 0.75:
            return Mutant(*mutate_bytes(rng, self.content, self.content))
        table = pq.read_table(io.BytesIO(self.content))
        name, column = _odd_column(rng, table.num_rows)
        place = rng.randrange(table.num_columns)
        action = rng.choice(("replace", "replace", "add", "drop", "rows"))
        if action == "replace":
            table = table.set_column(place, table.column_names[place], column)
        elif action == "add":
            table = table.add_column(place, rng.choice((*table.column_names, "x", "")), column)
        elif action == "drop":
            table = table.remove_column(place)
        else:
            table = table.slice(0, rng.choice((0, 1, 9)))
        sink = io.BytesIO()
        pq.write_table(table, sink, compression=rng.choice(("snappy", "gzip", "none", "zstd")))
        return Mutant(sink.getvalue(), f"{action}: {name}")

    def check(self, log: TrajectoryLog) -> None:
        super().check(log)
        if self.damaged:
            before, after = log_to_columns(self.log), log_to_columns(log)
            same = before.keys() == after.keys() and all(np.array_equal(before[name], after[name]) for name in before)
            expect(same, "accepted with other numbers than the pages' checksums vouch for")

    def read(self, mutant: Mutant) -> None:
        self.damaged = mutant.what.startswith("bytes")
        super().read(mutant)


def _odd_column(rng: Random, rows: int) -> tuple[str, Any]:
    columns = {
        "text": pa.array(["1"] * rows),
        "null": pa.nulls(rows),
        "holes": pa.array([None, *range(rows - 1)], pa.float64()),
        "nan": pa.array([float("nan")] * rows),
        "bool": pa.array([True] * rows),
        "large integers": pa.array([2**63 + 1] * rows, pa.uint64()),
        "half": pa.array(np.arange(rows, dtype=np.float16)),
        "lists": pa.array([[1.0]] * rows),
        "structs": pa.array([{"a": 1}] * rows),
        "binary": pa.array([b"\xff"] * rows),
        "time": pa.array(range(rows), pa.timestamp("us")),
        "decimal": pa.array([1] * rows).cast(pa.decimal128(30, 2)),
        "dictionary": pa.array(["a"] * rows).dictionary_encode(),
        "numbers by dictionary": pa.array([1.0] * rows).dictionary_encode(),
        "duration": pa.array(range(rows), pa.duration("s")),
    }
    name = rng.choice(list(columns))
    return name, columns[name]


class MetricsTarget(Target):
    """``metrics.csv`` of a run, as plots, studies and a run that goes on read it."""

    name = "metrics-csv"
    errors = (RunFolderError,)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "metrics.csv"
        metrics = MetricsFile(self.path)
        for i in range(20):
            metrics.append({"iteration": i, "steps": 10 * i, "stiffness": 60.0 - i, "return_mean": float("nan")})
        self.content = self.path.read_bytes()

    def mutate(self, rng: Random) -> Mutant:
        return Mutant(*mutate_csv(rng, self.content))

    def read(self, mutant: Mutant) -> None:
        self.path.write_bytes(mutant.content)
        metrics = MetricsFile(self.path)
        columns = metrics.read()
        expect(len({len(values) for values in columns.values()}) <= 1, "columns of different lengths")
        metrics.keep_until(10)
        metrics.read()


class ScoresTarget(Target):
    """``scores-METRIC.npz`` of a study."""

    name = "scores-npz"
    errors = (RunFolderError,)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        sink, pickled = io.BytesIO(), io.BytesIO()
        np.savez(sink, adc=np.ones((10, 1)), train_at_target=np.zeros((10, 1)))
        np.savez(pickled, adc=np.array([[{"a": 1}]], dtype=object))
        self.contents = (sink.getvalue(), sink.getvalue(), sink.getvalue(), pickled.getvalue())

    def mutate(self, rng: Random) -> Mutant:
        content, other = rng.choice(self.contents), rng.choice(self.contents)
        return Mutant(*mutate_bytes(rng, content, other))

    def read(self, mutant: Mutant) -> None:
        path = self.folder / "scores-success.npz"
        path.write_bytes(mutant.content)
        for name, scores in load_scores(path).items():
            expect(scores.ndim == 2 and scores.dtype == np.float64, f"{name!r}: {scores.dtype} {scores.shape}")
