"""Statistics of a study, against independent implementations and against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from adc_wrappers import CurriculumError
from adc_wrappers.study.statistics import (
    bootstrap,
    iqm,
    mean_std,
    performance_profile,
    probability_of_improvement,
)

SCORES = arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=st.floats(-1e3, 1e3, width=32))


@given(SCORES)
def test_the_iqm_is_scipys_trimmed_mean_of_all_runs_and_tasks(scores):
    np.testing.assert_allclose(iqm(scores), stats.trim_mean(scores.ravel(), 0.25), rtol=1e-9, atol=1e-9)


@given(SCORES, st.integers(0, 5))
def test_an_interval_repeats_with_its_seed_and_lies_inside_the_scores(scores, seed):
    first = bootstrap(scores, seed=seed, repetitions=50)
    assert first == bootstrap(scores, seed=seed, repetitions=50)
    slack = 1e-9 * (1 + np.abs(scores).max())
    assert scores.min() - slack <= first.low <= first.high <= scores.max() + slack


def test_another_seed_gives_another_interval():
    scores = np.random.default_rng(0).normal(size=10)
    assert bootstrap(scores, seed=0) != bootstrap(scores, seed=1)


@pytest.mark.parametrize("runs", [5, 10, 30])
@pytest.mark.parametrize("name", ["iqm", "mean"])
def test_intervals_agree_with_scipys_bootstrap(runs, name):
    """Two resamplings of one sample: their ends differ by no more than what resampling itself leaves open."""
    sample = np.random.default_rng(runs).gamma(2.0, size=runs)
    ours, theirs = {
        "iqm": (iqm, lambda x, axis: stats.trim_mean(x, 0.25, axis=axis)),
        "mean": (lambda x: x.mean(axis=(-2, -1)), lambda x, axis: np.mean(x, axis=axis)),
    }[name]
    mine = bootstrap(sample, ours, repetitions=20_000)
    reference = stats.bootstrap(
        (sample,), theirs, n_resamples=20_000, method="percentile", vectorized=True, random_state=7
    )
    width = mine.high - mine.low
    assert mine.low == pytest.approx(reference.confidence_interval.low, abs=0.03 * width)
    assert mine.high == pytest.approx(reference.confidence_interval.high, abs=0.03 * width)


def test_resampling_is_stratified_by_task():
    """Tasks of very different scale: every resample has as many runs of each, so the mean moves within a task only."""
    scores = np.stack([np.zeros(8), np.full(8, 1000.0)], axis=1)
    estimate = bootstrap(scores, lambda x: x.mean(axis=(-2, -1)))
    assert estimate.low == estimate.high == 500.0


def coverage(runs, draw, truth, studies=1000):
    """Share of intervals that contain the truth."""
    rng = np.random.default_rng(runs)
    hits = 0
    for seed in range(studies):
        estimate = bootstrap(draw(rng, runs), seed=seed, repetitions=600)
        hits += estimate.low <= truth <= estimate.high
    return hits / studies


def test_intervals_cover_the_truth_at_the_nominal_rate():
    """Normal and uniform scores, 40 runs: 95 % within three standard errors of 1000 studies (2.1 %)."""
    assert coverage(40, lambda rng, n: rng.normal(3.0, 2.0, n), 3.0) == pytest.approx(0.95, abs=0.021)
    assert coverage(40, lambda rng, n: rng.uniform(0.0, 1.0, n), 0.5) == pytest.approx(0.95, abs=0.021)


def test_with_ten_runs_intervals_are_a_little_too_narrow():
    """What the report says about itself."""
    assert 0.88 < coverage(10, lambda rng, n: rng.normal(size=n), 0.0) < 0.95


@given(SCORES, st.data())
def test_improvement_is_mann_whitneys_u_and_the_two_directions_add_up(first, data):
    second = data.draw(arrays(np.float64, (7, first.shape[1]), elements=st.integers(-5, 5).map(float)))
    forth = probability_of_improvement(first, second, repetitions=10)
    back = probability_of_improvement(second, first, repetitions=10)
    assert forth.value + back.value == pytest.approx(1.0)
    u = [stats.mannwhitneyu(first[:, i], second[:, i]).statistic for i in range(first.shape[1])]
    assert forth.value == pytest.approx(np.mean(u) / (len(first) * len(second)))


def test_improvement_covers_the_truth():
    """P(X > Y) of two normals a standard deviation apart."""
    truth = stats.norm.cdf(1.0 / np.sqrt(2.0))
    rng, hits = np.random.default_rng(0), 0
    for seed in range(400):
        x, y = rng.normal(1.0, 1.0, 30), rng.normal(0.0, 1.0, 30)
        estimate = probability_of_improvement(x, y, seed=seed, repetitions=400)
        hits += estimate.low <= truth <= estimate.high
    assert hits / 400 == pytest.approx(0.95, abs=0.035)


def test_a_profile_is_the_share_of_runs_above_each_threshold():
    profile = performance_profile([0.0, 1.0, 2.0, 3.0], [-1.0, 0.5, 3.0])
    np.testing.assert_array_equal(profile.value, [1.0, 0.75, 0.0])
    assert (profile.low <= profile.value).all() and (profile.value <= profile.high).all()


def test_mean_and_deviation_are_those_of_a_sample():
    sample = np.random.default_rng(0).normal(size=10)
    assert mean_std(sample) == pytest.approx((np.mean(sample), stats.tstd(sample)))
    assert mean_std([4.0]) == (4.0, 0.0)


@pytest.mark.parametrize("bad", [[], [[]], [1.0, float("nan")], np.zeros((2, 2, 2))])
def test_scores_that_are_none_are_refused(bad):
    with pytest.raises(CurriculumError, match="scores"):
        bootstrap(bad)


def test_what_does_not_fit_is_refused():
    with pytest.raises(CurriculumError, match="same tasks"):
        probability_of_improvement(np.zeros((3, 1)), np.zeros((3, 2)))
    with pytest.raises(CurriculumError, match="confidence"):
        bootstrap([1.0, 2.0], confidence=1.0)
