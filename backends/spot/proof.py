"""Proof that a robot is a practice robot: an answer that nobody gives who lacks the key of its launcher."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

__all__ = ["CHALLENGE_BYTES", "KEY_FILE", "METHOD", "SERVICE", "answer", "make_key", "proves", "read_key", "write_key"]

SERVICE: Final = "adc_wrappers.PracticeRobot"
METHOD: Final = "Prove"
"""The call that a practice robot answers and a real one does not know."""

KEY_FILE: Final = "practice.key"
"""Name of the key's file, beside the certificate authority of the same robot."""

CHALLENGE_BYTES: Final = 32
_KEY_BYTES: Final = 32


def make_key() -> bytes:
    """Return a new key."""
    return secrets.token_bytes(_KEY_BYTES)


def answer(key: bytes, challenge: bytes) -> bytes:
    """Return what a holder of the key answers to a challenge."""
    return hmac.new(key, SERVICE.encode() + b"\0" + challenge, hashlib.sha256).digest()


def proves(key: bytes, challenge: bytes, response: bytes) -> bool:
    """Whether a response is that of a holder of the key."""
    return hmac.compare_digest(answer(key, challenge), response)


def write_key(folder: Path, key: bytes) -> Path:
    """Write a key for its owner's eyes only; returns the file."""
    path = folder / KEY_FILE
    path.unlink(missing_ok=True)  # an old file may have other permissions
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(key.hex() + "\n")
    return path


def read_key(certificate: str | Path | None) -> bytes | None:
    """Return the key that lies beside a certificate authority; None if there is none that could be one."""
    if certificate is None:
        return None
    try:
        key = bytes.fromhex((Path(certificate).parent / KEY_FILE).read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        return None
    return key if len(key) == _KEY_BYTES else None
