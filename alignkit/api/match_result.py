"""`match`: a serving stack → `MatchResult`; `match_taps`: its recorded stages → `TapsResult`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.api.diff_result import task_text
from alignkit.api.frames import pandas_module
from alignkit.datasets.unlabelled_images import ImageSource, images_from
from alignkit.experiment.yaml_argument import Stack
from alignkit.progress import ProgressMode, progress_for

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.search.configurations import Configuration
    from alignkit.search.match_result import Match
    from alignkit.search.tap_report import TapReport


@dataclass(frozen=True, slots=True, repr=False)
class MatchResult:
    """The configurations of this machine that come nearest to a serving stack."""

    match: Match
    names: Mapping[Configuration, str]
    """Names of the configurations that are serving options; empty otherwise."""

    @property
    def state(self) -> str:
        """``found``, ``near`` or ``not found``; see docs/match.md."""
        return self.match.state

    @property
    def sentence(self) -> str:
        """The nearest configuration, the distance that remains, and how that was checked."""
        from alignkit.search.match_text import headline

        return headline(self.match, self.names)

    @property
    def facts(self) -> tuple[str, ...]:
        """Facts found about the stack, such as its channel order, each with its evidence."""
        return self.match.facts

    @property
    def preprocess(self) -> dict[str, Any] | None:
        """The nearest as a mapping for ``preprocess:`` and `diff`; ``None`` if none was found."""
        from alignkit.findings.stage_yaml import stage_block

        found = self.match.state != "not found" and not self.names
        return stage_block(self.match.block) if found and self.match.block else None

    @property
    def ranking(self) -> pd.DataFrame:
        """A row for each different result, nearest first; distances in grey levels."""
        from alignkit.search.match_text import as_json

        rows = as_json(self.match, self.names)["ranking"]
        for row in rows:
            mean, churn = row["mean_abs"], row.pop("churn")
            row["configuration"] = row.pop("labels")[0]
            row |= {"mean_abs": mean["value"], "mean_abs_low": mean["low"]}
            row |= {"mean_abs_high": mean["high"], "churn": churn["value"] if churn else None}
            del row["preprocess"]
        first = ("configuration", "mean_abs", "mean_abs_low", "mean_abs_high")
        columns = [*first, *(each for each in rows[0] if each not in first)]
        frame: pd.DataFrame = pandas_module().DataFrame(rows, columns=columns)
        return frame

    def __repr__(self) -> str:
        """Return the sentence."""
        return f"<Match {self.sentence}>"

    def _repr_html_(self) -> str:
        from alignkit.report.notebook import match_html

        return match_html(self.match, self.names)


def match(
    target: Stack | Path,
    images: ImageSource,
    *,
    size: int | None = None,
    decoders: Sequence[str] = (),
    resizers: Sequence[str] = (),
    serving: bool = False,
    model: str | Path | None = None,
    task: str | Mapping[str, Any] = "",
    tensor: str = "",
    header_env: str = "",
    record: str | Path | None = None,
    probe: int = 500,
    seed: int = 0,
    progress: ProgressMode = "none",
) -> MatchResult:
    """Find the configurations of this machine nearest to a serving stack: `alignkit match`.

    ``target`` is a preset's name (of ``size`` pixels, by default 224), a mapping of stages, a
    `Preprocess`, ``FILE.yaml[:PATH]``, a folder of recorded tensors (.npy, .npz), or the address
    of a preprocessing model; ``tensor``, ``header_env`` and ``record`` are for an address alone.
    ``decoders`` and ``resizers`` name those that are tried, ``serving`` searches the options of a
    serving stack that reproduce the target, and ``model``, an ONNX file, adds the predictions that
    change; ``task`` is its task, as of `alignkit.diff`. Raises `ConfigError` for an unknown target,
    `DataError` for tensors that are no images, and `NothingCompared` if no image can be compared.
    """
    from alignkit.search.match_request import MatchRequest, answer

    request = MatchRequest(
        target=str(target) if isinstance(target, Path) else target,
        samples=images_from(images),
        size=size,
        decoders=decoders,
        resizers=resizers,
        serving=serving,
        model=model,
        task=task_text(task),
        tensor=tensor,
        header_env=header_env,
        record=None if record is None else Path(record),
        probe=probe,
        seed=seed,
    )
    found = answer(request, progress_for(progress))
    return MatchResult(found.match, found.names)


@dataclass(frozen=True, slots=True, repr=False)
class TapsResult:
    """Recorded stages of serving code beside those of a reference."""

    report: TapReport

    @property
    def first(self) -> str | None:
        """The first stage that differs; ``None`` if none does."""
        return self.report.first.stage if self.report.first else None

    @property
    def sentence(self) -> str:
        """The stages that differ, by how much and why."""
        from alignkit.search.tap_text import verdict

        return verdict(self.report)

    @property
    def stages(self) -> pd.DataFrame:
        """A row for each recorded stage; distances in grey levels, empty where sizes differ."""
        rows = []
        for each in self.report.stages:
            row: dict[str, Any] = {"stage": each.stage, "tap": each.tap, "state": each.state}
            for name, distance in (("isolated", each.isolated), ("cumulative", each.cumulative)):
                row[f"{name}_mean_abs"] = distance.mean if distance else None
                row[f"{name}_max_abs"] = distance.greatest if distance else None
            rows.append(row | {"causes": "; ".join(cause.text for cause in each.causes)})
        frame: pd.DataFrame = pandas_module().DataFrame(rows)
        return frame

    def __repr__(self) -> str:
        """Return the sentence."""
        return f"<Taps {self.sentence}>"


def match_taps(
    taps: str | Path,
    images: ImageSource,
    *,
    preprocess: Stack | None = None,
    size: int | None = None,
    stages: Mapping[str, str] | None = None,
    decoders: Sequence[str] = (),
    resizers: Sequence[str] = (),
    progress: ProgressMode = "none",
) -> TapsResult:
    """Find the first recorded stage that differs from a reference: `alignkit match --taps`.

    ``taps`` is the folder in which `tap` recorded; ``preprocess`` is the reference, as the target
    of `match`, by default the configuration nearest to the last tap. ``stages`` maps a tap's name
    to its stage, or to ``none``, where the name does not say it. Raises `ConfigError` for an
    unknown name, and `DataError` for a folder without taps of these images.
    """
    from alignkit.search.tap_request import TapRequest, judge_taps

    request = TapRequest(
        Path(taps), images_from(images), preprocess, size, stages or {}, decoders, resizers
    )
    return TapsResult(judge_taps(request, progress_for(progress)))
