"""Gains: measured responses beside the analytic ones, the weight on a joint, and what is suggested."""

from __future__ import annotations

import csv
from typing import Any

import mujoco
import numpy as np
import pytest

from adc_wrappers import BackendError, CurriculumError
from adc_wrappers.cli.gains import sag_text, weigh_and_suggest
from adc_wrappers.cli.main import main
from adc_wrappers.gains import measure_responses, open_bench
from adc_wrappers.gains.bench import load_of
from adc_wrappers.gains.suggestion import ceiling

CASES = [
    ("cartpole", "analytic"), ("cartpole", "pybullet"), ("spot-planar-handstand", "mujoco"),
    ("spot-planar-handstand", "pybullet"), ("Ant-v5", None), ("Walker2d-v5", None),
    pytest.param("spot-handstand", "mujoco", marks=pytest.mark.slow),
    pytest.param("spot-handstand", "pybullet", marks=pytest.mark.slow),
]  # fmt: skip


@pytest.mark.parametrize(("name", "engine"), CASES)
def test_responses_are_within_five_percent_of_the_analytic_ones(name: str, engine: str | None) -> None:
    bench = open_bench(name, backend=engine)
    try:
        _, suggestions = weigh_and_suggest(bench)
        stiffness = np.array([item.stiffness for item in suggestions])
        small = np.full(len(stiffness), 0.01)
        for item in measure_responses(bench.probe, stiffness, small, small):
            assert item.step_error < 0.05
            assert item.rise == pytest.approx(item.expected_rise, rel=0.05)
            assert item.bandwidth == pytest.approx(item.expected_bandwidth, rel=0.05)
            np.testing.assert_allclose(
                item.gain[:5], item.expected_gain[:5], rtol=0.05
            )  # up to 1.3 natural frequencies
            np.testing.assert_allclose(item.phase, item.expected_phase, atol=10.0)  # a step of PyBullet is 11° there
            assert item.overshoot < 0.01 and abs(item.delay) < 2.0 * bench.physics_step
    finally:
        bench.close()


def test_less_damping_overshoots_as_it_must() -> None:
    bench = open_bench("cartpole", backend="analytic")
    (item,) = measure_responses(bench.probe, np.array([36.0]), np.array([0.1]), np.array([1.0]), damping_ratio=0.5)
    assert item.overshoot == pytest.approx(np.exp(-np.pi * 0.5 / np.sqrt(0.75)), abs=0.005)
    assert item.bandwidth == pytest.approx(item.expected_bandwidth, rel=0.05)


def test_a_full_action_that_saturates_rises_late() -> None:
    bench = open_bench("Walker2d-v5")
    stiffness = np.full(6, 1000.0)
    first = measure_responses(bench.probe, stiffness, np.full(6, -0.01), np.full(6, -0.8))[1]
    assert first.rise == pytest.approx(first.expected_rise, rel=0.05)
    assert first.full_rise > 1.1 * first.rise  # 1000 · 0.8 against 100 N·m
    bench.close()


# --- weight ----------------------------------------------------------------------------------------------------------


def test_what_hangs_on_a_joint_is_weighed_by_its_motion() -> None:
    """The Humanoid's arms, against the engine's own inverse dynamics."""
    bench = open_bench("Humanoid-v5")
    backend: Any = bench.probe.backend
    model, stiffness = backend.model, bench.inertia * 400.0
    joints = model.actuator_trnid[:, 0]
    data = mujoco.MjData(model)
    data.qpos[model.jnt_qposadr[joints]] = backend.nominal_pose
    mujoco.mj_forward(model, data)
    held = data.qfrc_bias[model.jnt_dofadr[joints]]
    hangs = [place for place, weight in enumerate(bench.weigh(stiffness)) if weight.how == "what hangs on it"]
    weights = bench.weigh(stiffness)
    assert {"right_shoulder1", "left_elbow"} <= {bench.joint_names[place] for place in hangs}
    assert max(abs(held[place]) for place in hangs) > 0.5
    for place in hangs:
        change = abs(weights[place].sag(stiffness[place]) * weights[place].stiffness)  # on the way down
        assert weights[place].torque == pytest.approx(held[place], rel=0.05, abs=1.5 * change + 1e-6)
    bench.close()


def test_load_is_the_derivative_of_the_potential() -> None:
    rng = np.random.default_rng(0)
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    anchor, centre = rng.normal(size=3), rng.normal(size=3)

    def potential(angle: float) -> float:
        lever = centre - anchor
        turned = lever * np.cos(angle) + np.cross(axis, lever) * np.sin(angle)
        turned += axis * (axis @ lever) * (1.0 - np.cos(angle))
        return float(3.0 * 9.81 * (anchor + turned)[2])

    torque, stiffness = load_of(axis, anchor, 3.0, centre)
    assert torque == pytest.approx((potential(1e-4) - potential(-1e-4)) / 2e-4, rel=1e-5)
    assert stiffness == pytest.approx((potential(1e-3) - 2 * potential(0.0) + potential(-1e-3)) / 1e-6, rel=1e-4)


def test_a_standing_spot_sags_the_way_its_weight_says() -> None:
    bench = open_bench("spot-handstand", backend="mujoco")
    weights = bench.weigh(np.full(12, 150.0))
    assert all(weight.stiffness < 0.0 for weight in weights[2::3])  # a knee stands above its foot
    assert bench.stand is not None
    standing = bench.stand(np.full(12, 150.0))
    assert standing.stands
    for knee in (2, 5, 8, 11):
        assert standing.sag[knee] * weights[knee].torque > 0.0
    expected = np.mean([weights[knee].sag(150.0) for knee in (2, 5, 8, 11)])
    assert np.mean(standing.sag[2::3]) == pytest.approx(expected, rel=0.3)  # friction of the feet carries a part
    assert not bench.stand(np.full(12, 2.0)).stands
    bench.close()


