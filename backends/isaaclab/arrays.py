"""Isaac Lab's arrays as torch tensors, whichever release they come from."""

from __future__ import annotations

from typing import Any

import torch

from adc_wrappers.core.errors import BackendError

__all__ = ["as_tensor", "column_indices", "to_device"]


def as_tensor(values: Any) -> torch.Tensor:
    """Return a view of ``values`` as a torch tensor, on its own device and without a copy.

    Isaac Lab 2.x holds tensors, 3.0 beta Warp arrays, 3.0 its own ``ProxyArray``.
    """
    if isinstance(values, torch.Tensor):
        return values
    view = getattr(values, "torch", None)
    if isinstance(view, torch.Tensor):
        return view
    if hasattr(values, "__cuda_array_interface__") or hasattr(values, "__array_interface__"):
        import warp  # Isaac Lab 3.0 beta brings it

        tensor: torch.Tensor = warp.to_torch(values)
        return tensor
    raise BackendError(f"expected a tensor, a Warp array or a ProxyArray of Isaac Lab, got {type(values).__name__}.")


def column_indices(joint_indices: Any, count: int, device: Any) -> torch.Tensor:
    """Return a group's joints as indices into the robot's; ``slice(None)`` stands for all of them."""
    if isinstance(joint_indices, slice):
        return torch.arange(count, device=device)[joint_indices]
    if isinstance(joint_indices, torch.Tensor):
        return joint_indices.to(device=device, dtype=torch.long)
    return torch.as_tensor(joint_indices, dtype=torch.long, device=device)


def to_device(values: Any, device: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers as a tensor on a device, without waiting for the device."""
    return torch.as_tensor(values, dtype=dtype).to(device, non_blocking=True)
