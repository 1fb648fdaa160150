"""Time that `match` takes.

    python benchmarks/match.py [--images 625] [--side 224] [--target pillow-train] [--folder DIR]

625 images are 500 for the search and 125 for the final check. The search covers every configuration
of the base install. Without a folder, JPEGs are cut from scikit-learn's photos.
Target: 200 configurations or more on 500 images in under 2 minutes on 2 cores.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from figures import Figure, show
from prepare import bundled_photos

from alignkit.datasets.unlabelled_images import Images
from alignkit.match import match
from alignkit.match.configurations import configurations
from alignkit.match.match_text import headline
from alignkit.match.target import preprocess_of, preprocess_target
from alignkit.samples import Samples

BASE = {
    "decoders": ("opencv", "pillow", "torchvision", "simplejpeg", "torchpipe"),
    "resizers": ("opencv", "pillow", "torch", "torchvision", "torchpipe"),
}


def photographs(count: int) -> Samples:
    ids = tuple(map(str, range(count)))
    return Samples(ids, (), (), bundled_photos(count).__getitem__, "benchmark")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=625)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--target", default="pillow-train")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--everything", action="store_true", help="include the plugins of extras")
    given = parser.parse_args()
    samples = Images(given.folder).evaluation() if given.folder else photographs(given.images)
    target = preprocess_target(preprocess_of(given.target, given.side))
    only = {} if given.everything else BASE
    if target.geometry.orient == "none" and only:
        only = {**only, "decoders": BASE["decoders"][:-1]}
    began = time.perf_counter()
    tried = configurations(target.geometry, **only)
    found = match(target, samples, range(len(samples)), tried)
    spent = time.perf_counter() - began
    print(headline(found, {}))
    print("; ".join(f"{alive} configurations on {images} images" for images, alive in found.rungs))
    print(f"{found.tried} configurations, {found.images} images: {spent:.1f} s")
    show(
        [
            Figure(
                f"match, {found.tried} configurations on {found.images} images",
                [spent],
                at_most=120,
                unit="s",
            )
        ]
    )


if __name__ == "__main__":
    main()
