"""The fuzzer's short form: some hundred mutants of every file kind, and proof that it finds what it looks for."""

from __future__ import annotations

import os
import time
from collections import Counter
from random import Random

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("pyarrow")
pytest.importorskip("stable_baselines3")
pytest.importorskip("cma")
pytest.importorskip("mujoco")

from fuzz.harness import run, run_one
from fuzz.kinds import KINDS, find_target

SEED = int(os.environ.get("ADC_FUZZ_SEED", "1"))
MUTANTS = {"checkpoint": 60, "checkpoint-resume": 60}


@pytest.mark.parametrize("kind", KINDS)
def test_mutants_are_refused_in_our_own_words_or_read_as_their_digests_vouch(kind, tmp_path):
    """The long form has limits of time and memory too: ``python -m tests.fuzz --mutants 20000``."""
    target = find_target(kind)(tmp_path)
    outcomes: Counter[str] = Counter()
    for index in range(MUTANTS.get(kind, 150)):
        outcome, finding = run_one(target, SEED, index)
        outcomes[outcome] += 1
        again = f"python -m tests.fuzz --kind {kind} --seed {SEED} --first {index} --mutants 1"
        assert finding is None, f"{finding['problem']}; again with: {again}\n{finding['traceback']}"
    print(f"{kind}: seed {SEED}, {dict(outcomes)}")
    assert outcomes["refused"] and outcomes["accepted"], "mutations that are all refused, or none, say little"


def test_the_fuzzer_finds_every_kind_of_fault():
    """The hang is waited for: 10 s, long beside what a process that is merely slow takes for an empty mutant."""
    result = run("faulty:FaultyTarget", mutants=12, seed=38, timeout=10.0, memory=512)
    problems = {finding["problem"].split(",")[0] for finding in result.findings}
    assert problems == {
        "builtins.ZeroDivisionError", "builtins.MemoryError", "accepted with other gains", "hang", "crash",
        "an error of our own that says nothing",
    }  # fmt: skip
    assert result.bad == len(result.findings) and result.outcomes.total() == 12
    assert result.outcomes["refused"] == 2 and result.outcomes["accepted"] == 3


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind != "checkpoint-resume"]
)  # the same files as checkpoint
def test_a_seed_and_a_number_decide_a_mutant(kind, tmp_path, monkeypatch):
    """Neither folder, nor time of day, nor process do: each is another for the second target."""
    digests = []
    for place in ("a", "another"):
        (tmp_path / place).mkdir()
        target = find_target(kind)(tmp_path / place)
        digests.append([target.mutate(Random(f"0/{kind}/{i}")).content for i in range(40)])
        now, process = time.localtime(time.time() + 86_400), os.getpid()
        monkeypatch.setattr(time, "localtime", lambda *_, now=now: now)
        monkeypatch.setattr(time, "gmtime", lambda *_, now=now: now)
        monkeypatch.setattr(os, "getpid", lambda process=process: process + 10**5)
    assert digests[0] == digests[1] and len(set(digests[0])) > 20
