"""Readers that are wrong on purpose: the fuzzer must find each of their faults."""

from __future__ import annotations

import os
import time
from random import Random

from .targets import Mutant, Target, expect

__all__ = ["FaultyTarget"]

_FAULTS = ("refuses", "accepts", "foreign", "wrong", "silent", "hang", "crash", "memory")


class FaultyTarget(Target):
    """Every mutant shows one of the faults, by lot."""

    name = "faulty:FaultyTarget"
    errors = (LookupError,)

    def mutate(self, rng: Random) -> Mutant:
        return Mutant(b"", _FAULTS[rng.randrange(len(_FAULTS))])

    def read(self, mutant: Mutant) -> None:
        if mutant.what == "refuses":
            raise LookupError("expected something else")
        if mutant.what == "foreign":
            raise ZeroDivisionError
        if mutant.what == "silent":
            raise LookupError
        if mutant.what == "hang":
            time.sleep(1e6)
        if mutant.what == "crash":
            os.abort()
        if mutant.what == "memory":
            bytearray(2**34)
        expect(mutant.what != "wrong", "accepted with other gains")
