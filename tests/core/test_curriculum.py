"""The curriculum against Algorithm 1, written down a second time."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adc_wrappers import ActuatorCurriculum, CurriculumConfig, CurriculumError, EpisodeTotals, IterationReport


def algorithm_1(iterations, k0, k1, l_min, l_max, eta, p):
    """The paper's pseudo-code, line by line, with no completed episode leaving the average alone."""
    average, history = 0.0, []
    for lengths in iterations:
        if lengths:
            average = (1 - eta) * average + eta * (sum(lengths) / len(lengths))
        beta = min(max((average - l_min) / (l_max - l_min), 0.0), 1.0)
        history.append(k0 + beta**p * (k1 - k0))
    return history


iterations_of_lengths = st.lists(st.lists(st.integers(1, 2000), max_size=12), min_size=1, max_size=40)
schedules = st.fixed_dictionaries(
    {
        "target_stiffness": st.floats(0.1, 500.0),
        "extra": st.floats(0.0, 500.0),
        "length_min": st.floats(0.0, 500.0),
        "span": st.floats(1.0, 2000.0),
        "ema": st.floats(0.01, 1.0),
        "exponent": st.floats(0.2, 4.0),
    }
)


def build(schedule, **more):
    values = dict(schedule)
    extra, span = values.pop("extra"), values.pop("span")
    return CurriculumConfig(
        start_stiffness=values["target_stiffness"] + extra,
        length_max=values["length_min"] + span,
        **values,
        **more,
    )


@settings(max_examples=200, deadline=None)
@given(iterations_of_lengths, schedules)
def test_update_is_algorithm_1(iterations, schedule):
    config = build(schedule)
    curriculum = ActuatorCurriculum(config)
    expected = algorithm_1(
        iterations, config.start_stiffness, config.target_stiffness, config.length_min, config.length_max,
        config.ema, config.exponent,
    )  # fmt: skip
    got = [float(curriculum.update(lengths)[0]) for lengths in iterations]
    np.testing.assert_allclose(got, expected, rtol=1e-9)


@settings(max_examples=100, deadline=None)
@given(iterations_of_lengths, schedules, st.data())
def test_a_state_saved_half_way_goes_on_the_same(iterations, schedule, data):
    config = build(schedule)
    whole, first = ActuatorCurriculum(config), ActuatorCurriculum(config)
    cut = data.draw(st.integers(0, len(iterations)))
    for lengths in iterations[:cut]:
        whole.update(lengths)
        first.update(lengths)
    second = ActuatorCurriculum(config)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.stiffness.tolist() == whole.stiffness.tolist()
    for lengths in iterations[cut:]:
        assert second.update(lengths).tolist() == whole.update(lengths).tolist()


@settings(max_examples=100, deadline=None)
@given(iterations_of_lengths, schedules, st.integers(1, 4))
def test_totals_of_many_workers_are_those_of_one(iterations, schedule, workers):
    one, many = ActuatorCurriculum(build(schedule)), ActuatorCurriculum(build(schedule))
    for lengths in iterations:
        shares = [EpisodeTotals.from_lengths(lengths[i::workers]) for i in range(workers)]
        one.update(lengths)
        many.update(sum(shares, EpisodeTotals()))
        np.testing.assert_allclose(many.stiffness, one.stiffness, rtol=1e-12)


@settings(max_examples=100, deadline=None)
@given(iterations_of_lengths, schedules, st.booleans())
def test_stiffness_stays_between_target_and_start(iterations, schedule, monotone):
    config = build(schedule, monotone=monotone)
    curriculum = ActuatorCurriculum(config)
    last = config.start_stiffness
    for lengths in iterations:
        k = float(curriculum.update(lengths)[0])
        assert config.target_stiffness - 1e-9 <= k <= config.start_stiffness + 1e-9
        if monotone:
            assert k <= last + 1e-9
        last = k


def test_plain_rule_goes_back_to_stiffer_joints_and_monotone_does_not():
    plain = ActuatorCurriculum(CurriculumConfig(length_max=100, ema=0.5))
    ratchet = ActuatorCurriculum(CurriculumConfig(length_max=100, ema=0.5, monotone=True))
    for curriculum in (plain, ratchet):
        curriculum.update([100])
    assert plain.update([10])[0] > 50.0
    assert ratchet.update([10])[0] == 50.0


def test_time_driver_rises_with_iterations_and_arrives_before_the_hold():
    config = CurriculumConfig(driver="time", total_iterations=10, hold_share=0.2)
    curriculum = ActuatorCurriculum(config)
    progress = [curriculum.update([]) is not None and curriculum.progress for _ in range(10)]
    np.testing.assert_allclose(progress, [0.125 * i for i in range(1, 9)] + [1.0, 1.0])


