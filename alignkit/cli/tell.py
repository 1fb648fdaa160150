"""Report a user's mistake without ending the command."""

from __future__ import annotations

import sys
from pathlib import Path

from alignkit.errors import AlignkitError, ExitCode


def tell(error: AlignkitError, file: Path) -> ExitCode:
    """Print the error with its file on stderr and return its exit code."""
    located = str(error).startswith((str(file), "--set "))
    print(error if located else f"{file}: {error}", file=sys.stderr)
    return error.exit_code
