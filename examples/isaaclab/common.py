"""Options that train.py and play.py share, and the launch of the simulator."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from typing import Any


def options(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--num-envs", type=int, default=4096, help="robots that are stepped together, per GPU")
    parser.add_argument("--device", default="cuda:0", help="cuda:0, cpu, …")
    parser.add_argument("--engine", choices=("newton", "physx"), default="newton")
    parser.add_argument("--source", choices=("auto", "generated", "isaac"), default="auto", help="whose Spot")
    parser.add_argument("--preset", default="paper", help="paper, authors, cpu or stepping: rewards, actions, contacts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="runs/isaaclab-handstand", help="folder for checkpoints and logs")
    return parser


def rank() -> int:
    """The number of this process under torchrun."""
    return int(os.environ.get("RANK", "0"))


def local_device(arguments: argparse.Namespace) -> str:
    """Each process of a distributed training has a GPU of its own."""
    if getattr(arguments, "distributed", False) and arguments.device != "cpu":
        return f"cuda:{int(os.environ.get('LOCAL_RANK', '0'))}"
    return str(arguments.device)


@contextlib.contextmanager
def simulator(arguments: argparse.Namespace) -> Iterator[Any]:
    """Start Isaac Sim where the engine needs it; yields a function that makes the config.

    Isaac Lab 2 needs its app before anything else of it is imported. Isaac Lab 3 needs none for Newton, and for PhysX
    from the package ``ovphysx``.
    """
    device = local_device(arguments)
    launcher = None
    try:
        from isaaclab.app import launch_simulation
    except ImportError:  # Isaac Lab 2
        from isaaclab.app import AppLauncher

        launcher, launch_simulation = AppLauncher(headless=True, device=device), None

    def config(**settings: Any) -> Any:
        from adc_wrappers.envs.spot_isaaclab.cfg import handstand_cfg

        return handstand_cfg(
            num_envs=arguments.num_envs, device=device, engine=arguments.engine if launcher is None else "physx",
            source=arguments.source, seed=arguments.seed + rank(), preset=arguments.preset, **settings,
        )  # fmt: skip

    if launch_simulation is None:
        yield config
        launcher.app.close()
        return
    with launch_simulation(config(), {"headless": True, "device": device}):
        yield config
