"""Time that `match` takes with the configurations of the base install, and with 3,000 and more.

    python benchmarks/match.py [--images 625] [--side 224] [--target pillow-train] [--folder DIR]

625 images are 500 for the search and 125 for the final check. The larger search adds configurations
that no option of the command lists but `alignkit.search.match` takes: every decoder and nvJPEG's
model with each of four misread colour matrices, and Pillow's `reducing_gap`. The two searches take
turns. Without a folder, JPEGs are cut from scikit-learn's photos.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

from figures import Figure, alternate, ratios, show
from prepare import bundled_photos

from alignkit.datasets.unlabelled_images import Images
from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
from alignkit.isolation import process_wide
from alignkit.resizers.pillow import PillowResizer
from alignkit.samples import Samples
from alignkit.search import match
from alignkit.search.configurations import Configuration, configurations
from alignkit.search.match_text import headline
from alignkit.search.recolouring import MISREADINGS, RecolouringDecoder
from alignkit.search.target import preprocess_of, preprocess_target

BASE = {
    "decoders": ("opencv", "pillow", "torchvision", "simplejpeg", "torchpipe"),
    "resizers": ("opencv", "pillow", "torch", "torchvision", "torchpipe"),
}


def photographs(count: int) -> Samples:
    ids = tuple(map(str, range(count)))
    return Samples(ids, (), (), bundled_photos(count).__getitem__, "benchmark")


def more_configurations(base: Sequence[Configuration]) -> list[Configuration]:
    """Combine more decoders and resizers than the base install's plugins list, those first."""
    decoders = dict.fromkeys(each.decode for each in base)
    decoders |= dict.fromkeys((NvjpegModelDecoder(), NvjpegModelDecoder("interpolate")))
    misread = [RecolouringDecoder(*each) for each in product(decoders, MISREADINGS)]
    ways = dict.fromkeys((each.resizer, each.rounding) for each in base)
    pillow = [each for each, _ in ways if isinstance(each, PillowResizer)]
    gaps = [replace(each, reducing_gap=gap) for each in pillow for gap in (1.5, 2.0, 3.0)]
    ways |= dict.fromkeys((each, "none") for each in gaps)
    wide = (Configuration(decoder, *way) for way in ways for decoder in (*decoders, *misread))
    return list(dict.fromkeys((*base, *wide)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=625)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--target", default="pillow-train")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--everything", action="store_true", help="include the plugins of extras")
    given = parser.parse_args()
    samples = Images(given.folder).evaluation() if given.folder else photographs(given.images)
    target = preprocess_target(preprocess_of(given.target, given.side))
    only = {} if given.everything else BASE
    if target.geometry.orient == "none" and only:
        only = {**only, "decoders": BASE["decoders"][:-1]}
    base = configurations(target.geometry, **only)
    found = {}

    def search(tried: Sequence[Configuration]) -> None:
        found[len(tried)] = match(target, samples, range(len(samples)), tried)
        process_wide().close()  # so that the workers' time counts

    sizes = {len(tried): tried for tried in (base, more_configurations(base))}
    works = {str(size): partial(search, tried) for size, tried in sizes.items()}
    costs = alternate(works, given.rounds, warm_up=False)
    for each in found.values():
        print(headline(each, {}))
        print(
            "; ".join(f"{alive} configurations on {images} images" for images, alive in each.rungs)
        )
    for size, side in costs.items():
        spent = ", ".join(f"{each.wall:.1f} s ({each.cpu:.1f} s of CPU)" for each in side)
        print(f"{size} configurations: {spent}")
    few, many = ([each.wall for each in side] for side in costs.values())
    (small, large), images = sizes, next(iter(found.values())).images
    show(
        [
            Figure(f"match, {small} configurations, {images} images", few, at_most=22, unit="s"),
            Figure(f"match, {large} configurations, {images} images", many, at_most=60, unit="s"),
            Figure(f"match, {large} / {small} configurations, time", ratios(many, few)),
        ]
    )


if __name__ == "__main__":
    main()
