"""The data of the page's list and viewer: ``data/run.js``, a classic script.

Read from the record and the files it names. Numbers are those of the files, packed; order and
filters of the list are made in the browser. An answer is a number in one list of words, whatever
the task. Two answers in the same words may differ, as one box for another, and two in other words
may not, as masks below the task's limit: so the task says which changed, and the page does not
compare words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.compare.answers import Answers, aligned
from alignkit.compare.class_answers import ClassAnswers, class_name
from alignkit.compare.image_table import LAST, ImageTable, read_image_table
from alignkit.compare.metrics import NO_PREDICTION
from alignkit.place import Place
from alignkit.record import ImageTableFacts, RunRecord, ShownImage, ShownPair
from alignkit.record.diff_document import DiffRecord
from alignkit.record.document import artifact_file
from alignkit.record.picture_facts import COLOURS, pack, script
from alignkit.report.drawn_view import drawn_data
from alignkit.report.shown_view import leading_entry
from alignkit.samples import choose
from alignkit.tasks import stored_answers
from alignkit.text import printable
from alignkit.text.names import Names
from alignkit.text.numbers import count, grouped
from alignkit.text.part_commands import cell_command, image_command, pair_name
from alignkit.text.task_words import capital

# The list is filtered in the browser, which would have to load every name of a million.
LISTED = 10_000
"""Images that a page lists at most."""
CHANGE_KINDS = ("", "worse", "better", "neither", "changed")
"""What a change is, by its number in `turned`; the last where the truth is not known."""
_CLASS_KINDS = ("", "lost", "gained", "moved", "changed")
"""The same of classes, as the list filters by them."""
Both: TypeAlias = tuple[Answers, Answers]
"""Answers of the aligned cell and of another one of its row, with the same seed."""


def viewer_script(record: RunRecord | DiffRecord, folder: Path) -> str:
    """``self.alignkitRun = {…}``; empty where the record names nothing a viewer could show.

    Raises `RecordError` if a file that the record names is missing or damaged.
    """
    if isinstance(record, DiffRecord):  # of pixels alone
        return shown_script([(record.command, record.shown)], Names(record.paths))
    if not (has_list(record) or any(image.pixels for image in record.shown)):
        return ""
    return script("self.alignkitRun", _visible(_content(record, folder)))


def has_list(record: RunRecord) -> bool:
    """Tell whether there is a comparison of predictions, whose images the page can list."""
    return any(cell.predictions and not cell.aligned for cell in record.cells)


def shown_script(made: Sequence[tuple[str, Sequence[ShownImage]]], names: Names) -> str:
    """Return the script of a page that shows images without a list of all; empty without any.

    ``made``: the commands of runs or diffs with the images that each kept; of a pair of paths that
    several kept, the last command counts.
    """
    stored = _stored((each for _, images in made for each in images), names)
    commands: dict[str, str] = {}
    for command, images in made:
        commands |= _commands(command, images)
    content = {"stored": stored, "commands": commands}
    return script("self.alignkitRun", _visible(content)) if stored else ""


def _visible(content: Any) -> Any:
    """Write out what would turn the direction of text, as the templates do."""
    if isinstance(content, dict):
        return {name: _visible(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_visible(value) for value in content]
    return printable(content) if isinstance(content, str) else content


def _content(record: RunRecord, folder: Path) -> dict[str, Any]:
    task, names = record.task, Names(record.paths)
    tables = {
        pair_name(each.reference, each.candidate): read_image_table(
            artifact_file(folder, each.table)
        )
        for each in record.images
    }
    read = {
        cell.key: stored_answers(record, artifact_file(folder, cell.predictions))
        for cell in record.cells
        if cell.predictions
    }
    keys = _compared(record, read)
    seeds = {place: [(read[was], read[now]) for was, now in both] for place, both in keys.items()}
    order = ImageOrder.of(tables, read, [each.id for each in record.shown], [*seeds.values()])
    changes = {place: order.changes(both) for place, both in seeds.items()}
    commands = _commands(record.command, [*record.images, *record.shown_pairs, *record.shown])
    said = said_answers(order, read)
    scored = {key: each for key, each in read.items() if isinstance(each, ClassAnswers)}
    return {
        "ids": [*order.ids],
        "choice": order.choice,
        **said,
        "exact": task.class_scores,
        "kinds": _CLASS_KINDS if task.class_scores else CHANGE_KINDS,
        "colours": COLOURS,
        "pixels": {name: order.measures(table) for name, table in tables.items()},
        "margins": {
            cell.key: pack(order.spread(each.ids, each.margins().astype(np.float32), np.nan))
            for cell in record.cells
            if cell.aligned and (each := scored.get(cell.key))
        },
        "certainty": certainty(record, scored),
        "comparisons": [
            {
                "entry": index,
                "trained": names.short(entry.trained_with),
                "title": names.title(entry),
                "backend": entry.backend,
                "precision": entry.precision,
                "pair": _pair(entry.row.preprocesses[0], entry.evaluated_with, commands),
                "same": entry.row.preprocesses[0] == entry.evaluated_with,
                # a mix has several
                "paths": list(dict.fromkeys([*entry.row.preprocesses, entry.evaluated_with])),
                "command": cell_command(record.command, entry),
                "seeds": keys[entry.place],
                # of 255 levels, by which the list sorts
                "shift": pack(np.ceil(255 * ranks(changes[entry.place][1])).astype(np.uint8)),
                "turned": [pack(each) for each in changes[entry.place][0]],
            }
            for index, entry in enumerate(record.matrix)
            if entry.place in keys
        ],
        # the list begins with its comparison
        "leading": leading_entry(record.matrix, record.headline),
        "seedOf": {each.key: str(each.seed) for each in record.cells if each.key in read},
        "stored": _stored(record.shown, names, folder),
        "commands": commands,
        # a column without a head is left out
        "heads": {} if task.class_scores else {
            "label": "Truth" if said["labels"] else "",
            "before": capital(task.answer),
            "seeds": "Change",
            "margin": "",
        },
    }  # fmt: skip


def _commands(
    command: str, pairs: Iterable[ImageTableFacts | ShownPair | ShownImage]
) -> dict[str, str]:
    """Return pair of paths → the command for one image; the script appends the image's name."""
    both = ((each.reference, each.candidate) for each in pairs)
    return {pair_name(*pair): image_command(command, *pair) for pair in both}


