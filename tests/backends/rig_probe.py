"""Arms of a rig whose env speaks torch, moved for proofs by motion."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


class TensorProbe:
    """A probe that moves arms; ``env`` may be wrapped. A subclass says the time step and reads where the joints are."""

    time_step: float

    def __init__(self, env: Any, backend: Any) -> None:
        self.env, self.backend = env, backend
        self.robot = env.unwrapped.scene["robot"]

    def joints(self) -> torch.Tensor:
        return self.robot.data.joint_pos

    def positions(self) -> np.ndarray:
        return self.joints().double().numpy().copy()

    def rest(self) -> np.ndarray:
        self.env.reset()
        return self.positions()

    def move(self, targets: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            self.env.step(torch.as_tensor(targets, dtype=torch.float32))
        return self.positions()