# --- suggestions -----------------------------------------------------------------------------------------------------


def test_a_robot_of_ours_keeps_its_gains_and_an_unknown_one_gets_some() -> None:
    bench = open_bench("cartpole", backend="analytic")
    (item,) = weigh_and_suggest(bench)[1]
    assert (item.stiffness, item.damping, item.start_stiffness) == (6.25, 5.0, 36.0)
    bench = open_bench("Walker2d-v5")
    weights, suggestions = weigh_and_suggest(bench, rise=0.2)
    by_name = {item.joint: item for item in suggestions}
    lost = {name: -weight.stiffness for name, weight in zip(bench.joint_names, weights, strict=True)}
    assert by_name["leg_joint"].stiffness >= 2.0 * lost["leg_joint"] > 0.0
    for item, inertia, limit in zip(suggestions, bench.inertia, bench.torque_limits, strict=True):
        assert item.stiffness < item.start_stiffness < item.ceiling
        assert item.damping == pytest.approx(2.0 * np.sqrt(item.stiffness * inertia))
        assert item.action_scale * item.start_stiffness <= limit * 1.001
        assert item.action_scale >= 0.19 and len(item.reasons) == 3
    quick = {item.joint: item.stiffness for item in weigh_and_suggest(bench, rise=0.05)[1]}
    assert quick["foot_joint"] > by_name["foot_joint"].stiffness
    bench.close()


@pytest.mark.parametrize("integrator", ["explicit", "implicit", "rk4"])
def test_the_ceiling_is_half_of_what_the_step_holds(integrator: str) -> None:
    import dataclasses

    bench = dataclasses.replace(open_bench("cartpole", backend="analytic"), integrator=integrator, physics_step=0.01)
    most = float(ceiling(bench)[0])
    step = {"explicit": 0.4142, "implicit": 2.4142, "rk4": 2.785 / 2}[integrator]
    assert np.sqrt(most) * 0.01 == pytest.approx(step, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "options", "kind", "words"),
    [
        ("Antt-v5", {}, CurriculumError, "Ant-v5"),
        ("spot-handstand", {"backend": "spot"}, BackendError, "no bench"),
        ("Ant-v5", {"backend": "pybullet"}, CurriculumError, "choice of engines"),
    ],
)
def test_what_has_no_bench_is_refused(name: str, options: dict[str, Any], kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        open_bench(name, **options)


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_draws_and_writes(tmp_path: Any, capsys: Any) -> None:
    assert main(["gains", "Hopper-v5", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "CurriculumConfig(start_stiffness=" in said and "K: the least with which" in said
    assert {path.name for path in tmp_path.iterdir()} == {"gains.png", "gains.csv", "steps.csv", "sines.csv"}
    rows = list(csv.DictReader((tmp_path / "gains.csv").open()))
    assert [row["joint"] for row in rows] == ["thigh_joint", "leg_joint", "foot_joint"]
    assert float(rows[0]["rise_s"]) == pytest.approx(float(rows[0]["rise_analytic_s"]), rel=0.05)


def test_tables_show_every_word_in_a_narrow_terminal(tmp_path: Any, capsys: Any, monkeypatch: Any) -> None:
    """Walker2d has the longest names of joints."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    assert main(["gains", "Walker2d-v5"]) == 0
    tables = capsys.readouterr().out.partition("\n- ")[0]
    assert "…" not in tables and max(map(len, tables.splitlines())) <= 82
    assert all(word in tables for word in ("thigh_left_joint", "bandwidth,", "standing", "2,260,000"))
    assert "-0.00 " not in tables


@pytest.mark.parametrize(
    ("sag", "text"), [(0.1234, "0.123"), (-4.7, "gives way"), (float("inf"), "gives way"), (-1e-5, "0.000")]
)
def test_a_sag_far_from_the_pose_is_no_number(sag: float, text: str) -> None:
    assert sag_text(sag) == text


def test_reasons_compare_with_what_the_env_has() -> None:
    bench = open_bench("spot-planar-handstand", backend="mujoco")
    by_name = {item.joint: item for item in weigh_and_suggest(bench)[1]}
    bench.close()
    hip, knee = by_name["f_hy"], by_name["f_kn"]
    assert "which is the robot's; 74.2 would be the least with which the joint gives way" in hip.reasons[0]
    assert hip.start_stiffness == 77.0 and hip.reasons[1].endswith("takes away; the env's own is 60.")
    assert knee.start_stiffness == 60.0 and knee.reasons[1] == "K_0: the env's own."


def test_the_command_measures_at_a_stiffness_of_yours_and_refuses_nonsense(tmp_path: Any, capsys: Any) -> None:
    words = ["gains", "ADC/CartPole-v0", "--backend", "analytic", "--out", str(tmp_path)]
    assert main([*words, "--stiffness", "25"]) == 0
    row = next(csv.DictReader((tmp_path / "gains.csv").open()))
    assert float(row["stiffness"]) == 25.0 and float(row["suggested_K"]) == 6.25
    assert main([*words, "--stiffness", "-1"]) == 1
    assert main([*words, "--rise", "0"]) == 1
    assert "expected a positive number" in capsys.readouterr().err
