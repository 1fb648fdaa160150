"""`alignkit match --taps DIR`, and the recorder that `--tap-source` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.errors import ConfigError, MissingDependency
from alignkit.progress import Progress, advancing

if TYPE_CHECKING:
    from alignkit.samples import Samples
    from alignkit.search.tap_report import TapReport

_SOURCES = {"python": "tap_recorder.py", "cpp": "tap_recorder.h"}


def print_recorder(language: str) -> None:
    """Print the file to copy beside serving code."""
    from importlib import resources

    print(resources.files("alignkit").joinpath(_SOURCES[language]).read_text("utf-8"), end="")


@dataclass(frozen=True, slots=True)
class AskedTaps:
    """Options of ``match`` that belong to ``--taps``."""

    folder: Path
    stages: Sequence[str]
    """``NAME=STAGE``."""
    preprocess: str
    size: int | None
    names: Mapping[str, Sequence[str]]
    """``decoders`` and ``resizers`` to try."""


def match_taps(asked: AskedTaps, samples: Samples, shown: Progress) -> tuple[str, str]:
    """Judge every recorded stage; return the report as text and as JSON."""
    from alignkit.search.stored_taps import judged_stages, stored_taps
    from alignkit.search.tap_blame import blame, nearest_to_the_last
    from alignkit.search.tap_text import as_json
    from alignkit.search.target import preprocess_of

    folder = asked.folder
    if not folder.is_dir():
        raise ConfigError(f"--taps {folder} is no folder; record with ALIGNKIT_TAPS={folder}")
    taps = stored_taps(folder, samples, dict(map(_named_stage, asked.stages)))
    stages = judged_stages(taps)
    if asked.preprocess:
        reference = preprocess_of(asked.preprocess, asked.size)
        if reason := reference.missing():
            raise MissingDependency(f"--preprocess {asked.preprocess}: {reason}")
    else:
        with shown.stage("match", len(taps.rows), stages[-1].name) as step:
            reference = nearest_to_the_last(taps, samples, advance=advancing(step), **asked.names)
    with shown.stage("judge", len(stages), f"stages of {len(taps.rows)} images") as step:
        report = blame(
            taps, samples, reference,
            given=bool(asked.preprocess), advance=advancing(step), **asked.names,
        )  # fmt: skip
    return _text(report), json.dumps(as_json(report), indent=1)


def _named_stage(text: str) -> tuple[str, str]:
    name, sign, stage = text.rpartition("=")
    if not sign or not name:
        raise ConfigError(f"--stage {text}: give NAME=STAGE")
    return name, stage


def _text(report: TapReport) -> str:
    from alignkit.search.tap_text import HEADINGS, heading, rows, verdict
    from alignkit.text import columns

    return "\n".join([heading(report), columns([HEADINGS, *rows(report)]), verdict(report)])
