"""The kernel against hj_reachability, where it is installed (``pip install "adc-wrappers[viability-check]"``)."""

from __future__ import annotations

import pytest

pytest.importorskip("numba")
pytest.importorskip("hj_reachability")

from adc_wrappers.viability import CartPlant, KernelSettings, StartGrid, cartpole_kernel


@pytest.mark.slow
def test_the_kernel_agrees_with_hj_reachability_within_the_refinement_error():
    """Refinement error: what halving the spacing changes, of both solvers together."""
    from benchmarks.hj_cartpole import HjKernel

    plant, starts = CartPlant(natural_frequency=6.0), StartGrid(points=31)
    states = starts.states()
    ours, theirs = [], []
    for points in (11, 21):
        settings = KernelSettings(points=points, horizon=0.8, speed=4.0)
        kernel, other = cartpole_kernel(plant, settings), HjKernel(plant, settings, "medium")
        other.solve()
        ours.append(starts.share(kernel.contains(states))[0])
        theirs.append(starts.share(other.contains(states))[0])
    assert abs(ours[1] - theirs[1]) <= abs(ours[1] - ours[0]) + abs(theirs[1] - theirs[0])
    assert abs(ours[1] - theirs[1]) < abs(ours[0] - theirs[0])
    assert max(theirs) <= starts.share(kernel.verified(states))[0]