def _compared(record: RunRecord, read: Mapping[str, Answers]) -> dict[Place, list[list[str]]]:
    """Return place → keys of the aligned cell and of its own, seed by seed, where both are read."""
    home = {(cell.row, cell.seed): cell for cell in record.cells if cell.aligned}
    cells: dict[Place, list[list[str]]] = {}
    for cell in record.cells:
        reference = home.get((cell.row, cell.seed))
        if not cell.aligned and cell.key in read and reference and reference.key in read:
            cells.setdefault(cell.place, []).append([reference.key, cell.key])
    return cells


def _pair(trained: str, evaluated: str, measured: Mapping[str, str]) -> str:
    """Name the pair whose pixels were compared, whichever came first; empty if none was."""
    both = pair_name(trained, evaluated), pair_name(evaluated, trained)
    return next((name for name in both if name in measured), "")


def _stored(
    shown: Iterable[ShownImage], names: Names, folder: Path | None = None
) -> list[dict[str, Any]]:
    """Describe each image whose pixels were kept; answers are drawn if ``folder`` is given."""
    return [
        {
            "pair": pair_name(image.reference, image.candidate),
            "reference": names.short(image.reference),
            "candidate": names.short(image.candidate),
            "id": image.id,
            "script": image.pixels.path,
            "pictures": [each.path for each in image.pictures],
            "a": image.sizes[0],
            "b": image.sizes[1],
            "stages": [
                each.model_dump(mode="json", exclude={"pixels", "maps"}, exclude_defaults=True)
                | ({"script": each.pixels.path} if each.pixels else {})
                for each in image.stages
            ],
            "max": image.max_abs,
            "mean": image.mean_abs,
            **(drawn_data(image, names, folder) if folder else {}),
        }
        # an image that is shown for two reasons has one entry here
        for image in {(e.reference, e.candidate, e.id): e for e in shown}.values()
        if image.pixels
    ]


