"""OpenMetrics text, as GitLab's metrics report and Prometheus read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from alignkit.gate.outputs import GateResult

PIXELS = {
    "mean_abs": "Mean absolute difference of a stage alone, in its own units",
    "max_abs": "Greatest difference of a stage alone, in its own units",
    "share_differing": "Share of pixels that differ at a stage alone",
}


@dataclass(frozen=True, slots=True)
class Metrics:
    """The verdict's exit code, and the measurements of every stage and matrix entry."""

    def render(self, result: GateResult) -> str:
        """Return the lines; a missing measurement has none."""
        lines = [
            "# TYPE alignkit_exit_code gauge",
            "# HELP alignkit_exit_code What the gate ended with; 0 is a pass",
            f"alignkit_exit_code{_labels(gate=result.name)} {result.exit_code}",
            *_pixels(result),
            *_matrix(result),
            "# EOF",
        ]
        return "\n".join(lines) + "\n"


def _pixels(result: GateResult) -> Iterator[str]:
    stages = result.record.pixels if result.record else ()
    for field, words in PIXELS.items():
        rows = [
            (stage, getattr(stage, field))
            for stage in stages
            if stage.mode == "isolated" and getattr(stage, field) is not None
        ]
        if rows:
            yield f"# TYPE alignkit_stage_{field} gauge"
            yield f"# HELP alignkit_stage_{field} {words}"
        for stage, value in rows:
            labels = _labels(
                gate=result.name,
                reference=stage.reference,
                candidate=stage.candidate,
                stage=stage.stage,
            )
            yield f"alignkit_stage_{field}{labels} {value:.9g}"


def _matrix(result: GateResult) -> Iterator[str]:
    entries = [each for each in (result.record.matrix if result.record else ()) if each.drift]
    if entries:
        yield "# TYPE alignkit_drift gauge"
        yield "# HELP alignkit_drift Candidate minus reference, as a fraction"
    for entry in entries:
        assert entry.drift is not None
        found = {"churn": entry.drift.churn, **entry.drift.metrics}
        for metric, estimate in found.items():
            if estimate.value is None:
                continue
            labels = _labels(gate=result.name, **entry.place.fields, metric=metric)
            yield f"alignkit_drift{labels} {estimate.value:.9g}"


def _labels(**labels: str) -> str:
    told = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + told + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
