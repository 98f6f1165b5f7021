"""Several processes as ``torchrun`` starts them, with gloo between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_FOLDERS = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # this room's helpers, and all rooms'
_BEGINNING = f"import sys\nsys.path[:0] = {_FOLDERS}\n"


def run_ranks(script: str, world: int, port: int, *arguments: Any) -> list[tuple[int, str, str]]:
    """Run a script in every rank; return exit codes, outputs and errors."""
    environment = {**os.environ, "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-W", "ignore", "-c", _BEGINNING + script, *map(str, arguments)]
    processes = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(world)
    ]  # fmt: skip
    answers = answers_of(processes, 500.0)
    return [(process.returncode, *answer) for process, answer in zip(processes, answers, strict=True)]


def answers_of(processes: Sequence[subprocess.Popen[str]], seconds: float) -> list[tuple[str, str]]:
    """Return what processes printed and their errors; none is left running, whatever happens."""
    try:
        return [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()


def ranks(script: str, world: int, port: int, *arguments: Any) -> list[Any]:
    """Return what every rank printed last, as JSON."""
    results = run_ranks(script, world, port, *arguments)
    for code, _, errors in results:
        assert code == 0, errors
    return [json.loads(out.splitlines()[-1]) for _, out, _ in results]
