"""Entry point of the ``adc`` command: finds the subcommand, turns expected errors into one message."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adc_wrappers.core.errors import (
    BackendError,
    CheckpointError,
    CurriculumError,
    MissingExtraError,
    RunFolderError,
    did_you_mean,
)
from adc_wrappers.core.files import DiskFullError, is_disk_full

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["COMMANDS", "Command", "load_command", "main", "read_command"]


class Command(NamedTuple):
    """The place of a subcommand, which is imported only when it is asked for."""

    module: str
    """Its module, beside this one."""

    kind: str
    """Its class."""

    summary: str
    """The first paragraph of its docstring."""


COMMANDS: dict[str, Command] = {
    "demo": Command(
        "demo",
        "Demo",
        "Train with the curriculum and at the target stiffness side by side, evaluate both there, draw and film them.",
    ),
    "train": Command(
        "train", "Train", "Train a policy under the curriculum, evaluate it at the target gains, plot the run."
    ),
    "eval": Command(
        "evaluate",
        "Evaluate",
        "Evaluate a policy with the joints at exactly the target gains; say and draw how episodes ended.",
    ),
    "play": Command("play", "Play", "Show a policy at the target gains: in a window, or as GIF or MP4."),
    "view": Command(
        "view", "View", "Watch a policy, or a task without one, live in the browser or in MuJoCo's window."
    ),
    "plot": Command(
        "plot", "Plot", "Draw stiffness, episode length and success of one or several runs: PNG, and the CSV behind it."
    ),
    "export": Command(
        "export", "Export", "Write a run's newest policy as one ONNX file that says everything needed to run it."
    ),
    "audit": Command(
        "audit",
        "Audit",
        "Measure in simulation what a policy would ask of a robot, and judge it; exit code 1 if it fails.",
    ),
    "push": Command(
        "push",
        "Push",
        "Share a policy on a model hub, with a card that says task, gains, training, evaluation, and a film.",
    ),
    "pull": Command(
        "push", "Pull", "Bring a shared policy here; it is kept only if it passes every check of a policy file."
    ),
    "deploy": Command("deploy", "Deploy", "Run a policy file on a Spot: preflight, then shadow or armed, recorded."),
    "trials": Command("trials", "Trials", "Report recorded trials: success, times, retries, failures, timing."),
    "feasible": Command(
        "feasible",
        "Feasible",
        "Find the smallest action scale α with which joints of stiffness K can hold a stance on two feet.",
    ),
    "gains": Command(
        "gains",
        "GainsCommand",
        "Measure how every joint follows its target, and suggest K, B, the action scale and K_0 with reasons.",
    ),
    "select-k0": Command(
        "select_k0",
        "SelectK0",
        "Choose K_0 by the paper's rule: raise K from the target until a policy trained at that K passes.",
    ),
    "sysid": Command("sysid", "Sysid", "Identify a robot: collect a log, fit parameters, validate them."),
    "study": Command(
        "study", "Study", "Compare conditions over many seeds, with honest statistics, on one machine or many."
    ),
    "viability": Command(
        "viability",
        "Viability",
        "Draw the paper's cart-pole figure, compute the viability kernel, and check the proposition.",
    ),
    "narrowness": Command(
        "narrowness",
        "NarrownessCommand",
        "Estimate ε: the share of states met by random exploration that can still be saved, over the stiffness K.",
    ),
    "advise": Command(
        "advise",
        "Advise",
        "Suggest K_0, L_min and L_max of the curriculum from random exploration at several stiffnesses.",
    ),
    "spot-sim": Command(
        "spot_sim",
        "SpotSim",
        "Start a Spot to practise on: the robot's services on this computer, with simulated physics behind them.",
    ),
    "envs": Command("doctor", "Envs", "List the tasks, the engines they run on, and their settings."),
    "doctor": Command(
        "doctor", "Doctor", "Say what is installed, what is missing, which command needs it, and how to get it."
    ),
}

_DESCRIPTION = "Actuator Dynamics Curriculum: train with stiff joints, soften them, evaluate at the target."
_EXAMPLES = {
    "$ adc train cartpole": "train, evaluate and plot",
    "$ adc view runs/RUN": "watch it live in the browser; push it, soften it",
    "$ adc view POLICY.onnx": "the same with a policy file, and with no more than that file",
    "$ adc play POLICY.onnx --out film.gif": "film it",
    "$ adc train TASK --help": "all options, with the values of the task's recipe",
}

_LISTS = ("--set", "--conditions", "--free", "--validate-with")
"""Options with several values each, which may be given in parts."""

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
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:
        if not _output_is_closed():
            raise
        return 1  # as of `adc … | head`: who read the output has had enough


def _output_is_closed() -> bool:
    """Return whether nobody reads what is printed any more; if so, let the rest of it go nowhere."""
    try:
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"\n")  # what is left in the buffer may be nothing
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains again at its end
        return True
    return False


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        _show_overview()
        return 0 if words else 2
    errors = _error_console()
    if words[0].startswith("-"):
        errors.print(f"adc: expected a command before {words[0]!r}: {', '.join(COMMANDS)}.", markup=False)
        return 2
    if words[0] not in COMMANDS:
        errors.print(f"adc: unknown command {words[0]!r}. {did_you_mean(words[0], COMMANDS)}", markup=False)
        return 2
    command = read_command(words[0], words[1:])
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


def load_command(name: str) -> Any:
    """Import a subcommand and return its class."""
    return getattr(import_module(f".{COMMANDS[name].module}", __package__), COMMANDS[name].kind)


def read_command(name: str, words: Sequence[str]) -> Any:
    """Return a subcommand with its options; help and misuse end the process."""
    import tyro

    from .options import named_task, plain_options

    words = gather(words)
    with named_task((name, *words)), plain_options():
        return tyro.cli(load_command(name), prog=f"adc {name}", args=words)


def gather(words: Sequence[str]) -> list[str]:
    """Return the words with the values of lists that were given in parts put together: the last part is not all.

    >>> gather(["cartpole", "--set", "a=1", "--seed", "0", "--set", "b=2", "c=3"])
    ['cartpole', '--set', 'a=1', 'b=2', 'c=3', '--seed', '0']
    """
    options: list[list[str]] = [[]]
    current = options[0]
    for word in words:
        if word.startswith("--"):
            before = [option for option in options[1:] if option[0] == word and word in _LISTS]
            if before:
                current = before[0]
                continue
            current = []
            options.append(current)
        current.append(word)
    return [word for option in options for word in option]


def _error_console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def _show_overview() -> None:
    """Print what there is without importing any of it, nor what draws tables: nobody waits for a list of commands."""
    width = shutil.get_terminal_size().columns
    parts = (
        "usage: adc [-h] COMMAND ...",
        textwrap.fill(_DESCRIPTION, width),
        _two_columns(_EXAMPLES, width),
        _two_columns({f"  {name}": command.summary for name, command in COMMANDS.items()}, width),
        "adc COMMAND --help shows the options of a command.",
    )
    sys.stdout.write("\n\n".join(parts) + "\n")


def _two_columns(rows: Mapping[str, str], width: int) -> str:
    left = 2 + max(map(len, rows))
    lines = [f"\n{'':{left}}".join(textwrap.wrap(text, max(20, width - left))) for text in rows.values()]
    return "\n".join(f"{head:{left}}{text}" for head, text in zip(rows, lines, strict=True))
