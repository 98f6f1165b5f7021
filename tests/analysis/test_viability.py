"""The compiled cart-pole, the LQR sweep, the kernel and the proposition."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")
pytest.importorskip("scipy")

from rich.console import Console
from scipy.integrate import solve_ivp

from adc_wrappers.backends.cartpole import CartPoleModel, CartPoleState
from adc_wrappers.backends.cartpole.model import accelerations as model_accelerations
from adc_wrappers.cli.viability import _coverage_table
from adc_wrappers.core.errors import CurriculumError
from adc_wrappers.viability import (
    CartPlant,
    Grid,
    KernelSettings,
    RegulatorSettings,
    StartGrid,
    cartpole_kernel,
    check_proposition,
    common_states,
    compare_kernels,
    inverted_command,
    kernel_coverage,
    linear_bound,
    regulator,
    success_curve,
    sweep,
    tabulate,
)
from adc_wrappers.viability.compiled import accelerations, advance
from adc_wrappers.viability.coverage import Coverage
from adc_wrappers.viability.kernel import unstable_direction
from adc_wrappers.viability.success import survival_times

SMALL = KernelSettings(points=11)
numbers = st.floats(-3.0, 3.0)


def plant(frequency=6.0, **changes):
    return CartPlant(natural_frequency=frequency, **changes)


@cache
def kernel(frequency=6.0, **changes):
    return cartpole_kernel(plant(frequency, **changes), SMALL)


def right_hand_side(system):
    """The closed loop by the backend's equations, with the force clipped."""

    def derivative(state, command):
        x, v, _, rate = state
        force = np.clip(system.stiffness * (command - x) - system.damping * v, -system.force_limit, system.force_limit)
        parts = CartPoleState(*(np.array([part]) for part in state))
        linear, angular = model_accelerations(parts, np.array([force]), system.model)
        return np.array([v, linear[0], rate, angular[0]])

    return derivative


# --- the compiled equations ------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.tuples(numbers, numbers, numbers, numbers), numbers, st.floats(0.5, 20.0), st.sampled_from([np.inf, 5.0]))
def test_compiled_equations_are_the_backends(state, command, frequency, limit):
    system = plant(frequency, model=CartPoleModel(cart_mass=1.3, pole_mass=0.2, pole_length=0.7), force_limit=limit)
    expected = right_hand_side(system)(state, command)
    assert accelerations(*state, command, system.vector()) == pytest.approx((expected[1], expected[3]), rel=1e-9)


def test_the_linearized_plant_is_the_derivative_of_the_equations():
    system, small = plant(4.0), 1e-6
    a, b = system.linearized()
    for column, nudge in enumerate(small * np.eye(5)):
        change = right_hand_side(system)(nudge[:4], nudge[4]) / small
        np.testing.assert_allclose(change, np.column_stack((a, b))[:, column], atol=1e-4)
    linear = replace(system, linear=True).vector()
    state = np.array([0.3, -1.0, 0.4, 2.0])
    expected = a @ state + b[:, 0] * 0.7
    assert accelerations(*state, 0.7, linear) == pytest.approx((expected[1], expected[3]))


def test_compiled_integration_agrees_with_scipys():
    system = plant(6.0)
    exact = solve_ivp(
        lambda _, s: right_hand_side(system)(s, 0.4), (0, 0.4), [0.1, 0.2, 0.3, -0.5], rtol=1e-10, atol=1e-12
    )
    assert advance(0.1, 0.2, 0.3, -0.5, 0.4, system.vector(), 0.004, 100) == pytest.approx(exact.y[:, -1], abs=1e-6)


# --- the figure ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [None, 50.0])
def test_the_sweep_agrees_with_a_plain_loop(rate):
    system, chosen = plant(5.0), RegulatorSettings(command_rate=rate, horizon=2.0)
    gain, derivative = regulator(system), right_hand_side(system)
    starts = StartGrid(points=5).states()
    found = survival_times(system, chosen, starts) >= chosen.horizon
    for start, alive in zip(starts[1:12:2], found[1:12:2], strict=True):
        state, inside = start, True
        for _ in range(100):

            def law(_, s, held=state):
                return derivative(s, np.clip(-gain @ (held if rate else s), -1, 1))

            path = solve_ivp(law, (0, 0.02), state, rtol=1e-7, atol=1e-9).y
            state = path[:, -1]
            inside &= bool((np.abs(path[0]) <= 1).all() and (np.abs(path[2]) <= np.pi / 2).all())
            if not inside:
                break
        assert inside == alive, start


def test_the_figure_rises_with_the_natural_frequency_within_its_error_bars():
    curve = success_curve(plant, (1.0, 2.0, 4.0, 8.0, 20.0), starts=StartGrid(points=21))
    assert (np.diff(curve.rates) >= -(curve.errors[1:] + curve.errors[:-1])).all()
    assert curve.rates[0] < 0.12 and curve.rates[-1] > 0.7
    assert (curve.maps[:, ::-1, ::-1] == curve.maps).all()


