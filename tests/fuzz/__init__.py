"""Mutation fuzzer of every file kind that the library reads: ``python -m tests.fuzz --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests' helpers, for a run without pytest