def said_answers(order: ImageOrder, read: Mapping[str, Answers]) -> dict[str, Any]:
    """Return the words of each image's truth and of each cell's answers, as numbers in one list."""
    words: dict[str, int] = {}
    truth: dict[str, str] = {}
    said = {}
    for each in read.values():  # a filter may ask for a class that no image has
        if isinstance(each, ClassAnswers):
            _coded(words, each.outputs)
    for key, each in read.items():
        at = [place for place, name in enumerate(each.ids) if name in order.places]
        ids = [each.ids[place] for place in at]
        truth |= {
            name: each.truth_said(place)
            for place, name in zip(at, ids, strict=True)
            if not truth.get(name)
        }
        said[key] = ids, _coded(words, _said(each, at))
    true = _coded(words, truth.values()) if any(truth.values()) else None
    # the last number that a type has means no image
    dtype = np.min_scalar_type(len(words))
    missing = int(np.iinfo(dtype).max)

    def packed(ids: Sequence[str], numbers: npt.NDArray[Any]) -> dict[str, str]:
        return pack(order.spread(ids, numbers.astype(dtype), missing))

    listed = "\n".join(printable(each).replace("\n", " ") for each in words)
    return {
        "labels": None if true is None else packed([*truth], true),
        "predictions": {key: packed(*each) for key, each in said.items()},
        "words": pack(np.frombuffer(listed.encode(), np.uint8)),
    }


def _said(answers: Answers, at: Sequence[int]) -> list[str]:
    if isinstance(answers, ClassAnswers):  # some hundred times faster than one by one
        names = [*answers.outputs, class_name(answers.outputs, NO_PREDICTION)]
        return [names[each] for each in answers.predicted[np.array(at, np.int64)]]
    return [answers.said(place) for place in at]


def _coded(words: dict[str, int], said: Iterable[str]) -> npt.NDArray[np.int64]:
    return np.array([words.setdefault(each, len(words)) for each in said], np.int64)


def certainty(
    record: RunRecord, read: Mapping[str, ClassAnswers]
) -> dict[str, list[list[float | None]]]:
    """Return each cell's probability and margin of its answers to the shown images, as shown.

    In the order in which the images first occur among the stored ones; see ``rows.js``.
    """
    ids = dict.fromkeys(image.id for image in record.shown if image.pixels)
    found = {}
    for key, each in read.items():
        places = {name: place for place, name in enumerate(each.ids)}
        shown = each.rows(np.array([places[name] for name in ids if name in places], np.int64))
        pairs = {
            name: [_rounded(chance, 3), _rounded(margin, 2)]
            for name, chance, margin in zip(
                shown.ids, shown.top_chances()[:, 0], shown.margins(), strict=True
            )
        }
        found[key] = [pairs.get(name, [None, None]) for name in ids]
    return found


