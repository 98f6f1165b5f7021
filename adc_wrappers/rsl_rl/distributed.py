"""One curriculum over all ranks of a distributed training."""

from __future__ import annotations

import torch

from adc_wrappers.core.episode_totals import EpisodeTotals

__all__ = ["sum_over_ranks"]


def sum_over_ranks(totals: EpisodeTotals) -> EpisodeTotals:
    """Add up the completed episodes of all ranks; the ``combine`` of a curriculum's wrapper under torchrun.

    Every rank must call it once per iteration. Outside a process group the totals come back as they are.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return totals
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    tensor = torch.tensor(totals.sums, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(tensor, op=torch.distributed.ReduceOp.SUM)
    return EpisodeTotals.from_sums(tensor.tolist())
