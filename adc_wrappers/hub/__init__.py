"""Sharing policy files through a model hub: a card that writes itself, pushing, and pulling with all checks."""

from .card import model_card
from .sharing import POLICY_NAME, Pulled, ShareError, pull, push

__all__ = ["POLICY_NAME", "Pulled", "ShareError", "model_card", "pull", "push"]
