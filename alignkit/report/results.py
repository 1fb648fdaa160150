"""`Results`: what a run or a gate found, for programs; ``results.json``.

A smaller document than the record; ``alignkit check --schema results`` prints its schema. Every
field of the measurement is the record's own, so that the two cannot say different things.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, create_model

from alignkit.record import Count, Finding, RunRecord, Stored, Verdict
from alignkit.text.names import surrogate_notes
from alignkit.text.verdict import verdict_words


class ResultsHead(Stored):
    """Everything that does not need a measurement."""

    format: Literal[3] = 3
    # 1: 2026-11, first format. 2: 2026-11, the verdict holds data, and ``said`` its words.
    # 3: 2026-11, shares and kinds of images are without sentences.
    alignkit: str
    """Version that wrote it."""
    name: str
    question: str | None = None
    command: str
    """Does it again."""
    file: str | None = None
    """The gate's file; ``null`` for a run."""
    exit_code: int
    verdict: Verdict
    said: tuple[str, ...]
    """The verdict in words: sentence, cause and next steps, a line each."""
    surrogates: dict[str, str] = Field(default_factory=dict)
    """Surrogate → what it replaces, and the evidence; every number of such a path is its own."""
    findings: tuple[Finding, ...] = ()
    pending: Count = 0
    """Changed lines that wait for an approval."""
    report: str | None = None
    """The HTML page, for a run relative to this document."""


OF_RECORD = (
    "question", "key", "quick", "started", "seconds", "partial", "environment", "data", "task",
    "paths", "coverage", "coverage_diffs", "controls", "pixels", "spatial", "matrix", "noise_floor",
    "training_sizes", "mixes", "attributions", "flipped", "advice", "baseline",
)  # fmt: skip
"""Fields that are the record's; ``null`` where nothing was measured."""
# optional here: a gate of pixels measures no matrix
_MEASURED: dict[str, Any] = {
    name: (RunRecord.model_fields[name].annotation | None, None)  # type: ignore[operator]
    for name in OF_RECORD
}
Results = create_model(
    "Results",
    __base__=ResultsHead,
    __doc__="One run or gate. What was not measured is ``null`` or empty, its reason beside it.",
    **_MEASURED,
)


def results_from_record(record: RunRecord) -> ResultsHead:
    """Return the results that a run's folder holds beside its page."""
    return Results(
        alignkit=record.alignkit,
        name=record.name,
        command=record.command,
        exit_code=record.verdict.exit_code,
        verdict=record.verdict,
        said=tuple(verdict_words(record.verdict, record).lines),
        report="index.html",
        **measured_fields(record),
    )


def measured_fields(record: RunRecord | None) -> dict[str, Any]:
    """`OF_RECORD` with their values, and ``surrogates``; none without a record."""
    if record is None:
        return {}
    measured = {name: getattr(record, name) for name in OF_RECORD}
    return {**measured, "surrogates": surrogate_notes(record.paths)}


def results_text(results: ResultsHead) -> str:
    """Return the document as it is written and printed."""
    return results.model_dump_json(indent=1) + "\n"


def results_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12."""
    schema = Results.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"alignkit results, format {Results.model_fields['format'].default}",
        # pydantic's title names the class
        **{name: value for name, value in schema.items() if name != "title"},
    }
