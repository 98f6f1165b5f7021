"""The small parts of benchmarks/learning.py: goals, intervals, logs, settings; and turns with a learner."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from adc_wrappers.training import PpoConfig, default_config
from benchmarks.learning import WINDOW, Learner, Log, StanceShare, cell, median_interval, reached, table


def rows(stances: list[float], successes: dict[int, float] | None = None) -> list[dict[str, float]]:
    told: list[dict[str, float]] = [{"steps": 100.0 * (i + 1), "stance": s, "cpu": 2.0} for i, s in enumerate(stances)]
    for index, success in (successes or {}).items():
        told[index] |= {"success": success, "evaluated_steps": told[index]["steps"]}
    return told


def test_a_goal_is_reached_when_the_window_is_full_of_it():
    found = reached(rows([0.0] * 5 + [0.5] * WINDOW + [1.0], {3: 0.85, 7: 0.9, 9: 1.0}))
    assert found == {"stance": (100.0 * (5 + WINDOW), 2.0 * (5 + WINDOW)), "success": (800.0, 16.0)}


def test_the_success_of_an_older_checkpoint_counts_when_it_was_written():
    told = rows([0.0] * 6)
    told[4] |= {"success": 0.95, "evaluated_steps": 300.0}
    assert reached(told)["success"] == (300.0, 6.0)


def test_a_short_peak_of_the_stance_is_no_goal_and_what_is_not_reached_is_infinite():
    found = reached(rows([0.0, 1.0, 1.0, *[0.0] * WINDOW]))
    assert all(math.isinf(value) for pair in found.values() for value in pair)
    assert all(math.isinf(value) for pair in reached(rows([1.0] * (WINDOW - 1))).values() for value in pair)


def test_an_interval_of_the_median_knows_seeds_that_did_not_get_there():
    middle, low, high = median_interval([3.0, 1.0, 2.0, math.inf, 4.0])
    assert middle == 3.0 and low == 1.0 and math.isinf(high)
    assert median_interval([5.0]) == (5.0, 5.0, 5.0)
    many = np.random.default_rng(0).normal(10.0, 1.0, 200)
    middle, low, high = median_interval(list(many))
    assert low < middle < high and 0.1 < high - low < 0.6  # about 4 × 1.25 / √200 wide
    assert cell([2e6, math.inf, math.inf], 1e6, 2) == "– (2.00 to –; 1 of 3)"


def test_a_log_goes_on_after_its_checkpoint(tmp_path):
    log = Log(tmp_path / "run.jsonl")
    for row in rows([0.1, 0.2, 0.3]):
        log.add(row)
    again = Log(tmp_path / "run.jsonl")
    assert again.rows == log.rows
    again.keep_until(200)
    again.add({"steps": 300.0, "stance": 0.9, "cpu": 1.0})
    assert [row["stance"] for row in Log(tmp_path / "run.jsonl").rows] == [0.1, 0.2, 0.9]
    assert "| it |" in table({"it": [again]}) and "0 of 1" in table({"it": [again]})


def test_learners_share_the_recipe_but_for_what_only_ours_has(tmp_path):
    ours, theirs = (
        Learner.parse(f"{name}:default").config("spot-handstand", 7, 819200, 10) for name in ("rsl_rl", "sb3")
    )
    assert ours.trainer == "rsl_rl" and theirs.trainer == "sb3" and ours.seed == theirs.seed == 7
    assert ours.ppo.mirrored and not theirs.ppo.mirrored and theirs.ppo.reward_scale == PpoConfig().reward_scale
    assert ours.ppo.num_envs == theirs.ppo.num_envs and ours.ppo.hidden == theirs.ppo.hidden
    assert ours.checkpoint_every == 20 and ours.curriculum.total_iterations == ours.iterations == 200
    other = default_config("spot-handstand", "mujoco", recipe="success")
    (tmp_path / "config.json").write_text(json.dumps(other.to_dict()))
    kept = Learner.parse(f"rsl_rl:{tmp_path / 'config.json'}").config("spot-handstand", 1, None, 40)
    assert kept.curriculum.driver == "success" and kept.ppo == other.ppo
    with pytest.raises(ValueError, match="of spot-handstand, the benchmark of"):
        Learner.parse(f"rsl_rl:{tmp_path / 'config.json'}").config("spot-planar-handstand", 1, None, 40)
    with pytest.raises(ValueError, match="Did you mean 'cleanrl'"):
        Learner.parse("cleanlr:default")


def test_the_share_in_the_stance_is_that_of_the_steps_since_it_was_asked():
    share = StanceShare()
    for held in ([True, False], [True, True]):
        share.step(SimpleNamespace(holds=np.array(held)))
    assert share.take() == 0.75
    assert share.take() == 0.0
