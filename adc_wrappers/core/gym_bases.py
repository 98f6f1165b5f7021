"""Base classes of the wrappers, with their type arguments where the installed Gymnasium knows them.

``VectorWrapper`` takes type arguments at run time only since Gymnasium 1.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.vector import VectorWrapper

__all__ = ["ActionWrapperBase", "VectorWrapperBase", "WrapperBase"]

if TYPE_CHECKING:
    WrapperBase = gym.Wrapper[Any, Any, Any, Any]
    ActionWrapperBase = gym.ActionWrapper[Any, Any, Any]
    VectorWrapperBase = VectorWrapper[Any, Any, Any, Any, Any]
else:
    WrapperBase = gym.Wrapper
    ActionWrapperBase = gym.ActionWrapper
    VectorWrapperBase = VectorWrapper
