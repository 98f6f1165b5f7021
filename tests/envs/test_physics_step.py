"""The physics step of the planar handstand: what it changes, and how much faster the plane is."""

from __future__ import annotations

import numpy as np

from benchmarks import physics_step, throughput


def test_a_smaller_physics_step_changes_less_and_states_and_targets_are_the_same() -> None:
    """4 ms is within 0.03 rad of 2 ms after 0.1 s in the median robot, and 1 ms nearer than that."""
    found = {step: physics_step.motion(step, 40.0, 0.2, 32, seed=1) for step in physics_step.STEPS}
    row = round(0.1 / physics_step.POLICY_STEP) - 1
    far, near = (
        np.median(np.abs(found[step].joints[row] - found[0.002].joints[row]).max(axis=1)) for step in (0.004, 0.001)
    )
    assert 0.0 < near < far < 0.03
    assert found[0.004].alive[row].all()


def test_rows_name_every_stiffness_reach_and_moment() -> None:
    lines = physics_step.motion_rows(8, seed=2)
    assert len(lines) == 4 * len(physics_step.MOMENTS)
    assert all(line.count("|") == 9 for line in lines)


def test_the_planar_env_takes_more_steps_than_that_in_space() -> None:
    """The committed table has the ratio of a whole measurement; a busy machine must not decide a test."""
    variants = {"space": throughput.our_env("mujoco", 64), "plane": throughput.planar_env(64)}
    result = throughput.rates(variants, rounds=3)
    for variant in variants.values():
        variant.close()
    assert throughput.median_ratio(result, "plane", "space") > 1.5
