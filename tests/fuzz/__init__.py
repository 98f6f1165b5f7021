"""Mutation fuzzer of every file kind that the library reads: ``python -m tests.fuzz --help``."""

import sys
from pathlib import Path

for room in ("study", "trainers"):  # whose helpers it takes, for a run without pytest
    sys.path.insert(0, str(Path(__file__).parents[1] / room))
