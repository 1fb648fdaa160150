"""`match`: a serving stack, or what it recorded → `MatchResult`, the nearest configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.api.frames import pandas_module
from alignkit.datasets.unlabelled_images import ImageSource, images_from
from alignkit.experiment.yaml_argument import Stack, path_of
from alignkit.preprocess.presets import PRESETS
from alignkit.progress import ProgressMode, progress_for

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.search.configurations import Configuration
    from alignkit.search.match_result import Match


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
        from alignkit.search.match_text import stage_block

        found = self.match.state != "not found" and not self.names
        return stage_block(self.match.preprocesses[0]) if found else None

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
    change. Raises `ConfigError` for an unknown target, `DataError` for tensors that are no images,
    and `NothingCompared` if no image can be compared.
    """
    from alignkit.search.match_request import MatchRequest, answer

    given = str(target) if isinstance(target, Path) else target
    request = MatchRequest(
        target=path_of(given, given, size=size)
        if isinstance(given, str) and given in PRESETS
        else given,
        samples=images_from(images),
        size=size,
        decoders=decoders,
        resizers=resizers,
        serving=serving,
        model=model,
        tensor=tensor,
        header_env=header_env,
        record=None if record is None else Path(record),
        probe=probe,
        seed=seed,
    )
    found = answer(request, progress_for(progress))
    return MatchResult(found.match, found.names)
