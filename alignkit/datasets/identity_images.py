"""Images of identities, such as persons or products, as a folder, a list or a file gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import DataError
from alignkit.samples import ImageReads


class ImagePair(NamedTuple):
    """Two images and whether they show the same identity."""

    first: int
    """Index of an image."""
    second: int
    same: bool
    fold: int
    """0 to 9: the tenth of a cross-validation."""


@dataclass(frozen=True, slots=True)
class IdentityImages:
    """Images with their identities or pairs; bytes are read on demand."""

    names: tuple[str, ...]
    """Of each image; unique."""
    identities: tuple[str, ...]
    """Of each image; empty if only pairs are known."""
    contents: Callable[[], tuple[str, ...]]
    """Returns the SHA-256 of each image's bytes, in hex, or the reason why they cannot be read."""
    reads: Callable[[], ImageReads]
    """Returns the images' bytes, which are not listed or hashed before."""
    pairs: tuple[ImagePair, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __len__(self) -> int:
        return len(self.names)

    def take(self, indices: Sequence[int]) -> Self:
        """Select images, in that order, and the pairs of which both are selected."""
        chosen = tuple(indices)
        place = {index: new for new, index in enumerate(chosen)}
        return replace(
            self,
            names=tuple(self.names[index] for index in chosen),
            identities=tuple(self.identities[index] for index in chosen if self.identities),
            contents=lambda: tuple(map(self.contents().__getitem__, chosen)),
            reads=lambda: self.reads().only(chosen),
            pairs=tuple(
                each._replace(first=place[each.first], second=place[each.second])
                for each in self.pairs
                if each.first in place and each.second in place
            ),
        )

    def classes(self) -> tuple[str, ...]:
        """List the identities, each once, as `in_order`."""
        return in_order({*self.identities})


def in_order(identities: set[str]) -> tuple[str, ...]:
    """Sort identities: by number if all are whole numbers, else as text."""
    if all(each.isascii() and each.isdigit() for each in identities):
        return tuple(sorted(identities, key=lambda each: (int(each), each)))
    return tuple(sorted(identities))


def folds_in_order(pairs: int) -> Iterator[int]:
    """Yield the fold of each pair: tenths in order, the first ones a pair larger if need be."""
    size, larger = divmod(pairs, 10)
    for fold in range(10):
        yield from [fold] * (size + (fold < larger))


def same_bytes_in_both(training: IdentityImages, evaluation: IdentityImages) -> Iterator[str]:
    """Report evaluation images whose bytes are a training image's too."""
    trained = dict(zip(training.contents(), training.names, strict=True))
    both = [
        f"{escaped_name(name)} = {escaped_name(trained[content])}"
        for name, content in zip(evaluation.names, evaluation.contents(), strict=True)
        if content in trained
        and len(content) == 64
        and " " not in content  # a digest and no reason
    ]
    if both:
        yield f"evaluation images that are training images too: {len(both)}, such as {both[0]}"


def require_once(names: Sequence[str], where: Callable[[int], str]) -> None:
    """Raise `DataError` for a name that is there twice; ``where`` tells the place of an index."""
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in seen:
            raise DataError(
                f"{where(index)}: {escaped_name(name)} is there twice, first in "
                f"{where(seen[name])}; remove one"
            )
        seen[name] = index