def test_hold_pins_the_target_at_the_end_whatever_the_driver():
    curriculum = ActuatorCurriculum(CurriculumConfig(total_iterations=4, hold_share=0.5))
    assert [float(curriculum.update([])[0]) for _ in range(4)] == [60.0, 40.0, 40.0, 40.0]


@pytest.mark.parametrize(("progress", "stiffness"), [(0.0, 60.0), (1.0, 40.0), (0.5, 50.0)])
def test_fixed_driver_stays_from_the_first_moment(progress, stiffness):
    curriculum = ActuatorCurriculum(CurriculumConfig(driver="fixed", fixed_progress=progress))
    assert curriculum.stiffness[0] == stiffness
    assert curriculum.update([1000] * 5)[0] == stiffness


def test_success_driver_follows_the_success_rate():
    curriculum = ActuatorCurriculum(CurriculumConfig(driver="success", success_max=0.5, ema=1.0))
    assert curriculum.update(EpisodeTotals.from_lengths([9, 9, 9, 9], [True, False, False, False]))[0] == 50.0
    assert curriculum.update(EpisodeTotals.from_lengths([9, 9], [True, False]))[0] == 40.0
    with pytest.raises(CurriculumError, match="is_success"):
        curriculum.update([10, 20])


def test_uniform_driver_draws_in_the_interval_and_repeats_after_loading():
    config = CurriculumConfig(driver="uniform", seed=3, start_stiffness=(60.0, 90.0), target_stiffness=(40.0, 30.0))
    curriculum = ActuatorCurriculum(config)
    rows = curriculum.draw(500)
    assert rows.shape == (500, 2)
    assert (rows >= (40.0, 30.0)).all() and (rows <= (60.0, 90.0)).all()
    np.testing.assert_allclose(rows.mean(axis=0), (50.0, 60.0), atol=2.5)
    np.testing.assert_allclose((rows[:, 0] - 40) / 20, (rows[:, 1] - 30) / 60)
    state = json.loads(json.dumps(curriculum.state_dict()))
    again = ActuatorCurriculum(config)
    again.load_state_dict(state)
    np.testing.assert_array_equal(again.draw(5), curriculum.draw(5))


def test_a_function_of_the_users_drives_progress():
    seen: list[IterationReport] = []

    def driver(report: IterationReport) -> float:
        seen.append(report)
        return min(1.0, report.totals.episodes / 4)

    curriculum = ActuatorCurriculum(CurriculumConfig(driver=driver))
    assert curriculum.update([5, 7])[0] == 50.0
    assert seen[0].iteration == 1 and seen[0].length_ema == pytest.approx(0.3) and seen[0].progress == 0.0
    bad = ActuatorCurriculum(CurriculumConfig(driver=lambda report: 1.5))
    with pytest.raises(CurriculumError, match=r"returned 1\.5"):
        bad.update([5])


def test_joints_may_have_their_own_targets_shapes_and_windows():
    names = ("fl_hx", "fl_kn")
    config = CurriculumConfig(
        target_stiffness={"*_hx": 40.0, "fl_kn": 50.0},
        exponent={"fl_hx": 1.0, "*_kn": 2.0},
        progress_begin={"fl_hx": 0.0, "fl_kn": 0.5},
        length_max=100,
        ema=1.0,
    )
    curriculum = ActuatorCurriculum(config, names)
    np.testing.assert_allclose(curriculum.update([50]), [50.0, 60.0])
    np.testing.assert_allclose(curriculum.update([75]), [45.0, 57.5])
    np.testing.assert_allclose(curriculum.update([100]), [40.0, 50.0])


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"start_stiffness": float("nan")}, "start_stiffness: expected a finite number, got nan"),
        ({"target_stiffness": -1.0}, "target_stiffness: expected positive"),
        ({"start_stiffness": 0.0}, "start_stiffness: expected positive"),
        ({"start_stiffness": 30.0}, "allow_softer_start"),
        ({"start_stiffness": "stiff"}, "expected a number, got 'stiff'"),
        ({"start_stiffness": [[60.0]]}, "shape \\(1, 1\\)"),
        ({"start_stiffness": {}}, "empty"),
        ({"ema": 0.0}, "ema"),
        ({"ema": float("nan")}, "ema"),
        ({"length_min": -1.0}, "length_min"),
        ({"length_max": 0.0}, "length_min < length_max"),
        ({"length_max": float("inf")}, "length_min < length_max"),
        ({"exponent": 0.0}, "exponent"),
        ({"damping_ratio": 0.0}, "damping_ratio"),
        ({"driver": "episode_lenght"}, "Did you mean 'episode_length'"),
        ({"driver": 7}, "expected a name or a function"),
        ({"driver": "time"}, "total_iterations"),
        ({"hold_share": 0.1}, "total_iterations"),
        ({"hold_share": 1.0, "total_iterations": 5}, "hold_share"),
        ({"total_iterations": 0}, "total_iterations"),
        ({"fixed_progress": 1.1}, "fixed_progress"),
        ({"success_min": 0.9, "success_max": 0.1}, "success_min < success_max"),
        ({"progress_end": 1.5}, "progress_end"),
    ],
)
def test_bad_settings_are_refused(settings_, message):
    with pytest.raises(CurriculumError, match=message):
        CurriculumConfig(**settings_)


