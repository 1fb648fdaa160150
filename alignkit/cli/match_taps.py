"""The text of `alignkit match --taps DIR`, and the recorder that `--tap-source` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignkit.errors import ConfigError

if TYPE_CHECKING:
    from alignkit.search.tap_report import TapReport

_SOURCES = {"python": "tap_recorder.py", "cpp": "tap_recorder.h"}


def print_recorder(language: str) -> None:
    """Print the file to copy beside serving code."""
    from importlib import resources

    print(resources.files("alignkit").joinpath(_SOURCES[language]).read_text("utf-8"), end="")


def named_stage(text: str) -> tuple[str, str]:
    """Read ``NAME=STAGE``."""
    name, sign, stage = text.rpartition("=")
    if not sign or not name:
        raise ConfigError(f"--stage {text}: give NAME=STAGE")
    return name, stage


def taps_text(report: TapReport) -> str:
    """Return what was recorded, a line for each stage, and the first that differs."""
    from alignkit.search.tap_text import HEADINGS, heading, rows, verdict
    from alignkit.text import columns

    return "\n".join([heading(report), columns([HEADINGS, *rows(report)]), verdict(report)])
