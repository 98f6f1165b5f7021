"""System identification, piece by piece."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adc_wrappers.trajectories import TrajectoryError, TrajectoryLog

pytest.importorskip("mujoco")
pytest.importorskip("cma")

from sysid_helpers import HIDDEN, record_spot

from adc_wrappers.backends.robots import make_robot_backend
from adc_wrappers.backends.spot_model import NOMINAL_POSE
from adc_wrappers.cli import main
from adc_wrappers.core.errors import BackendError
from adc_wrappers.sysid import (
    KINDS,
    Chirp,
    FreeParameter,
    HiddenParameters,
    HiddenRobot,
    IdentifySettings,
    ParameterSpace,
    WindowSettings,
    parse_free,
    record,
    start_of,
)
from adc_wrappers.sysid.findings import Valley, identified_parameters
from adc_wrappers.sysid.identify import Problem
from adc_wrappers.sysid.information import gather_information, judge, polish
from adc_wrappers.sysid.losses import BROKEN, Measured, mmd, soften, squared_error, wasserstein
from adc_wrappers.sysid.search import CmaSearch
from adc_wrappers.sysid.simulation import Prediction
from adc_wrappers.sysid.windows import TargetTable, Windows, in_joint_order

TRUTH = {"stiffness": 2 / 3, "damping": 1.1, "coulomb": 0.6, "delay": 0.006}


def truth_point(space):
    values = np.array([TRUTH.get(kind, KINDS[kind].fixed) for kind in space.kinds])
    return space.to_unit(values)


def make_log(times, targets):
    shape = np.shape(targets)
    return TrajectoryLog(
        joint_names=tuple(f"j{i}" for i in range(shape[1])),
        time=times,
        positions=np.zeros(shape),
        velocities=np.zeros(shape),
        targets=targets,
        commanded_stiffness=np.ones(shape[1]),
        commanded_damping=np.ones(shape[1]),
    )


@pytest.mark.parametrize("standing", [False, True])
def test_the_truth_replays_to_the_last_digits(standing):
    """Friction, delay, gains and the state at every window's start are those of the recorded robot."""
    log = record_spot(standing=standing, seconds=1.0)
    settings_ = IdentifySettings(windows=WindowSettings(length=0.3, burn_in=0.1), population=4)
    problem = Problem([log], settings_)
    prediction = problem.predict(truth_point(problem.space)[None])
    limit = 1e-3 if standing else 1e-9  # the solver's warm start is not in a log
    np.testing.assert_allclose(prediction.positions[0], problem.measured.positions, atol=limit)
    wrong = problem.predict(truth_point(problem.space)[None] + 0.05)
    assert np.abs(wrong.positions[0] - problem.measured.positions).max() > 0.005


def test_an_offset_of_the_encoder_is_seen_by_the_pd_law_and_the_log():
    log = record_spot(HiddenParameters(), seconds=0.6)
    shifted = dataclasses.replace(log, positions=log.positions + 0.05, targets=log.targets + 0.05)
    free = (FreeParameter("offset"),)
    problem = Problem([shifted], IdentifySettings(free=free, windows=WindowSettings(length=0.4), population=4))
    prediction = problem.predict(problem.space.to_unit(np.array([[0.05]])))
    np.testing.assert_allclose(prediction.positions[0], problem.measured.positions, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_delayed_targets_are_averages_over_the_physics_step(data):
    steps = data.draw(st.lists(st.floats(0.002, 0.05), min_size=3, max_size=8))
    times = np.cumsum(steps)
    targets = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=len(steps), max_size=len(steps))))[:, None]
    delay = data.draw(st.floats(0.0, 0.03))
    edges = times[0] + 0.002 * np.arange(40) - delay
    averages = TargetTable(make_log(times, targets)).averages(edges, [0])[:, 0]
    fine = np.linspace(edges[0], edges[-1], 39 * 200, endpoint=False) + 0.001 / 200
    held = targets[np.clip(np.searchsorted(times, fine, side="right") - 1, 0, None), 0]
    np.testing.assert_allclose(averages, held.reshape(39, 200).mean(axis=1), atol=0.011)


def test_windows_cover_a_log_without_gaps_and_without_overlap():
    log = make_log(np.arange(151) * 0.02, np.zeros((151, 1)))
    windows = Windows([log, log], WindowSettings(length=0.5, burn_in=0.2))
    assert len(windows) == 10
    for index in (0, 1):
        rows = windows.row[windows.log_index[windows.row_window] == index]
        np.testing.assert_array_equal(rows, np.arange(11, 136))
    assert windows.elapsed.min() > 0.2 and windows.elapsed.max() <= 0.7 + 1e-9


def test_a_log_too_short_for_a_window_is_refused():
    log = make_log(np.arange(20) * 0.02, np.zeros((20, 1)))
    with pytest.raises(TrajectoryError, match=r"too short: 0\.38 s in 20 rows"):
        Windows([log], WindowSettings())


