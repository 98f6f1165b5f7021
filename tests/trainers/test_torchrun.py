"""``adc train`` in several processes, as ``torchrun`` starts them: one curriculum, one run folder, one policy."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from adc_wrappers.runs import RunFolder

pytestmark = [pytest.mark.slow]

TRAIN = (
    sys.executable, "-m", "adc_wrappers.cli", "train", "cartpole", "--backend", "analytic", "--trainer", "rsl_rl",
    "--num-envs", "8", "--ppo.n-steps", "16", "--ppo.hidden", "8", "--eval-episodes", "0", "--checkpoint-every", "1",
)  # fmt: skip


def launch(port, *options):
    """Run two ranks; return what each printed."""
    world = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [*TRAIN, *options], env={**world, "RANK": str(rank), "LOCAL_RANK": str(rank)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]  # fmt: skip
    answers = [rank.communicate(timeout=300) for rank in ranks]
    for rank, (_, errors) in zip(ranks, answers, strict=True):
        assert rank.returncode == 0, errors
    return [out for out, _ in answers]


def test_two_processes_train_one_run_and_resume_it(tmp_path, free_port):
    out = tmp_path / "run"
    first, second = launch(free_port, "--out", str(out), "--steps", str(2 * 128))
    assert str(out) in first and str(out) not in second
    launch(free_port, "--out", str(out), "--steps", str(3 * 128), "--resume")
    rows = (out / "metrics.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["1", "2", "3"]
    assert RunFolder.open(out).checkpoints.load_latest().json("state.json")["curriculum"]["iteration"] == 3
