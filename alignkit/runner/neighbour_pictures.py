"""Small pictures of the images that neighbours name: `MatrixEntry` → `Thumbnail`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from alignkit.prepare.prepared_sets import Sets
from alignkit.record import MatrixEntry, Neighbours, Thumbnail
from alignkit.record.picture_facts import PICTURE, thumbnail_png, write_file


def neighbour_pictures(
    matrix: Sequence[MatrixEntry], sets: Sets, folder: Path, *, limit: int
) -> tuple[Thumbnail, ...]:
    """Write pictures of queries and their neighbours, as the path of each row's baseline has them.

    For each such path until the next query does not fit into ``limit`` bytes; every comparison's
    first query comes before the second of any.
    """
    paths = {each.row: each.evaluated_with for each in matrix if each.aligned}
    wanted: dict[str, list[tuple[Neighbours, ...]]] = {}
    for each in matrix:
        if each.drift and each.drift.neighbours:
            wanted.setdefault(paths[each.row], []).append(each.drift.neighbours)
    return tuple(
        picture
        for path, lists in wanted.items()
        for picture in _of_path(path, lists, sets, folder, limit)
    )


def _of_path(
    path: str, lists: Sequence[tuple[Neighbours, ...]], sets: Sets, folder: Path, limit: int
) -> Iterator[Thumbnail]:
    samples, prepared = sets.evaluation, sets.evaluated(path)
    places = {name: place for place, name in enumerate(samples.ids)}
    done: set[str] = set()
    for query in filter(None, (each for turn in zip_longest(*lists) for each in turn)):
        new = [name for name in _names(query) if name not in done]
        pictures = [thumbnail_png(prepared.image(places[name])) for name in new]
        limit -= sum(map(len, pictures))
        if limit < 0:
            return
        done.update(new)
        for name, data in zip(new, pictures, strict=True):
            label = samples.classes[samples.labels[places[name]]] if samples.labels else ""
            picture = write_file(folder, PICTURE, data)
            yield Thumbnail(path=path, id=name, label=label, picture=picture)


def _names(query: Neighbours) -> list[str]:
    found = (query.query, *(each.id for each in (*query.before, *query.after)))
    return list(dict.fromkeys(found))
