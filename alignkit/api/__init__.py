"""The Python interface: `diff`, `run`, `match` and `load_run`, with results as DataFrames.

Each calls the functions that the command of its name calls, takes the same options and raises the
same errors (`alignkit.errors.AlignkitError`). docs/python.md shows them.
"""

from __future__ import annotations

from alignkit.api.diff_result import DiffResult, diff
from alignkit.api.match_result import MatchResult, match
from alignkit.api.run_result import RunResult, load_run, run

__all__ = ["DiffResult", "MatchResult", "RunResult", "diff", "load_run", "match", "run"]