def test_joints_are_put_into_the_robots_order_and_foreign_ones_are_refused():
    log = dataclasses.replace(make_log(np.arange(10) * 0.1, np.tile([1.0, 2.0], (10, 1))), joint_names=("b", "a"))
    assert in_joint_order(log, ("a", "b")).targets[0].tolist() == [2.0, 1.0]
    with pytest.raises(TrajectoryError, match=r"position\.b: the robot model has no joint b"):
        in_joint_order(log, ("a", "c"))


def test_parameters_are_shared_by_scope_and_bad_ones_are_refused():
    names = ["fl_hx", "fl_kn", "fr_hx", "fr_kn"]
    space = ParameterSpace([parse_free("stiffness:type"), parse_free("delay"), parse_free("offset:joint")], names)
    assert len(space) == 2 + 1 + 4
    values = space.expand(space.from_unit(np.arange(7) / 10)[None])
    assert values.stiffness[0, 0] == values.stiffness[0, 2] != values.stiffness[0, 1]
    assert len(set(values.offset[0].tolist())) == 4 and (values.damping == 1.0).all()
    for text, words in (
        ("stifness", "Did you mean 'stiffness'"),
        ("delay:legs", "unknown scope"),
        ("delay=0.1", "LOWER,UPPER"),
        ("delay=2,1", "lower below the upper"),
        ("coulomb=-1,1", "at least 0"),
    ):
        with pytest.raises(ValueError, match=words):
            parse_free(text)
    with pytest.raises(ValueError, match="each kind once"):
        ParameterSpace([FreeParameter("delay"), FreeParameter("delay", "joint")], names)


def test_the_search_is_seeded_and_goes_on_where_it_was_left():
    def run(search, generations):
        for _ in range(generations):
            points = search.ask()
            search.tell(((points - 0.3) ** 2).sum(axis=1))
        return search

    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    whole = run(CmaSearch(3, seed=1), 20)
    assert np.random.get_state()[1].tolist() == before, "numpy's global generator was touched"  # noqa: NPY002
    left = run(CmaSearch(3, seed=1), 8)
    again = run(CmaSearch.from_state(json.loads(json.dumps(left.state_dict()))), 12)
    assert again.told == whole.told and again.best[0] == whole.best[0]
    assert run(CmaSearch(3, seed=2), 8).told != left.told
    np.testing.assert_allclose(whole.best[1], 0.3, atol=0.05)


@pytest.mark.parametrize("measure", [wasserstein, mmd])
def test_distances_between_distributions(measure):
    rng = np.random.default_rng(0)
    q, v = rng.standard_normal((2, 300, 2))
    shifts = np.array([0.0, 0.2, 0.6])[:, None, None]
    order = rng.permutation(300)
    predicted = Prediction(q[order] + shifts, np.broadcast_to(v[order], (3, 300, 2)), np.zeros((3, 300, 2)))
    same, near, far = measure(predicted, Measured(q, v))
    assert abs(same) < 1e-9 and 0.0 < near < far
    broken = Prediction(np.full((1, 300, 2), np.nan), v[None], v[None])
    assert measure(broken, Measured(q, v)).tolist() == [BROKEN]
    assert squared_error(np.full((1, 3, 2, 2), np.nan)).tolist() == [BROKEN]


def linear_problem(rng, deviation, columns):
    """A model that is a straight line in its parameters, whose intervals must be right."""
    rows, joints = 60, 4
    slope = rng.standard_normal((columns, rows, 2, joints))
    data = np.tensordot(np.full(columns, 0.4), slope, 1) + deviation * rng.standard_normal((rows, 2, joints))
    return slope, lambda points: np.tensordot(points, slope, 1) - data


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(0)
    windows = np.arange(60) // 6
    hits = 0
    for _ in range(200):
        _, errors = linear_problem(rng, 0.5, 3)
        best, _ = polish(errors, np.full(3, 0.9))
        known = gather_information(errors, best, windows, 0.95)
        hits += bool((np.abs(best - 0.4) <= known.half_width).all())
    assert 0.92 <= hits / 200 <= 1.0


def test_parameters_that_act_alike_are_not_identified():
    rng = np.random.default_rng(1)
    slope, _ = linear_problem(rng, 0.1, 3)
    slope[1] = 2.0 * slope[0]
    data = np.tensordot(np.full(3, 0.4), slope, 1) + 0.1 * rng.standard_normal(slope.shape[1:])
    known = gather_information(
        lambda points: np.tensordot(points, slope, 1) - data, np.full(3, 0.4), np.arange(60) // 6, 0.95
    )
    verdicts = [judge(half, 0.4) for half in known.half_width]
    assert verdicts == ["not identified", "not identified", "identified"]
    assert {index for index, _ in known.weakest} == {0, 1} and known.weakest_deviation > 1.0