def test_a_command_held_for_20_ms_collapses_at_high_frequencies_and_a_continuous_one_does_not():
    starts = StartGrid(points=15)
    rates = {
        name: success_curve(plant, (20.0, 60.0), RegulatorSettings(horizon=2.0, **changes), starts).rates
        for name, changes in {
            "continuous": {},
            "held": {"command_rate": 50.0},
            "designed for it": {"command_rate": 50.0, "sampled_design": True},
        }.items()
    }
    assert rates["held"][0] > 0.6 and rates["held"][1] < 0.1
    assert rates["continuous"][1] > 0.6 and rates["designed for it"][1] > 0.6


def test_the_share_of_a_plane_and_its_error():
    grid = StartGrid(angle=1.0, rate=1.0, points=41)
    share, error = grid.share(np.hypot(*grid.states()[:, 2:].T) < 0.8)
    assert abs(share - np.pi * 0.8**2 / 4) < error < 0.06


# --- closed-form kernels ---------------------------------------------------------------------------------------------


def kernel_of(grid, choices, step, level, stages):
    """A kernel by numpy successors, for systems without compiled code."""
    vertices = grid.vertices()

    def successors(first, last, ends, floors):
        for index, command in enumerate(choices):
            reached = step(vertices[first:last], command)
            ends[first:last, index], floors[first:last, index] = reached, level(reached)

    table = tabulate(grid, len(choices), successors)
    return sweep(grid, level(vertices).astype(np.float32), table, stages)[0]


def test_a_one_dimensional_kernel_is_the_closed_form_one():
    """x' = a x + u, |u| ≤ 1, |x| ≤ 2: viable for ever is |x| ≤ 1 / (a − 1); for T steps a little more."""
    a, stages = 1.6, 6
    grid = Grid((-2.0,), (2.0,), (401,))
    value = kernel_of(grid, (-1.0, 0.0, 1.0), lambda s, u: a * s + u, lambda s: 2.0 - np.abs(s[:, 0]), stages)
    edge = 2.0
    for _ in range(stages):
        edge = min(2.0, (edge + 1.0) / a)
    viable = np.abs(grid.vertices()[:, 0])[value >= 0.0].max()
    assert abs(viable - edge) <= grid.spacing[0]
    assert edge > 1.0 / (a - 1.0)


def test_the_double_integrators_kernel_is_the_closed_form_one():
    """ẍ = u, |u| ≤ 1, |x| ≤ 1: viable is where full braking stops before the edge, x + ẋ|ẋ|/2 ≤ 1 and mirrored."""
    dt, errors = 0.1, []
    for points in (41, 81):
        grid = Grid((-1.0, -2.5), (1.0, 2.5), (points, points))

        def step(s, u):
            return np.column_stack((s[:, 0] + dt * s[:, 1] + 0.5 * dt**2 * u, s[:, 1] + dt * u))

        value = kernel_of(grid, (-1.0, 0.0, 1.0), step, lambda s: np.clip(1.0 - np.abs(s[:, 0]), -0.5, 0.5), 60)
        x, v = grid.vertices().T
        exact = np.abs(x + 0.5 * v * np.abs(v)) <= 1.0
        errors.append(np.mean(exact != (value >= 0.0)))
    assert errors[0] < 0.05 and errors[1] < 0.7 * errors[0], errors


# --- the cart-pole's kernel ------------------------------------------------------------------------------------------


def test_the_unstable_coordinate_grows_as_it_should():
    system = plant(3.0, command_limit=0.8)
    a, b = system.linearized()
    w = unstable_direction(system)
    rate = np.linalg.eigvals(a).real.max()
    np.testing.assert_allclose(w @ a, rate * w, atol=1e-9)
    assert abs(w @ b[:, 0]) == pytest.approx(rate / 0.8)


def test_what_the_regulator_saves_is_in_the_kernel_and_the_kernel_is_within_the_linear_bound():
    system, starts = replace(plant(6.0), linear=True), StartGrid(points=15).states()
    linear = cartpole_kernel(system, SMALL)
    verified = linear.verified(starts)
    assert (np.abs(linear.coordinate(starts[verified])) <= 1.0 + 1e-6).all()
    chosen = RegulatorSettings(command_rate=50.0, sampled_design=True, horizon=2.0)
    by_regulator = survival_times(system, chosen, starts) >= 2.0
    assert np.count_nonzero(by_regulator & ~verified) <= 0.02 * np.count_nonzero(verified)


def test_coverage_rises_and_hardly_depends_on_the_grid():
    starts = StartGrid(points=21)
    rows = [kernel_coverage(kernel(frequency), starts) for frequency in (2.0, 6.0, 12.0)]
    assert [row.verified for row in rows] == sorted(row.verified for row in rows)
    finer = kernel_coverage(cartpole_kernel(plant(6.0), replace(SMALL, points=15)), starts)
    assert abs(finer.verified - rows[1].verified) < 0.01
    assert abs(finer.estimate - finer.verified) < 0.08
    assert rows[1].verified <= rows[1].outer


