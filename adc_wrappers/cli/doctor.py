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

from adc_wrappers.envs.registry import TASKS

__all__ = ["Doctor", "Envs"]


_PARTS = (
    ("gymnasium", "gymnasium", None, "the environments' interface"),
    ("numpy", "numpy", None, "arrays"),
    ("tyro", "tyro", None, "this command"),
    ("pybullet", "pybullet", "pybullet", "the PyBullet backend"),
    ("mujoco", "mujoco", "mujoco", "MuJoCo robots"),
    ("torch", "torch", "sb3", "neural networks"),
    ("stable_baselines3", "stable-baselines3", "sb3", "adc train"),
    ("tensorboard", "tensorboard", "sb3", "logs of a run"),
    ("matplotlib", "matplotlib", "viz", "adc plot"),
    ("imageio", "imageio", "viz", "GIF and MP4"),
    ("imageio_ffmpeg", "imageio-ffmpeg", "viz", "MP4"),
    ("PIL", "pillow", "viz", "GIF, and drawings of the analytic cart-pole"),
    ("pygame", "pygame", "viz", "windows"),
    ("numba", "numba", "viability", "adc viability, narrowness and advise"),
    ("scipy", "scipy", "viability", "adc viability, narrowness and advise"),
    ("viser", "viser", "view", "adc view in the browser"),
    ("bosdyn", "bosdyn-client", "spot", "Spot, the robot"),
    ("cryptography", "cryptography", "spot-sim", "adc spot-sim"),
    ("onnx", "onnx", "export", "policy files"),
    ("onnxruntime", "onnxruntime", "export", "running policy files"),
    ("onnxscript", "onnxscript", "export", "adc export"),
)


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Say what is installed, what is missing, and how to get it."""

    def run(self) -> int:
        """Look, and return 1 if something that every use needs is missing."""
        console = Console(highlight=False, soft_wrap=True)
        console.print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
        table = Table("package", "version", "for")
        remedies = []
        missing_base = False
        for module, package, extra, purpose in _PARTS:
            found = importlib.util.find_spec(module) is not None
            missing_base |= not found and extra is None
            table.add_row(package, _version(package) if found else "[red]missing[/red]", purpose)
            if not found:
                wanted = f"adc-wrappers[{extra}]" if extra else "adc-wrappers"
                remedies.append(f'{purpose} needs {package}: pip install "{wanted}"')
        console.print(table)
        for remark in [*remedies, *_remarks()]:
            console.print(f"- {remark}", markup=False)
        return 1 if missing_base else 0


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(no metadata)"


def _remarks() -> list[str]:
    remarks = []
    has_screen = sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if not has_screen:
        remarks.append("no screen: use `adc play RUN --out film.gif` instead of a window.")
    if not has_screen and not os.environ.get("MUJOCO_GL"):
        remarks.append("no screen: set MUJOCO_GL=egl to let MuJoCo render.")
    if importlib.util.find_spec("torch") is not None:
        import torch

        devices = f"{torch.cuda.device_count()} GPU(s)" if torch.cuda.is_available() else "no GPU"
        remarks.append(f"torch sees {devices} and {os.cpu_count()} CPU cores.")
    else:
        remarks.append(
            "without a GPU, install PyTorch's CPU build before any extra that needs torch, or pip fetches gigabytes of "
            "CUDA: pip install torch --index-url https://download.pytorch.org/whl/cpu"
        )
    return remarks


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