def test_damping_and_viscous_friction_are_told_apart_by_torques_only():
    log = record_spot(dataclasses.replace(HIDDEN, position_noise=0.001, velocity_noise=0.03, torque_noise=0.2))
    free = (FreeParameter("stiffness"), FreeParameter("damping"), FreeParameter("viscous"))
    options = {"free": free, "fixed": {"coulomb": 0.6, "delay": 0.006}, "population": 6}
    verdicts = []
    for torques in (False, True):
        problem = Problem([log], IdentifySettings(use_torques=torques, **options))
        point = problem.space.to_unit(np.array([2 / 3, 0.9, 0.3]))  # the same motion as damping 1.1 alone
        found = identified_parameters(problem, [Valley(point, 0.0, problem.information(point))])
        verdicts.append(tuple(parameter.verdict for parameter in found))
    assert verdicts[0] == ("identified", "not identified", "not identified")
    assert verdicts[1] == ("identified", "identified", "identified")


def test_torques_that_were_not_logged_cannot_be_used():
    log = dataclasses.replace(record_spot(seconds=1.0), torques=None)
    with pytest.raises(TrajectoryError, match=r"column 'torque\.fl_hx' is missing"):
        Problem([log], IdentifySettings(use_torques=True))


def test_a_hidden_robot_reports_what_it_was_commanded():
    robot = HiddenRobot(make_robot_backend("mujoco", 1, fixed_base=True), HIDDEN)
    robot.set_gains(np.full((1, 12), 60.0), np.full((1, 12), 1.5))
    assert (robot.gains().stiffness == 60.0).all() and (robot.gains().damping == 1.5).all()
    np.testing.assert_allclose(robot._robot.gains().stiffness, 40.0)


def test_chirps_move_every_joint_differently_within_their_amplitude():
    chirp = Chirp(pose=np.array(NOMINAL_POSE), amplitude=0.2)
    track = np.array([chirp.targets(0.02 * k) for k in range(300)]) - NOMINAL_POSE
    assert np.abs(track).max() <= 0.2 and (np.abs(track).max(axis=0) > 0.19).all()
    correlation = np.corrcoef(track.T) - np.eye(12)
    assert np.abs(correlation).max() < 0.7
    np.testing.assert_allclose(track[0], 0.0, atol=1e-12)


def test_softened_errors_keep_small_ones_and_tame_large_ones():
    errors = np.array([-1e-3, 1e-3, 10.0, -1e4])
    soft = soften(errors)
    np.testing.assert_allclose(soft[:2], errors[:2], rtol=1e-5)
    assert (np.sign(soft) == np.sign(errors)).all() and (np.abs(soft[2:]) < 5.0).all()


class StoppedRobot(HiddenRobot):
    """A robot whose guard stops it after some steps."""

    steps = 0

    def advance(self, targets):
        super().advance(targets)
        self.steps += 1

    def incident(self):
        return "lean" if self.steps >= 15 else None


@pytest.mark.parametrize("keep", [False, True])
def test_a_robot_that_was_stopped_is_not_logged_on(keep):
    robot = StoppedRobot(make_robot_backend("mujoco", 1, fixed_base=True), HIDDEN)
    chirp = Chirp(pose=robot.nominal_pose)
    if keep:
        assert len(record(robot, chirp, 1.0, on_stand=True, keep_stopped=True).time) == 15
    else:
        with pytest.raises(BackendError, match="stopped after 15 policy steps"):
            record(robot, chirp, 1.0, on_stand=True)


def test_a_robot_with_a_clock_is_logged_by_it():
    robot = HiddenRobot(make_robot_backend("mujoco", 1, fixed_base=True), HIDDEN)
    ticks = iter(1000.0 + np.cumsum([0.0, 0.02, 0.026, 0.02]))
    robot.clock = lambda: float(next(ticks))
    robot.reset(start_of(robot, height=2.0))
    log = record(robot, Chirp(pose=robot.nominal_pose), 0.06, on_stand=True)
    np.testing.assert_allclose(log.time, [0.0, 0.02, 0.046, 0.066], atol=1e-9)


@pytest.mark.parametrize(
    ("out", "message"), [("log.txt", r"ends in .csv or .parquet"), ("there.csv", "--overwrite")]
)  # fmt: skip
def test_a_log_that_cannot_be_written_is_refused_before_the_robot_moves(out, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("adc_wrappers.backends.robots.make_robot_backend", lambda *_, **__: 1 / 0)
    (tmp_path / "there.csv").write_text("precious")
    assert main(["sysid", "collect", "mujoco", "--out", str(tmp_path / out)]) == 1
    error = capsys.readouterr().err
    assert message.replace("\\", "") in error and "ZeroDivision" not in error
    assert (tmp_path / "there.csv").read_text() == "precious"


def test_a_robot_whose_reset_fails_is_closed(tmp_path, monkeypatch):
    closed = []

    class Refusing(HiddenRobot):
        def reset(self, start, env_ids=None):
            raise BackendError("not today")

        def close(self):
            closed.append(True)
            super().close()

    robot = Refusing(make_robot_backend("mujoco", 1, fixed_base=True), HIDDEN)
    monkeypatch.setattr("adc_wrappers.backends.robots.make_robot_backend", lambda *_, **__: robot)
    assert main(["sysid", "collect", "mujoco", "--out", str(tmp_path / "log.csv")]) == 1
    assert closed == [True]
