"""Published figures → the same entries and differences here, and whether the differences hold.

A published difference is read by its direction alone: its size belongs to other data. It holds here
if the paired interval lies clear of zero on the same side, and beyond the noise floor of seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from alignkit.experiment.report_option import Published, PublishedRowOption
from alignkit.place import Column, Place, Row
from alignkit.record import (
    Claim,
    Estimate,
    MatrixEntry,
    NoiseFloor,
    PublishedFacts,
    PublishedRow,
    SizeCurve,
)
from alignkit.record.outside_facts import Reading, RowHere
from alignkit.text.names import Names, why_not


@dataclass(frozen=True, slots=True)
class _Change:
    """A published row, the row it is compared with, and the entry of this run, if there is one."""

    row: PublishedRowOption
    base: PublishedRowOption
    entry: MatrixEntry | None

    @property
    def words(self) -> str:
        return f"{self.row.inference} instead of {self.base.inference}"

    def published(self, metric: str) -> float:
        return self.row.metrics[metric] - self.base.metrics[metric]  # type: ignore[index]

    def metrics(self) -> list[str]:
        return [each for each in self.row.metrics if each in self.base.metrics]


def published_facts(
    published: Published | None,
    *,
    matrix: Sequence[MatrixEntry],
    floors: Sequence[NoiseFloor],
    curves: Sequence[SizeCurve],
    names: Names,
) -> PublishedFacts | None:
    """Compare the published table with this run; ``None`` if the experiment names none."""
    if published is None:
        return None
    entries = [(row, _entry(row, matrix)) for row in published.rows]
    changes = list(_changes(entries))
    return PublishedFacts(
        source=published.source,
        label=published.label,
        note=published.note,
        rows=tuple(_row(row, entry, names) for row, entry in entries),
        claims=(
            *_drifts(changes, floors, names),
            *_amplifications(changes, floors, curves, names),
        ),
    )


def _trained(row: PublishedRowOption) -> Row:
    return Row((row.trained_with,), row.fraction)


def _entry(row: PublishedRowOption, matrix: Sequence[MatrixEntry]) -> MatrixEntry | None:
    of_row = [each for each in matrix if each.row == _trained(row)]
    served = [each for each in of_row if each.evaluated_with == row.evaluated_with]
    if row.backend is None:
        runtimes = [(each.backend, each.precision) for each in of_row if each.aligned]
        served = [each for each in served if (each.backend, each.precision) in runtimes]
    else:  # in the record a backend's options follow its name
        served = [each for each in served if each.backend.split(" ")[0] == row.backend]
    return next((each for each in served if row.precision in (None, each.precision)), None)


def _row(row: PublishedRowOption, entry: MatrixEntry | None, names: Names) -> PublishedRow:
    column = Column(row.evaluated_with, row.backend or "", row.precision or "")
    place = entry.place if entry else Place(_trained(row), column)
    here = RowHere(
        **place.fields,
        state=entry.state if entry else "absent",
        metrics={each: entry.metrics.get(each) if entry else None for each in row.metrics},
        reason="" if entry is not None and entry.ran else _why_not(entry),
        simulation=entry.simulation if entry else "",
        surrogates=names.replaced(row.trained_with, row.evaluated_with),
    )
    return PublishedRow(
        training=row.training, inference=row.inference, published=dict(row.metrics), here=here
    )


def _why_not(entry: MatrixEntry | None) -> str:
    return why_not(entry) if entry else "not part of this run"


def _changes(entries: Sequence[tuple[PublishedRowOption, MatrixEntry | None]]) -> Iterator[_Change]:
    """Compare each row with the first of the same training that was served as it was trained."""
    bases: dict[Row, PublishedRowOption] = {}
    for row, _ in entries:
        if row.evaluated_with == row.trained_with and row.backend is row.precision is None:
            bases.setdefault(_trained(row), row)  # of equal rows the first of the table
    for row, entry in entries:
        base = bases.get(_trained(row))
        if base is not None and base is not row:
            yield _Change(row, base, entry)


def _drifts(
    changes: Sequence[_Change], floors: Sequence[NoiseFloor], names: Names
) -> Iterator[Claim]:
    for change in changes:
        words = f"{change.row.training}: {change.words}"
        for metric in change.metrics():
            floor = _floor([_trained(change.row)], metric, floors)
            measured = _drift(change.entry, metric)
            claim = read_claim(words, metric, change.published(metric), measured, floor)
            yield _labelled(claim, change.entry, names)


def _labelled(claim: Claim, entry: MatrixEntry | None, names: Names) -> Claim:
    """Add the surrogates and the simulation that a claim is read against to its reason."""
    if entry is None or claim.here.value is None:
        return claim
    found = names.replaced(entry.trained_with, entry.evaluated_with)
    words = [f"{path} is a surrogate of {real}" for path, real in found.items()]
    words += [entry.simulation] if entry.simulation else []
    why = "; ".join((claim.why, *words))
    return claim.model_copy(update={"why": why, "emulated": bool(words)})


def _drift(entry: MatrixEntry | None, metric: str) -> Estimate:
    if entry is None or not entry.ran:
        return unmeasured(_why_not(entry))
    if entry.drift is None:
        return unmeasured("it is the baseline itself")
    return entry.drift.metrics.get(metric) or unmeasured("the metric was not measured")


def _amplifications(
    changes: Sequence[_Change],
    floors: Sequence[NoiseFloor],
    curves: Sequence[SizeCurve],
    names: Names,
) -> Iterator[Claim]:
    """Yield the change with fewer training images minus that with more, per path and runtime."""
    for one, other in combinations(changes, 2):
        few, many = sorted((one, other), key=lambda each: each.row.fraction)
        places = {
            (row.trained_with, row.evaluated_with, row.backend, row.precision)
            for row in (few.row, many.row)
        }
        if few.row.fraction == many.row.fraction or len(places) > 1:
            continue
        words = f"{few.words}: its effect after {few.row.training}, less after {many.row.training}"
        for metric in few.metrics():
            before, after = many.published(metric), few.published(metric)
            floor = _floor([_trained(few.row), _trained(many.row)], metric, floors)
            curve = _curve(curves, few.entry, many.entry, metric)
            if curve is None:
                missing = unmeasured("models were not trained on these shares of the data")
                yield read_claim(words, metric, after - before, missing, floor)
                continue
            fewest, most = (abs(curve.points[end].drift.value or 0.0) for end in (0, -1))
            grew = fewest > most
            same = grew == (abs(after) > abs(before))
            claim = read_claim(words, metric, after - before, curve.change, floor, same=same)
            yield _labelled(claim, few.entry, names)


def _curve(
    curves: Sequence[SizeCurve], few: MatrixEntry | None, many: MatrixEntry | None, metric: str
) -> SizeCurve | None:
    """Find the curve whose ends are the two entries."""
    if few is None or many is None:
        return None
    wanted = metric, Place(Row(many.row.preprocesses), few.column), few.fraction, many.fraction
    for each in curves:
        if wanted == (each.metric, each.place, each.points[0].fraction, each.points[-1].fraction):
            return each
    return None


def _floor(rows: Sequence[Row], metric: str, floors: Sequence[NoiseFloor]) -> float | None:
    known = [
        each.metrics[metric]
        for each in floors
        if Row.parse(each.preprocess) in rows and metric in each.metrics
    ]
    # a difference of two rows has the noise of both
    return max(known) if len(known) == len(rows) else None


def read_claim(
    words: str,
    metric: str,
    published: float,
    measured: Estimate,
    floor: float | None,
    *,
    same: bool | None = None,
) -> Claim:
    """Read a published difference against the measured one; fractions, candidate minus reference.

    ``floor`` is the noise floor of seeds, ``None`` if one seed was trained. ``same`` says whether
    the measured difference has the published direction; by default their signs decide.
    """
    published = round(published, 6)  # a difference of decimal figures is one too
    if same is None:
        same = published * (measured.value or 0.0) > 0
    reading, why = _reading_of(published, measured, floor, same=same)
    return Claim(
        words=words,
        metric=metric,
        published=published,
        here=measured,
        floor=floor,
        reading=reading,
        why=why,
    )


def unmeasured(reason: str) -> Estimate:
    """Return an estimate without a value, with the reason."""
    return Estimate(value=None, low=None, high=None, reason=reason or "not measured")


def _reading_of(
    published: float, measured: Estimate, floor: float | None, *, same: bool
) -> tuple[Reading, str]:
    if measured.value is None:
        return "not measured", measured.reason
    # an exact zero, not one inside an interval
    nothing = measured.value == measured.low == measured.high == 0
    if nothing and published == 0:
        return "holds here", "it changes nothing here either"
    if floor is not None and abs(measured.value) <= floor:
        why = "it changes nothing here" if nothing else "another seed alone does as much"
        return "inside the noise floor", why
    if nothing:
        return "does not hold here", "it changes nothing here"
    return _by_interval(measured, same=same)


def _by_interval(measured: Estimate, *, same: bool) -> tuple[Reading, str]:
    if measured.low is None or measured.high is None:
        return "undecided", measured.reason or "there is no interval"
    if measured.low <= 0 <= measured.high:
        return "undecided", "the interval contains 0"
    side = "same" if same else "other"
    clear = f"the interval is clear of zero, on the {side} side"
    return ("holds here" if same else "does not hold here"), clear
