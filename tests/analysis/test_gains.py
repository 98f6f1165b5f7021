"""Gains: measured responses beside the analytic ones, the weight on a joint, and what is suggested."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pytest

from adc_wrappers import BackendError, CurriculumError
from adc_wrappers.cli.gains import weigh_and_suggest
from adc_wrappers.cli.main import main
from adc_wrappers.gains import measure_responses, open_bench
from adc_wrappers.gains.suggestion import ceiling
from adc_wrappers.gains.weight import load_of

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
            np.testing.assert_allclose(item.gain, item.expected_gain, rtol=0.05)
            np.testing.assert_allclose(item.phase, item.expected_phase, atol=5.0)
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
    assert not first.full_rise < 1.5 * first.rise  # 1000 · 0.8 against 100 N·m; NaN where it has not risen at all
    bench.close()


# --- weight ----------------------------------------------------------------------------------------------------------


def test_what_hangs_on_a_joint_is_weighed_by_its_motion() -> None:
    """Reacher turns about the vertical, Pusher's arm carries itself."""
    for name in ("Reacher-v5", "Pusher-v5"):
        bench = open_bench(name)
        backend: Any = bench.probe.backend
        stiffness = bench.inertia * 400.0
        weights = bench.weigh(stiffness)
        import mujoco

        data = mujoco.MjData(backend.model)
        data.qpos[backend.model.jnt_qposadr[backend.model.actuator_trnid[:, 0]]] = backend.nominal_pose
        mujoco.mj_forward(backend.model, data)
        held = data.qfrc_bias[backend.model.jnt_dofadr[backend.model.actuator_trnid[:, 0]]]
        for weight, torque, k in zip(weights, held, stiffness, strict=True):
            at = weight.sag(k) * weight.stiffness / 2.0  # the torque changes on the way down
            assert weight.torque == pytest.approx(torque, abs=max(0.05 * abs(torque), abs(at), 1e-6))
        assert (max(abs(weight.torque) for weight in weights) > 0.1) == (name == "Pusher-v5")
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


def test_spot_stands_at_its_gains_and_its_knees_carry() -> None:
    bench = open_bench("spot-handstand", backend="mujoco")
    weights = bench.weigh(np.full(12, 40.0))
    knees = [weight.stiffness for weight in weights[2::3]]
    assert max(knees) < 0.0  # the body stands above its knees
    assert bench.stand is not None
    standing = bench.stand(np.full(12, 40.0))
    assert standing.stands
    assert not bench.stand(np.full(12, 2.0)).stands
    np.testing.assert_allclose(standing.sag[0::3], -standing.sag[[3, 0, 9, 6]], atol=0.02)  # left and right alike
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
    assert by_name["foot_joint"].stiffness >= 2.0 * lost["foot_joint"] > 0.0
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
    assert "CurriculumConfig(start_stiffness=" in said and "K: the least that" in said
    assert {path.name for path in tmp_path.iterdir()} == {"gains.png", "gains.csv", "steps.csv", "sines.csv"}
    rows = list(csv.DictReader((tmp_path / "gains.csv").open()))
    assert [row["joint"] for row in rows] == ["thigh_joint", "leg_joint", "foot_joint"]
    assert float(rows[0]["rise_s"]) == pytest.approx(float(rows[0]["rise_analytic_s"]), rel=0.05)


def test_the_command_measures_at_a_stiffness_of_yours_and_refuses_nonsense(tmp_path: Any, capsys: Any) -> None:
    words = ["gains", "ADC/CartPole-v0", "--backend", "analytic", "--out", str(tmp_path)]
    assert main([*words, "--stiffness", "25"]) == 0
    row = next(csv.DictReader((tmp_path / "gains.csv").open()))
    assert float(row["stiffness"]) == 25.0 and float(row["suggested_K"]) == 6.25
    assert main([*words, "--stiffness", "-1"]) == 1
    assert main([*words, "--rise", "0"]) == 1
    assert "expected a positive number" in capsys.readouterr().err
