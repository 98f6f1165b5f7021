"""``adc doctor`` and ``adc envs``."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from rich.console import Console
from rich.table import Table

from adc_wrappers.core.errors import install_command
from adc_wrappers.envs.registry import TASKS

__all__ = ["Doctor", "Envs"]


@dataclass(frozen=True)
class Part:
    """A package that the library uses."""

    module: str
    """What is imported."""

    package: str
    """What is installed."""

    extra: str | None
    """The extra that brings it; None for what every use needs."""

    purpose: str
    """What it is for."""

    commands: str
    """Which commands need it; in brackets those that need it for a part of what they do."""


_TRAINING = "train, study run, select-k0"
_PARTS = (
    Part("gymnasium", "gymnasium", None, "the environments' interface", "all"),
    Part("numpy", "numpy", None, "arrays", "all"),
    Part("tyro", "tyro", None, "this command", "all"),
    Part("rich", "rich", None, "tables and progress", "all"),
    Part("pybullet", "pybullet", "pybullet", "the PyBullet backend", "those on cartpole, unless --backend analytic"),
    Part("mujoco", "mujoco", "mujoco", "the MuJoCo backend", "those on Spot; deploy, spot-sim, sysid"),
    Part("torch", "torch", "sb3", "neural networks", f"{_TRAINING}, export; eval, play and view of a run"),
    Part("stable_baselines3", "stable-baselines3", "sb3", "the trainer sb3", f"{_TRAINING} of the cart-poles"),
    Part("rsl_rl", "rsl-rl-lib", "rsl-rl", "the trainer rsl_rl", f"{_TRAINING} of Spot"),
    Part("tensorboard", "tensorboard", "sb3", "logs of a run", "train"),
    Part("matplotlib", "matplotlib", "viz", "pictures", "train, plot, eval, study, viability, narrowness, advise"),
    Part("imageio", "imageio", "viz", "GIF and MP4", "play --out, study report"),
    Part("imageio_ffmpeg", "imageio-ffmpeg", "viz", "MP4", "play --out film.mp4"),
    Part("PIL", "pillow", "viz", "GIF, and drawings of the analytic cart-pole", "play, study report"),
    Part("pygame", "pygame", "viz", "windows", "play"),
    Part("moviepy", "moviepy", "video", "Gymnasium's RecordVideo", "none"),
    Part("numba", "numba", "viability", "viability kernels", "viability, narrowness, advise"),
    Part("scipy", "scipy", "viability", "linear-quadratic regulators", "viability, narrowness, advise"),
    Part("viser", "viser", "view", "the live view in the browser", "view (spot-sim)"),
    Part("cma", "cma", "sysid", "fitting parameters", "sysid"),
    Part("pyarrow", "pyarrow", "sysid", "logs as Parquet", "(sysid, deploy, trials)"),
    Part("bosdyn", "bosdyn-client", "spot", "Spot, the robot", "deploy, spot-sim"),
    Part("cryptography", "cryptography", "spot-sim", "the practice robot", "spot-sim, deploy --practice"),
    Part("onnx", "onnx", "export", "policy files", "export, deploy, pull; eval, play and view of a policy file"),
    Part("onnxruntime", "onnxruntime", "export", "running policy files", "export, deploy; policy files elsewhere"),
    Part("onnxscript", "onnxscript", "export", "writing policy files", "export"),
    Part("ray", "ray", "ray", "studies on a cluster; RLlib", "study run --executor ray"),
    Part("submitit", "submitit", "slurm", "studies through Slurm", "study run --executor slurm"),
    Part("skrl", "skrl", "skrl", "the trainer skrl, in scripts", "none"),
    Part("huggingface_hub", "huggingface_hub", "hub", "sharing policies", "push, pull"),
    Part("wandb", "wandb", "wandb", "Weights & Biases", "train --wandb"),
)


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Say what is installed, what is missing, which command needs it, and how to get it."""

    def run(self) -> int:
        """Look, and return 1 if something that every use needs is missing."""
        console = Console(highlight=False, soft_wrap=True)
        console.print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in ("package", "version", "for", "commands of adc"):
            table.add_column(name, no_wrap=name in ("package", "version"))
        missing = []
        for part in _PARTS:
            found = importlib.util.find_spec(part.module) is not None
            state = _version(part.package) if found else "[red]missing[/red]"
            table.add_row(part.package, state, part.purpose, part.commands)
            missing += [] if found else [part]
        console.print(table)
        for remark in [*map(_remedy, missing), *_remarks()]:
            console.print(f"- {remark}", markup=False)
        return 1 if any(part.extra is None for part in missing) else 0


def _remedy(part: Part) -> str:
    extras = [part.extra] if part.extra else []
    return f"{part.package}, for {part.purpose}: {install_command(*extras)}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(no metadata)"


def _remarks() -> list[str]:
    remarks = []
    has_screen = sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if not has_screen:
        remarks.append("no screen: use `adc play RUN --out film.gif` instead of a window, or `adc view RUN`.")
    if not has_screen and not os.environ.get("MUJOCO_GL"):
        remarks.append("no screen: set MUJOCO_GL=egl to let MuJoCo render.")
    if importlib.util.find_spec("torch") is None:
        remarks.append(f"no torch yet: on a computer without a GPU, install its CPU build first: {_CPU_TORCH}")
        return remarks
    import torch

    devices = f"{torch.cuda.device_count()} GPU(s)" if torch.cuda.is_available() else "no GPU"
    remarks.append(f"torch sees {devices} and {os.cpu_count()} CPU cores.")
    if torch.version.cuda is not None and not torch.cuda.is_available():
        remarks.append(
            f"torch {torch.__version__} is built for CUDA {torch.version.cuda}, and there is no GPU here. It "
            f"works on the CPU; the CPU build is some gigabytes smaller: {_CPU_TORCH} --force-reinstall"
        )
    return remarks


_CPU_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"


@dataclass(frozen=True, kw_only=True)
class Envs:
    """List the tasks, the engines they run on, and their settings."""

    def run(self) -> int:
        """List."""
        console = Console(highlight=False)
        for spec in TASKS.values():
            console.print(f"[bold]{spec.name}[/bold]  {spec.summary}")
            console.print(
                f"  backends: {', '.join((*spec.backends, *spec.native))}   Gymnasium id: {spec.gymnasium_id}"
            )
            table = Table("setting", "default", box=None, padding=(0, 2), show_header=True)
            for field in dataclasses.fields(spec.settings_class()):
                table.add_row(
                    field.name, f"{field.default:.6g}" if isinstance(field.default, float) else str(field.default)
                )
            console.print(table)
        return 0
