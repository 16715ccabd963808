"""Puts tests/given on the path: what several tests are given (strategies and examples of events), and nothing else."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "given"))
