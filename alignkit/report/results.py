"""`Results`: what a run or a gate found, for programs; ``results.json``.

A smaller document than the record, with a published schema (``alignkit schema --results``). Every
field of the measurement is the record's own, so that the two cannot say different things.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from alignkit.record import (
    AdviceFacts,
    AttributionFacts,
    BaselineFacts,
    Control,
    Coverage,
    CoverageDiff,
    DataFacts,
    Environment,
    FlippedFacts,
    MatrixEntry,
    MixFacts,
    NoiseFloor,
    PathFacts,
    PixelStage,
    PublishedFacts,
    RunRecord,
    SizeCurve,
    Verdict,
)

FORMAT: Literal[1] = 1
# 1: 2026-11, first format.


class _Read(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FindingFacts(_Read):
    """Something to say about a line of the experiment's file."""

    file: str
    line: Annotated[int, Field(ge=0)]
    """From 1; 0 for the file as a whole."""
    column: int
    level: Literal["error", "warning"]
    rule: str
    message: str


class Results(_Read):
    """One run or gate. What was not measured is ``null`` or empty, with its reason beside it."""

    format: Literal[1] = FORMAT
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
    findings: tuple[FindingFacts, ...] = ()
    pending: Annotated[int, Field(ge=0)] = 0
    """Changed lines that wait for an approval."""
    report: str | None = None
    """The HTML page, for a run relative to this document."""
    key: str | None = None
    """Content hash of the plan; this and all below ``null`` where nothing was measured."""
    started: str | None = None
    """UTC, ISO 8601."""
    seconds: float | None = None
    partial: bool | None = None
    """Interrupted before every cell was done."""
    environment: Environment | None = None
    data: DataFacts | None = None
    paths: tuple[PathFacts, ...] | None = None
    """Reference first."""
    coverage: tuple[Coverage, ...] | None = None
    coverage_diffs: tuple[CoverageDiff, ...] | None = None
    controls: tuple[Control, ...] | None = None
    pixels: tuple[PixelStage, ...] | None = None
    matrix: tuple[MatrixEntry, ...] | None = None
    noise_floor: tuple[NoiseFloor, ...] | None = None
    training_sizes: tuple[SizeCurve, ...] | None = None
    mixes: tuple[MixFacts, ...] | None = None
    published: PublishedFacts | None = None
    """Figures of others; nothing else in this document holds any."""
    attributions: tuple[AttributionFacts, ...] | None = None
    flipped: tuple[FlippedFacts, ...] | None = None
    advice: tuple[AdviceFacts, ...] | None = None
    baseline: BaselineFacts | None = None


OF_RECORD = (
    "question", "key", "started", "seconds", "partial", "environment", "data", "paths", "coverage",
    "coverage_diffs", "controls", "pixels", "matrix", "noise_floor", "training_sizes",
    "mixes", "published", "attributions", "flipped", "advice", "baseline",
)  # fmt: skip


def results_from_record(record: RunRecord) -> Results:
    """What a run's folder holds beside its page."""
    return Results(
        alignkit=record.alignkit,
        name=record.name,
        command=record.command,
        exit_code=record.verdict.exit_code,
        verdict=record.verdict,
        report="index.html",
        **_measured(record),
    )


def _measured(record: RunRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in OF_RECORD}


def results_text(results: Results) -> str:
    """The document, as it is written and printed."""
    return results.model_dump_json(indent=1) + "\n"


def results_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12."""
    schema = Results.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"alignkit results, format {FORMAT}",
        **{name: value for name, value in schema.items() if name != "title"},
    }
