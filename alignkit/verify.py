"""Controls: checks of the measurement itself, made with every run.

A/A evaluates one model twice along the same path, everything done anew, and must find exactly zero.
Planted faults (channels swapped, the image shifted by half an output pixel) must be found, and the
right stage named: a comparison that could not see them would call anything aligned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from alignkit.preprocess import Colour, Preprocess, Resize
from alignkit.record import Control

if TYPE_CHECKING:
    from alignkit.arrays import Image, Pixels
    from alignkit.predictions import Predictions
    from alignkit.resizers import Resizer
    from alignkit.samples import Samples

PROBES = 32
"""Images a planted fault is looked for in."""


@dataclass(frozen=True, slots=True)
class HalfPixelShift:
    """A resizer with a planted fault: its sampling grid lies half an output pixel off."""

    inner: Resizer

    def resize(self, image: Image, height: int, width: int) -> Pixels:
        """Shift by half an output pixel (bilinear, edges repeated), then resize as ``inner``."""
        import cv2
        import numpy as np

        right, down = 0.5 * image.shape[1] / width, 0.5 * image.shape[0] / height
        grid = np.array([[1, 0, right], [0, 1, down]], np.float32)
        shifted = cv2.warpAffine(
            image, grid, (image.shape[1], image.shape[0]), borderMode=cv2.BORDER_REPLICATE
        )
        return self.inner.resize(cast("Image", shifted), height, width)

    def version(self) -> str:
        """That of the resizer inside."""
        return self.inner.version()


def swap_channels(path: Preprocess) -> Preprocess:
    """``path`` with red and blue exchanged at its colour stage."""
    if path.colour.space not in ("rgb", "bgr"):
        message = f"{path.name}: a channel swap is planted in rgb or bgr, not {path.colour.space}"
        raise ValueError(message)
    space = "rgb" if path.colour.space == "bgr" else "bgr"
    return replace(path, name=f"{path.name} with channels swapped", colour=Colour(space))


def shift_half_pixel(path: Preprocess) -> Preprocess:
    """``path`` with its resize shifted by half an output pixel."""
    shifted = Resize(
        HalfPixelShift(path.resize.resizer), path.resize.size, path.resize.fit, path.resize.pad
    )
    return replace(path, name=f"{path.name} shifted by half a pixel", resize=shifted)


def check_identity(first: Predictions, second: Predictions) -> Control:
    """A/A: two evaluations of one model along one path, all work done twice."""
    import numpy as np

    same_images = first.ids == second.ids
    differing = (
        int((first.logits.view(np.uint32) != second.logits.view(np.uint32)).sum())
        if same_images
        else first.logits.size
    )
    return Control(
        name="A/A: the same path twice",
        expected="0 logits differ in any bit",
        observed=f"{differing} of {first.logits.size} logits differ"
        + ("" if same_images else "; other images were decoded"),
        passed=differing == 0,
    )


def check_same_pixels(path: Preprocess, samples: Samples) -> Control:
    """A/A on pixels alone: a path compared with itself."""
    from alignkit.compare import compare_preprocess

    diffs = compare_preprocess(path, path, _probes(samples))
    found = diffs.first_divergence
    return Control(
        name="A/A: the same path twice, pixels",
        expected="no stage differs",
        observed=f"{found} differs" if found else "no stage differs",
        passed=found is None,
    )


def check_planted_faults(path: Preprocess, samples: Samples) -> tuple[Control, ...]:
    """Channels swapped, and half a pixel of shift: each must be found where it was planted."""
    return tuple(
        _found_at(stage, path, faulty, samples)
        for stage, faulty in (
            ("colour", swap_channels(path)),
            ("resize", shift_half_pixel(path)),
        )
    )


def _found_at(stage: str, path: Preprocess, faulty: Preprocess, samples: Samples) -> Control:
    from alignkit.compare import compare_preprocess

    found = compare_preprocess(path, faulty, _probes(samples)).first_divergence
    return Control(
        name=f"planted fault: {faulty.name}",
        expected=f"{stage} named as the first stage that differs",
        observed=f"{found} named" if found else "nothing found",
        passed=found == stage,
    )


def _probes(samples: Samples) -> Samples:
    return samples.take(range(min(PROBES, len(samples))))