def _rounded(value: float, digits: int) -> float | None:
    return round(float(value), digits) if np.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class ImageOrder:
    """One order of a run's images, in which the page's script reads every array."""

    ids: tuple[str, ...]
    places: dict[str, int]
    choice: str = ""
    """Description of the images that are listed; empty if all are."""

    @classmethod
    def of(
        cls,
        tables: Mapping[str, ImageTable],
        read: Mapping[str, Answers],
        shown: Sequence[str],
        compared: Sequence[Sequence[Both]],
    ) -> ImageOrder:
        """Order images as they first occur in any file; ``compared``: each comparison's seeds.

        Of more than `LISTED` images some are listed: those with pictures, the ones that moved
        most among the changed ones of each comparison, those whose pixels differ most on each pair
        of paths, and others by chance.
        """
        tabled, asked = (each.ids for each in tables.values()), (each.ids for each in read.values())
        whole = cls.ordered(chain(*tabled, *asked, shown))
        if len(whole.ids) <= LISTED:
            return whole
        zeros = np.zeros(len(whole.ids))
        moved = [whole.changes(seeds)[1] for seeds in compared]
        apart = [
            whole.spread(each.ids, np.nan_to_num(each.mean_abs[LAST]), 0)
            for each in tables.values()
        ]
        changed = reduce(np.maximum, map(ranks, moved), zeros)
        pixels = reduce(np.maximum, map(ranks, apart), zeros)
        # half of the list for what changed, a quarter for pixels; the rest is drawn by chance
        chosen = {whole.places[name] for name in shown}
        chosen |= {*_greatest(changed, LISTED // 2), *_greatest(pixels, LISTED // 4)}
        others = [name for place, name in enumerate(whole.ids) if place not in chosen]
        drawn = choose(others, max(0, LISTED - len(chosen)), seed=0)
        listed = [n for place, n in enumerate(whole.ids) if place in chosen or n in drawn]
        every = {whole.ids[place] for place in np.flatnonzero(changed)}
        return cls.ordered(
            listed,
            f"{grouped(len(listed))} of {count(len(whole.ids), 'image')} are listed: "
            f"{grouped(len(every.intersection(listed)))} of the {grouped(len(every))} that changed "
            "in a comparison, those whose pixels differ most, and others by chance. The tables of "
            "this page count every image.",
        )

    @classmethod
    def ordered(cls, names: Iterable[str], choice: str = "") -> ImageOrder:
        """Order images as they first occur."""
        ids = tuple(dict.fromkeys(names))
        return cls(ids, {name: place for place, name in enumerate(ids)}, choice)

    def spread(
        self, ids: Sequence[str], values: npt.NDArray[Any], missing: float
    ) -> npt.NDArray[Any]:
        """Return values of some images as those of all listed ones, ``missing`` for the others."""
        spread = np.full(len(self.ids), missing, values.dtype)
        at = np.array([self.places.get(name, -1) for name in ids], np.int64)
        spread[at[at >= 0]] = values[at >= 0]
        return spread

    def changes(
        self, seeds: Sequence[Both]
    ) -> tuple[list[npt.NDArray[np.uint8]], npt.NDArray[np.float64]]:
        """Return how each image's answer changed, by seed, and how far it moved at most.

        The first are places in `CHANGE_KINDS`; both are 0 where it did not change.
        """
        kinds = [np.zeros(len(self.ids), np.uint8) for _ in seeds]
        moved = np.zeros(len(self.ids))
        for seed, both in enumerate(seeds):
            if set(both[0].ids).isdisjoint(both[1].ids):
                continue
            before, after = aligned(*both)
            found = turned(before, after)
            kinds[seed] = self.spread(before.ids, found, 0)
            apart = np.where(found, np.nan_to_num(before.apart(after), nan=np.inf), 0)
            moved = np.maximum(moved, self.spread(before.ids, apart, 0))
        return kinds, moved

    def measures(self, table: ImageTable) -> dict[str, Any]:
        """Return SSIM of the last pixels; max and mean of every stage."""

        def packed(values: npt.NDArray[Any]) -> dict[str, str]:
            return pack(self.spread(table.ids, values, np.nan))

        stages = [
            {"stage": stage, "max": packed(values), "mean": packed(table.mean_abs[stage])}
            for stage, values in table.max_abs.items()
        ]
        return {"last": LAST, "ssim": packed(table.ssim), "stages": stages}


def turned(before: Answers, after: Answers) -> npt.NDArray[np.uint8]:
    """Tell, (n,), how each image's answer changed: a place in `CHANGE_KINDS`."""
    gain = after.quality() - before.quality()
    found = np.select([~before.changed(after), gain < 0, gain > 0, gain == 0], [0, 1, 2, 3], 4)
    return found.astype(np.uint8)


def ranks(moved: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rank images by how far they moved: 0 for one that did not, 1 for the greatest."""
    levels = np.unique(moved[moved > 0])
    return np.searchsorted(levels, moved, side="right") / max(len(levels), 1)


def _greatest(values: npt.NDArray[Any], most: int) -> list[int]:
    """Return the places of the greatest values above 0, in order where they are equal."""
    order = np.argsort(-values, kind="stable")
    return [int(place) for place in order[: min(most, np.count_nonzero(values))]]