def test_kernels_contain_each_other_where_the_cart_is_slow():
    states = common_states(plant(2.0), points=7)
    (row,) = compare_kernels([kernel(2.0), kernel(6.0)], states)
    assert row.viable_low < row.viable_high
    slow = states[np.abs(states[:, 1]) <= 2.0 * (1.0 - np.abs(states[:, 0]))]
    lost = kernel(2.0).verified(slow) & ~kernel(6.0).verified(slow)
    assert not lost.any()


def test_a_fast_cart_is_viable_at_the_softer_gain_only():
    """Linearized: ẋ > ω (x̄_d − x), so more stiffness takes reach away; |e| > 1 is lost for good."""
    low, high = (replace(plant(w), linear=True) for w in (1.0, 2.0))
    state = np.array([[0.0, 2.0, 0.5, 0.0]])
    state[0, 3] = (0.97 - state[0, :3] @ unstable_direction(low)[:3]) / unstable_direction(low)[3]
    assert state[0, 1] > low.natural_frequency * (low.command_limit - state[0, 0])
    assert (state @ unstable_direction(high))[0] > 1.05
    short = replace(SMALL, horizon=0.8)
    assert cartpole_kernel(low, short).verified(state).all()
    assert not cartpole_kernel(high, short).verified(state).any()


def test_a_force_limit_and_a_slower_command_shrink_the_kernel():
    starts = StartGrid(points=21).states()
    free = kernel(6.0).verified(starts).mean()
    assert kernel(6.0, force_limit=8.0).verified(starts).mean() < free
    slow = cartpole_kernel(plant(6.0), replace(SMALL, command_rate=5.0, stage=1))
    assert slow.verified(starts).mean() < free + 0.005


# --- the proposition -------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.tuples(numbers, numbers, numbers, numbers), numbers, st.floats(1.0, 10.0), st.floats(1.0, 3.0))
def test_the_inverted_command_moves_the_stiffer_cart_alike(state, command, low, ratio):
    first, second = (replace(plant(w), linear=True).vector() for w in (low, ratio * low))
    again = float(inverted_command(np.array(state), np.array(command), low, ratio * low))
    assert accelerations(*state, again, second) == pytest.approx(accelerations(*state, command, first), abs=1e-7)


def test_the_assumptions_hold_for_close_pairs_and_fail_for_distant_ones():
    near, far = check_proposition(plant, [(6.0, 6.06), (6.0, 12.0)], SMALL, samples=60)
    assert near.included_share > 0.95 and near.closeness_share > 0.9
    assert far.closeness_share < 0.5 < far.included_share
    assert near.correction_max <= near.bound + 1e-9 and far.correction_max <= far.bound + 1e-9


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: plant(-1.0), "natural_frequency: expected a positive number, got -1"),
        (lambda: plant(force_limit=0.0), "force_limit: expected a positive number, got 0"),
        (lambda: KernelSettings(horizon=0.5, stage=4), "horizon: expected a multiple of 0.08 s"),
        (lambda: KernelSettings(points=2), "points >= 3"),
        (lambda: RegulatorSettings(sampled_design=True), "expected a command_rate as well"),
        (lambda: StartGrid(points=1), "at least 3 points"),
        (lambda: Grid((0.0,), (0.0,), (5,)), "expected low < high"),
        (lambda: success_curve(plant, ()), "at least one number"),
        (lambda: check_proposition(plant, [(3.0, 2.0)]), "expected 0 < ω_1 <= ω_2"),
        (lambda: regulator(plant(), effort=0.0), "an effort > 0"),
    ],
)
def test_bad_numbers_raise(act, message):
    with pytest.raises(CurriculumError, match=message):
        act()


def test_the_linear_plant_bounds_the_regulator_between_the_kernels_too():
    """The picture draws the bound at every ω_n of p: a line between few kernels once ran below p."""
    starts = StartGrid(points=13)
    curve = success_curve(plant, (2.0, 6.0, 10.0, 20.0), RegulatorSettings(), starts)
    bounds = [linear_bound(plant(frequency), starts) for frequency in curve.frequencies]
    assert np.all(curve.rates <= np.add(bounds, 1e-9)) and bounds == sorted(bounds)


def test_the_kernels_table_of_three_grids_shows_every_word_in_a_narrow_terminal():
    grids = [11, 15, 21]
    rows = [Coverage(20.0, size, 0.788, 0.813, 0.022, 0.903) for size in grids]
    lines = io.StringIO()
    Console(file=lines, width=80).print(_coverage_table(rows, [20.0], grids))
    assert "…" not in lines.getvalue() and lines.getvalue().count("verified,") == 3
