"""What the parameters that the paper leaves open do to p(ω_n), one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adc_wrappers.backends.cartpole import CartPoleModel

from .plant import CartPlant
from .success import RegulatorSettings, StartGrid, SuccessCurve, success_curve

__all__ = ["VARIANTS", "influence_curves"]

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "command rate": {
        "held 20 ms": {"command_rate": 50.0},
        "held 20 ms, R = 0.1": {"command_rate": 50.0, "effort": 0.1},
        "held 20 ms, LQR designed for it": {"command_rate": 50.0, "sampled_design": True},
    },
    "weights": {
        "R = 0.1": {"effort": 0.1},
        "R = 1000": {"effort": 1000.0},
        "Q = diag(1, 0.1, 100, 10)": {"weights": (1.0, 0.1, 100.0, 10.0)},
    },
    "command and force limits": {
        "|x_d| ≤ 0.5": {"command_limit": 0.5},
        "|x_d| ≤ 2": {"command_limit": 2.0},
        "|F| ≤ 20 N": {"force_limit": 20.0},
    },
    "pole length": {"l = 0.25": {"pole_length": 0.25}, "l = 1": {"pole_length": 1.0}},
    "masses": {
        "m = 0.01": {"pole_mass": 0.01},
        "m = 0.5": {"pole_mass": 0.5},
        "M = 5, K = M ω_n²": {"cart_mass": 5.0},
    },
    "horizon": {"2 s": {"horizon": 2.0}, "10 s": {"horizon": 10.0}},
}
"""Groups of changes to the default setting."""

_MODEL = ("cart_mass", "pole_mass", "pole_length", "gravity")
_PLANT = ("command_limit", "force_limit", "position_limit", "angle_limit", "damping_ratio")


def influence_curves(
    plant: Callable[[float], CartPlant],
    frequencies: Sequence[float],
    settings: RegulatorSettings,
    starts: StartGrid,
    progress: Callable[[], Any] | None = None,
) -> dict[str, dict[str, SuccessCurve]]:
    """Return p(ω_n) of the given setting and of every variant, by group and name.

    Args:
        plant: From ω_n to the plant that is varied.
        frequencies: ω_n, rad/s.
        settings: The regulator that is varied.
        starts: The plane of starts.
        progress: Called after each variant.
    """
    default = success_curve(plant, frequencies, settings, starts)
    curves: dict[str, dict[str, SuccessCurve]] = {}
    for group, variants in VARIANTS.items():
        curves[group] = {"default": default}
        for name, changes in variants.items():
            varied = _changed(plant, changes)
            regulator = replace(settings, **{k: v for k, v in changes.items() if k not in (*_MODEL, *_PLANT)})
            curves[group][name] = success_curve(varied, frequencies, regulator, starts)
            if progress is not None:
                progress()
    return curves


def _changed(plant: Callable[[float], CartPlant], changes: dict[str, Any]) -> Callable[[float], CartPlant]:
    def varied(frequency: float) -> CartPlant:
        given = plant(frequency)
        model: CartPoleModel = replace(given.model, **{k: v for k, v in changes.items() if k in _MODEL})
        return replace(given, model=model, **{k: v for k, v in changes.items() if k in _PLANT})

    return varied