def test_bad_joint_values_are_refused_with_the_nearest_name():
    with pytest.raises(CurriculumError, match=r"unknown joint 'fl_kne'\. Did you mean 'fl_kn'"):
        ActuatorCurriculum(CurriculumConfig(target_stiffness={"fl_kne": 40.0, "hip": 40.0}), ("hip", "fl_kn"))
    with pytest.raises(CurriculumError, match="exactly one entry for joint 'fl_kn', found 0"):
        ActuatorCurriculum(CurriculumConfig(target_stiffness={"hip": 40.0}), ("hip", "fl_kn"))
    with pytest.raises(CurriculumError, match="found 2"):
        ActuatorCurriculum(CurriculumConfig(target_stiffness={"f*": 40.0, "*n": 30.0, "hip": 1.0}), ("hip", "fl_kn"))
    with pytest.raises(CurriculumError, match="expected 3 values"):
        ActuatorCurriculum(CurriculumConfig(target_stiffness=[40.0, 41.0]), ("a", "b", "c"))
    with pytest.raises(CurriculumError, match="allow_softer_start"):
        ActuatorCurriculum(CurriculumConfig(target_stiffness=[40.0, 70.0]), ("a", "b"))
    with pytest.raises(CurriculumError, match="progress_begin < progress_end"):
        ActuatorCurriculum(CurriculumConfig(progress_begin=[0.0, 1.0]), ("a", "b"))
    with pytest.raises(CurriculumError, match="pass joint_names"):
        ActuatorCurriculum(CurriculumConfig(target_stiffness={"a": 40.0}))


def test_a_softer_start_is_possible_if_said():
    config = CurriculumConfig(start_stiffness=30.0, allow_softer_start=True, ema=1.0, length_max=10)
    assert ActuatorCurriculum(config).update([10])[0] == 40.0


@pytest.mark.parametrize("lengths", [[-1], [float("nan")], [float("inf")]])
def test_bad_lengths_are_refused_and_change_nothing(lengths):
    curriculum = ActuatorCurriculum()
    before = curriculum.state_dict()
    with pytest.raises(CurriculumError, match="episode lengths"):
        curriculum.update(lengths)
    assert curriculum.state_dict() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "expected version 1, got 99"),
        ({"progress": 2.0}, "out of range"),
        ({"length_ema": float("nan")}, "length_ema: expected a number, got nan"),
        ({"iteration": -1}, "out of range"),
        ({"rng": {}}, "random state"),
    ],
)
def test_a_bad_state_is_refused_and_changes_nothing(change, message):
    curriculum = ActuatorCurriculum()
    curriculum.update([500])
    before = curriculum.state_dict()
    with pytest.raises(CurriculumError, match=message):
        curriculum.load_state_dict({**before, **change})
    assert curriculum.state_dict() == before
    with pytest.raises(CurriculumError, match="missing progress"):
        curriculum.load_state_dict({k: v for k, v in before.items() if k != "progress"})


def test_a_state_of_other_settings_needs_strict_false():
    saved = ActuatorCurriculum(CurriculumConfig(ema=1.0, length_max=100))
    saved.update([50])
    other = ActuatorCurriculum(CurriculumConfig(ema=1.0, length_max=100, start_stiffness=80.0))
    with pytest.raises(CurriculumError, match=r"start_stiffness: saved 60.0, now 80.0"):
        other.load_state_dict(saved.state_dict())
    other.load_state_dict(saved.state_dict(), strict=False)
    assert other.stiffness[0] == 60.0 and other.iteration == 1


def test_config_survives_json():
    config = CurriculumConfig(start_stiffness=[60.0, 70.0], target_stiffness={"a": 1.0, "b": 2.0}, monotone=True)
    assert CurriculumConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    with pytest.raises(CurriculumError, match=r"unknown curriculum setting 'ema_'\. Did you mean 'ema'"):
        CurriculumConfig.from_dict({"ema_": 0.1})
