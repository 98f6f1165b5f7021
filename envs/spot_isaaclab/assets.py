"""Spot for Isaac Lab: our generated model, or Isaac's own asset."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Literal

import isaaclab.sim as sim_utils
from isaaclab.actuators import DelayedPDActuatorCfg, RemotizedPDActuatorCfg
from isaaclab.assets import ArticulationCfg

from adc_wrappers.backends.spot_model import (
    HIP_TORQUE_LIMIT,
    JOINT_NAMES,
    KNEE_ANGLES,
    KNEE_TORQUES,
    NOMINAL_POSE,
    spot_usd,
    standing_height,
)
from adc_wrappers.backends.spot_model.mechanics import identified_gains
from adc_wrappers.core.files import write_atomically

__all__ = ["MOTOR_TORQUE", "SpotSource", "generated_usd", "isaac_spot_usd", "spot_cfg"]

SpotSource = Literal["auto", "generated", "isaac"]

MOTOR_TORQUE = 1.5
"""Largest torque of the knee's motor, N·m; the table's torque is this times the transmission ratio."""

_HIPS, _KNEES = ".*_h[xy]", ".*_kn"


def generated_usd() -> Path:
    """Write our Spot as USD into the user's cache and return the file; its name holds a digest of what is in it."""
    text = spot_usd()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adc_wrappers"
    path = cache / f"spot-{hashlib.sha256(text.encode()).hexdigest()[:16]}.usda"
    if not path.exists():
        write_atomically(path, text.encode())
    return path


def isaac_spot_usd() -> str | None:
    """Return the address of Isaac's own Spot if it can be reached, else None."""
    from isaaclab.utils.assets import check_file_path
    from isaaclab_assets.robots.spot import SPOT_CFG

    address: str = SPOT_CFG.spawn.usd_path
    return address if check_file_path(address) else None


def spot_cfg(source: SpotSource = "auto", *, max_delay: int = 0) -> Any:
    """Return Spot as an articulation's config.

    Joints, limits and the knee's torque table are the same for both sources; masses and shapes are the file's.

    Args:
        source: ``"isaac"`` for the asset of Isaac Lab's ``SPOT_CFG``, ``"generated"`` for our own model, ``"auto"`` for
            the first that can be had.
        max_delay: Largest delay of position targets in physics steps. Isaac Lab draws one per reset; its native
            actuators (3.x) always take the largest.

    Raises:
        FileNotFoundError: Isaac's asset was asked for and cannot be reached.
    """
    address = isaac_spot_usd() if source in ("auto", "isaac") else None
    if source == "isaac" and address is None:
        raise FileNotFoundError("Isaac's Spot cannot be reached from here: use source='generated' or 'auto'.")
    return ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=sim_utils.UsdFileCfg(usd_path=address or str(generated_usd()), activate_contact_sensors=True),
        init_state=ArticulationCfg.InitialStateCfg(
            pos=(0.0, 0.0, standing_height(NOMINAL_POSE)),
            joint_pos=dict(zip(JOINT_NAMES, NOMINAL_POSE, strict=True)),
        ),
        actuators={"hips": _hips(max_delay), "knees": _knees(max_delay)},
    )


def _hips(max_delay: int) -> Any:
    stiffness, damping = identified_gains(_HIPS)
    config = DelayedPDActuatorCfg(joint_names_expr=[_HIPS], stiffness=stiffness, damping=damping, max_delay=max_delay)
    modern = hasattr(config, "actuator_effort_limit")  # Isaac Lab 3
    setattr(config, "actuator_effort_limit" if modern else "effort_limit", HIP_TORQUE_LIMIT)
    return config


def _knees(max_delay: int) -> Any:
    rows = [[float(q), -float(t) / MOTOR_TORQUE, float(t)] for q, t in zip(KNEE_ANGLES, KNEE_TORQUES, strict=True)]
    stiffness, damping = identified_gains(_KNEES)
    return RemotizedPDActuatorCfg(
        joint_names_expr=[_KNEES], stiffness=stiffness, damping=damping, max_delay=max_delay,
        joint_parameter_lookup=rows,
    )  # fmt: skip
