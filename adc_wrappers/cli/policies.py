"""A policy that a command was given: a run folder, or a file that ``adc export`` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from adc_wrappers.runs import RunFolder, RunFolderError

if TYPE_CHECKING:
    from adc_wrappers.policy import Policy
    from adc_wrappers.training import TrainedPolicy

__all__ = ["is_policy_file", "open_policy"]


def is_policy_file(path: Path) -> bool:
    """Whether ``path`` names a policy file rather than a run folder."""
    return path.suffix == ".onnx"


def open_policy(path: Path, device: str | None = None) -> TrainedPolicy | Policy:
    """Return the newest policy of a run folder, or the policy of an ``.onnx`` file.

    Both have ``config``, ``steps`` and ``curriculum``, and are called with a batch of observations for a batch of
    actions.

    Args:
        path: The run folder or file.
        device: Where a run's simulator of tensors is to run from now on; by default where it ran.
    """
    if is_policy_file(path):
        from adc_wrappers.policy import load

        return load(path)
    if path.is_file():
        raise RunFolderError(f"{path} is a file; expected a run folder, or a policy that ends in .onnx.")
    from adc_wrappers.training import load_trained

    return load_trained(RunFolder.open(path), device)
