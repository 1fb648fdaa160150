"""`ReportView`: everything the templates see, computed before the first of them runs."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.progress import duration
from alignkit.record import RunRecord
from alignkit.report.advice_view import AdviceSection, advice_sections
from alignkit.report.attribution_view import AttributionSection, attribution_sections
from alignkit.report.baseline_view import BaselineView, baseline_view
from alignkit.report.class_view import ClassSection, class_sections
from alignkit.report.coverage_view import coverage_tables, coverage_words
from alignkit.report.entries_view import Failure, entries_table, failures, per_seed_table
from alignkit.report.flipped_view import FlippedSection, flipped_sections
from alignkit.report.key_figures import KeyFigure, key_figures
from alignkit.report.matrix_view import EDGES, MatrixView, interval_words, matrix_views
from alignkit.report.mix_view import MixSection, mix_section
from alignkit.report.numeric_view import numeric_table, sessions_table
from alignkit.report.published_view import PublishedSection, published_section
from alignkit.report.run_view import controls_table, data_table, environment_tables, paths_table
from alignkit.report.stage_view import StageSection, stage_sections
from alignkit.report.table import Table
from alignkit.report.training_size_view import SizeSection, size_sections
from alignkit.report.training_view import TrainingSection, training_sections, training_table
from alignkit.report.verdict_view import VerdictView, verdict_view
from alignkit.report.worst_view import WorstGroup, worst_groups
from alignkit.text.names import Names, PathName


@dataclass(frozen=True, slots=True)
class ReportView:
    """The page."""

    alignkit: str
    name: str
    title: str
    started: str
    duration: str
    partial: bool
    verdict: VerdictView
    question: str
    paths: tuple[PathName, ...]
    figures: tuple[KeyFigure, ...]
    matrices: tuple[MatrixView, ...]
    edges: tuple[float, ...]
    entries: Table
    per_seed: Table
    numeric: Table | None
    sessions: Table | None
    failures: tuple[Failure, ...]
    causes: tuple[AttributionSection, ...]
    mix: MixSection | None
    published: PublishedSection | None
    sizes: tuple[SizeSection, ...]
    stages: tuple[StageSection, ...]
    flipped: tuple[FlippedSection, ...]
    advice: tuple[AdviceSection, ...]
    baseline: BaselineView | None
    coverage: str
    coverage_tables: tuple[Table, ...]
    worst: tuple[WorstGroup, ...]
    classes: tuple[ClassSection, ...]
    intervals: str
    """What the drifts' intervals are of."""
    trainings: tuple[TrainingSection, ...]
    training_table: Table | None
    controls: Table | None
    paths_table: Table
    data: Table
    environment: tuple[Table, ...]
    yaml: str
    overrides: tuple[str, ...]
    command: str


def report_view(record: RunRecord) -> ReportView:
    """The page of a run."""
    names = Names(record.paths)
    verdict = verdict_view(record.verdict, names)
    stages = stage_sections(record.pixels, names)
    return ReportView(
        alignkit=record.alignkit,
        name=record.name,
        title=f"{verdict.icon.word}: {record.name}",
        started=record.started.replace("T", " ").split("+")[0].split(".")[0].rstrip("Z"),
        duration=duration(record.seconds),
        partial=record.partial,
        verdict=verdict,
        question=record.question,
        paths=tuple(names.of(path.name) for path in record.paths),
        figures=key_figures(record, names, stages),
        matrices=matrix_views(record, names),
        edges=EDGES,
        entries=entries_table(record, names),
        per_seed=per_seed_table(record, names),
        numeric=numeric_table(record, names),
        sessions=sessions_table(record, names),
        failures=failures(record, names),
        causes=attribution_sections(record, names),
        mix=mix_section(record, names),
        published=published_section(record, names),
        sizes=size_sections(record, names),
        stages=stages,
        flipped=flipped_sections(record, names),
        advice=advice_sections(record, names),
        baseline=baseline_view(record, names),
        coverage=coverage_words(record.coverage, names),
        coverage_tables=coverage_tables(record.coverage, record.coverage_diffs, names),
        worst=worst_groups(record.worst, names, record.command),
        classes=class_sections(record, names),
        intervals=interval_words(record),
        trainings=training_sections(record, names),
        training_table=training_table(record, names),
        controls=controls_table(record),
        paths_table=paths_table(record.paths, names),
        data=data_table(record),
        environment=environment_tables(record),
        yaml=record.yaml,
        overrides=record.overrides,
        command=record.command,
    )
