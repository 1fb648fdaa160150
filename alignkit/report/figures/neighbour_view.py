"""View of a query's most similar images before and after, with small pictures of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alignkit.record import Neighbour, Neighbours, Thumbnail
from alignkit.text.numbers import written


@dataclass(frozen=True, slots=True)
class NearImage:
    """An image that is shown small."""

    id: str
    label: str
    """Empty if it is not known."""
    name: str
    """The id without the folders, where the label is one of them."""
    source: str
    """Of its picture; empty if none was kept."""
    similarity: str
    """Empty for the query itself."""
    kind: str
    """``right`` or ``wrong`` as a class of the style sheet; empty where that is not known."""
    sign: str
    """The same as a sign."""
    said: str
    """The same in words, for readers who do not see the sign."""


@dataclass(frozen=True, slots=True)
class NearCard:
    """A query with its first neighbours on both sides."""

    query: NearImage
    sides: tuple[tuple[str, tuple[NearImage, ...]], ...]
    """Name of a side, and the images nearest first."""


def near_cards(
    found: Sequence[Neighbours], sides: tuple[str, str], pictures: Mapping[str, Thumbnail]
) -> tuple[NearCard, ...]:
    """Return a card for each query; ``pictures`` by the id of the image."""
    return tuple(
        NearCard(
            _image(each.query, pictures),
            tuple(
                (name, tuple(_neighbour(near, pictures) for near in side))
                for name, side in zip(sides, (each.before, each.after), strict=True)
            ),
        )
        for each in found
    )


def _image(id: str, pictures: Mapping[str, Thumbnail], **more: str) -> NearImage:  # noqa: A002
    known = pictures.get(id)
    words = {"similarity": "", "kind": "", "sign": "", "said": ""} | more
    label = known.label if known else ""
    name = id.rpartition("/")[2] if label in id.split("/")[:-1] else id
    return NearImage(id, label, name, known.picture.path if known else "", **words)


def _neighbour(near: Neighbour, pictures: Mapping[str, Thumbnail]) -> NearImage:
    kinds = {True: ("right", "✓", "right"), False: ("wrong", "✕", "wrong"), None: ("", "", "")}
    kind, sign, said = kinds[near.right]
    similarity = written(near.similarity, ".4f")  # neighbours are often nearly as similar
    return _image(near.id, pictures, similarity=similarity, kind=kind, sign=sign, said=said)
