"""Entry point of the ``adc`` command: finds the subcommand, turns expected errors into one message."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console

from adc_wrappers.core.errors import BackendError, CurriculumError, MissingExtraError, did_you_mean
from adc_wrappers.core.files import DiskFullError, is_disk_full
from adc_wrappers.runs import CheckpointError, RunFolderError

from .advise import Advise
from .audit import Audit
from .demo import Demo
from .deploy import Deploy
from .doctor import Doctor, Envs
from .evaluate import Evaluate
from .export import Export
from .feasible import Feasible
from .gains import GainsCommand
from .narrowness import NarrownessCommand
from .play import Play
from .plot import Plot
from .push import Pull, Push
from .recipe_help import named_task
from .select_k0 import SelectK0
from .spot_sim import SpotSim
from .study import Study
from .sysid import Sysid
from .train import Train
from .trials import Trials
from .viability import Viability
from .view import View

__all__ = ["main"]

COMMANDS: dict[str, Any] = {
    "demo": Demo,
    "train": Train,
    "eval": Evaluate,
    "play": Play,
    "view": View,
    "plot": Plot,
    "export": Export,
    "audit": Audit,
    "push": Push,
    "pull": Pull,
    "deploy": Deploy,
    "trials": Trials,
    "feasible": Feasible,
    "gains": GainsCommand,
    "select-k0": SelectK0,
    "sysid": Sysid,
    "study": Study,
    "viability": Viability,
    "narrowness": NarrownessCommand,
    "advise": Advise,
    "spot-sim": SpotSim,
    "envs": Envs,
    "doctor": Doctor,
}

_DESCRIPTION = """Actuator Dynamics Curriculum: train with stiff joints, soften them, evaluate at the target.

$ adc train cartpole                     train, evaluate and plot
$ adc view runs/RUN                      watch it live in the browser; push it, soften it
$ adc view POLICY.onnx                   the same with a policy file, and with no more than that file
$ adc play POLICY.onnx --out film.gif    film it
$ adc train TASK --help                  all options, with the values of the task's recipe"""

_EXPECTED = (
    BackendError,
    CheckpointError,
    CurriculumError,
    MissingExtraError,
    RunFolderError,
    TypeError,
    ValueError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 done, 1 failed, 2 misused, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        errors.print(f"adc: unknown command {words[0]!r}. {did_you_mean(words[0], COMMANDS)}", markup=False)
        return 2
    with named_task(words):
        command = tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="adc", description=_DESCRIPTION, args=words)
    warnings.showwarning = lambda message, *_, **__: errors.print(f"warning: {message}", markup=False)
    try:
        code: int = command.run()
    except KeyboardInterrupt as interrupt:
        errors.print(f"adc: interrupted. {interrupt}".rstrip(), markup=False)
        return 130
    except _EXPECTED as error:
        errors.print(f"adc: {error}", markup=False)
        return 1
    except OSError as error:
        if not is_disk_full(error):
            raise
        known = isinstance(error, DiskFullError)
        errors.print(f"adc: {error if known else DiskFullError(Path(error.filename or '.'))}", markup=False)
        return 1
    return code
