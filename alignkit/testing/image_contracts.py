"""The contracts in `alignkit.decoders`, `alignkit.resizers` and `alignkit.datasets` as tests."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt
import pytest

from alignkit.annotations import Annotation, Boxes, Mask
from alignkit.arrays import Image
from alignkit.datasets import DATASETS, Dataset
from alignkit.decoders import DECODERS, Decoded, DecodeOutcome, Decoder
from alignkit.decoders.exif import exif_orientation
from alignkit.machine import without_messages
from alignkit.plugins import PluginTable, name_of
from alignkit.preprocess.image_header import declared_size
from alignkit.resizers import RESIZERS, Resizer
from alignkit.samples import Samples, Split
from alignkit.studies.calibrate import by_pillow
from alignkit.studies.calibrate.recorder_file import picture, recorder_jpegs

UNREADABLE = (
    b"", b"\xff", b"this is no image" * 20, bytes(4096), b"\xff\xd8\xff\xe0", b"\xff\xd8\xff\xd9",
    b"\x89PNG\r\n\x1a\n",
)  # fmt: skip
"""Bytes that are no image."""
HARMED = (
    "420-baseline-smooth-48x32.jpg", "420-progressive-smooth-35x21.jpg",
    "grey-baseline-smooth-35x21.jpg", "cmyk",
)  # fmt: skip
"""Kinds of JPEG whose files are damaged."""
OPTIONAL = ("cmyk",)
"""Kinds of JPEG that a decoder may leave as unsupported."""
TARGETS = ((24, 32), (130, 200), (97, 61), (61, 97), (2, 97))
"""Shrunk, enlarged, squashed, unchanged, and two rows."""
_SIZE = 61, 97
_COLOUR = (200, 100, 30)
_READ = 20
"""Images of a data set whose bytes are read."""
_MAJOR_MINOR = r"(?<![\d.])\d+\.\d+"
"""Regular expression of the first two numbers of a version."""


class PluginContract:
    """Tests that every family has."""

    plugin: Any
    table: ClassVar[PluginTable]

    def test_names_the_library_that_ran(self) -> None:
        """Check that ``version()`` names what runs, in a version that cache keys hold too.

        A key that holds only the package's own version would keep results of an older library.
        """
        said, name = self.plugin.version(), name_of(self.plugin, self.table)
        assert isinstance(said, str)
        assert said
        keyed = self.table[name].version() if name in self.table else ""
        # a wheel's number may go on where the library's ends: 5.0.0.93
        numbers = re.findall(_MAJOR_MINOR, keyed)
        assert not keyed or not {*numbers}.isdisjoint(re.findall(_MAJOR_MINOR, said)), (
            f"version() says {said!r}, and cache keys hold {keyed!r}: name the distribution whose "
            "code runs in the entry point's Plugin, and its version in version()"
        )


class DecoderContract(PluginContract):
    """Tests of a decoder, on JPEG files made here."""

    plugin: Decoder
    table = DECODERS
    files: Sequence[bytes] = ()
    """Valid files of another format, for a decoder that reads no JPEG."""

    def test_gives_owned_rgb_pixels_of_valid_files(self) -> None:
        named = {f"file {index}": encoded for index, encoded in enumerate(self.files)}
        for kind, encoded in (named or jpegs()).items():
            decoded, again = self.plugin.decode(encoded), self.plugin.decode(encoded)
            check_decoded(decoded)
            if kind in OPTIONAL and decoded.outcome == "unsupported":
                continue
            assert decoded.outcome == "ok", f"{kind}, a valid file, is {decoded.outcome}"
            assert decoded.image is not None
            assert again.image is not None, f"{kind}: a second decode gives no image"
            assert not np.shares_memory(decoded.image, again.image), "both share their memory"
            assert np.array_equal(decoded.image, again.image), f"{kind}: two decodes differ"

    def test_ends_in_an_outcome_for_damaged_files_and_what_is_no_image(self) -> None:
        made = jpegs()
        harmed = [each for kind in HARMED for each in damaged(made[kind])]
        for encoded in (*UNREADABLE, *made.values(), *harmed):
            with without_messages():
                found = self.plugin.decode(encoded)
            check_decoded(found)
            assert encoded not in UNREADABLE or found.image is None, f"{encoded[:16]!r} is no image"

    def test_gives_the_channels_in_the_order_red_green_blue(self) -> None:
        plain = np.full((16, 16, 3), _COLOUR, np.uint8)
        seen = self._pixels(by_pillow(plain, quality=100))[8, 8].tolist()
        assert seen == pytest.approx(_COLOUR, abs=2)

    def test_turns_by_exif_only_if_its_class_says_so(self) -> None:
        turns = getattr(self.plugin, "orients", False)
        size = self._pixels(jpegs()["exif-6"]).shape[:2]
        assert size == (_SIZE[::-1] if turns else _SIZE), f"its class says orients = {turns}"

    def test_may_be_called_from_threads(self) -> None:
        _check_threads(self._pixels, [jpegs()[kind] for kind in HARMED[:3]])

    def _pixels(self, encoded: bytes) -> Image:
        image = self.plugin.decode(encoded).image
        return pytest.skip("it decodes no JPEG") if image is None else image


class ResizerContract(PluginContract):
    """Tests of a resizer."""

    plugin: Resizer
    table = RESIZERS

    def test_gives_the_size_asked_for_and_leaves_its_input_alone(self) -> None:
        for height, width in TARGETS:
            image, frozen = (picture("smooth", *_SIZE) for _ in range(2))
            resized = self.plugin.resize(image, height, width)
            assert resized.shape == (height, width, 3)
            assert resized.dtype in (np.uint8, np.float32)
            assert np.array_equal(image, frozen), "it writes to its input"
            assert not np.shares_memory(resized, image), "it returns memory of its input"
            frozen.flags.writeable = False
            strided = np.ascontiguousarray(image[..., ::-1])[..., ::-1]
            for given in (frozen, strided):
                assert np.array_equal(self.plugin.resize(given, height, width), resized)

    def test_keeps_a_plain_image_plain(self) -> None:
        plain = np.full((40, 50, 3), _COLOUR, np.uint8)
        assert np.abs(self.plugin.resize(plain, 17, 23) - plain[0, 0].astype(float)).max() < 1e-3

    def test_keeps_rows_columns_and_channels_apart(self) -> None:
        image = np.zeros((80, 120, 3), np.uint8)
        image[:20, :60, 0] = 255
        resized = self.plugin.resize(image, 20, 20)
        # away from the corner's edge, which a wide filter blurs
        assert resized[:2, :6, 0].min() > 250
        assert max(resized[9:].max(), resized[:, 14:].max()) < 5
        assert not resized[..., 1:].any(), "an empty channel is filled"

    def test_may_be_called_from_threads(self) -> None:
        images = [picture("smooth", *_SIZE), picture("smooth", 40, 120), picture("noise", *_SIZE)]
        _check_threads(lambda image: self.plugin.resize(image, 30, 40), images)


class DatasetContract(PluginContract):
    """Tests of a data set."""

    plugin: Dataset
    table = DATASETS

    def test_has_unique_ids_labels_in_its_classes_and_annotations_as_it_says(self) -> None:
        truth = getattr(self.plugin, "truth", "class")  # of a plugin that extends no `Dataset`
        for samples in self._splits():
            known = {*range(len(samples.classes))}
            assert len(set(samples.ids)) == len(samples), "ids are not unique"
            assert {*samples.labels} <= known
            assert not len(samples) or samples.truth == truth, "its truth is another"
            for name, each in zip(samples.ids, samples.annotations, strict=False):
                assert each.truth == truth, name
                # masks are read from files: the next test reads some
                assert truth == "mask" or {*each.present()} <= known, f"{name}: its classes"
        assert len(self.plugin.evaluation()), "the evaluation split is empty"

    def test_annotates_within_the_images(self) -> None:
        samples = self.plugin.evaluation()
        if samples.truth not in ("boxes", "mask"):
            pytest.skip("it has no boxes and no masks")
        for index, (name, each) in enumerate(
            zip(samples.ids[:_READ], samples.annotations, strict=False)
        ):
            encoded = samples.read(index)
            size = declared_size(encoded)
            if size is None:
                continue  # an image that cannot be decoded
            height, width = size if exif_orientation(encoded) < 5 else size[::-1]
            if isinstance(each, Boxes):
                left, top, right, bottom = each.corners.T
                assert ((left >= 0) & (top >= 0)).all(), f"{name}: a box leaves the image"
                inside = ((right <= width) & (bottom <= height)).all()
                assert inside, f"{name}: a box leaves the image"
                assert ((left < right) & (top < bottom)).all(), f"{name}: a box has no area"
            elif isinstance(each, Mask):
                assert each.read().shape == (height, width), f"{name}: its mask"
                assert {*each.present()} <= {*range(len(samples.classes))}, f"{name}: its classes"

    def test_shares_classes_and_no_sample_between_its_splits(self) -> None:
        training, evaluation = self._splits()
        if not len(training):
            pytest.skip("it has no training images")
        if getattr(self.plugin, "held_out", False):  # of a plugin that extends no `Dataset`
            named = self.plugin.trained_names(), self.plugin.class_names()
            for samples, names in zip((training, evaluation), named, strict=True):
                assert not names or samples.classes == names, "it names other identities"
                assert len({*samples.classes}) == len(samples.classes), "an identity is there twice"
        else:
            assert training.truth == "none" or training.classes == evaluation.classes
        assert {*training.ids}.isdisjoint(evaluation.ids)

    def test_gives_the_same_samples_twice_and_counts_them(self) -> None:
        whole: Any = self.plugin
        first, again = self.plugin.evaluation(), replace(whole).evaluation()
        for part in ("ids", "labels", "fingerprint"):
            assert getattr(first, part) == getattr(again, part), f"{part} differ the second time"
        for one, other in zip(first.annotations[:_READ], again.annotations, strict=False):
            assert _values(one) == _values(other), "the annotations differ the second time"
        both = self._splits()
        assert tuple(self.plugin.counts()) == tuple(map(len, both))
        split: Split
        for split, samples in zip(get_args(Split), both, strict=True):
            assert not len(samples) or self.plugin.fingerprint(split) == samples.fingerprint

    def test_reads_the_same_bytes_again_and_in_another_process(self) -> None:
        samples = self.plugin.evaluation()
        order = range(min(_READ, len(samples)))[::-1]
        # a worker is sent the value that reads; what cannot be pickled raises here
        part = pickle.loads(pickle.dumps(samples.read.only(order)))  # noqa: S301 - pickled here
        for place, index in enumerate(order):
            data = samples.read(index)
            assert isinstance(data, bytes)
            assert data, samples.ids[index]
            assert samples.read(index) == part(place) == data, samples.ids[index]

    def _splits(self) -> tuple[Samples, Samples]:
        evaluation = self.plugin.evaluation()
        # a set without training images may refuse to give that split
        none = Samples((), (), evaluation.classes, evaluation.read, "")
        return self.plugin.training() if self.plugin.counts()[0] else none, evaluation


def check_decoded(decoded: Decoded) -> None:
    """Check that outcome, pixels and reason belong together."""
    assert isinstance(decoded, Decoded)
    outcome, image = decoded.outcome, decoded.image
    assert outcome in get_args(DecodeOutcome)
    assert (image is not None) == (outcome in ("ok", "corrupt")), outcome
    assert bool(decoded.reason) == (outcome != "ok"), f"{outcome}: {decoded.reason!r}"
    if image is not None:
        assert image.dtype == np.uint8
        assert image.ndim == 3 == image.shape[-1], f"shape {image.shape}, expected (h, w, 3)"
        assert image.flags.c_contiguous, "pixels are not C-contiguous; use np.ascontiguousarray"
        assert image.flags.writeable, "pixels are read-only; return a copy"


def _check_threads(call: Callable[[Any], npt.NDArray[Any]], arguments: Sequence[Any]) -> None:
    alone = [call(each) for each in arguments] * 5
    with ThreadPoolExecutor(4) as pool:
        for image, expected in zip(pool.map(call, [*arguments] * 5), alone, strict=True):
            assert np.array_equal(image, expected), "a call in threads gave other pixels"


def _values(annotation: Annotation) -> Any:
    if isinstance(annotation, Boxes):
        return [
            each.tolist() for each in (annotation.corners, annotation.classes, annotation.crowd)
        ]
    return annotation.read().tolist() if isinstance(annotation, Mask) else annotation


def jpegs() -> dict[str, bytes]:
    """Make JPEG files of the kinds that one meets; all are valid."""
    from PIL import Image as Pillow
    from PIL import ImageCms

    def turned(orientation: int) -> bytes:
        tags = Pillow.Exif()
        tags[0x0112] = orientation
        return tags.tobytes()

    image, cmyk = picture("smooth", *_SIZE), io.BytesIO()
    Pillow.fromarray(image).convert("CMYK").save(cmyk, "JPEG")
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return {
        **recorder_jpegs(),
        **{f"exif-{each}": by_pillow(image, exif=turned(each)) for each in range(2, 9)},
        "icc": by_pillow(image, icc_profile=profile),
        "low-quality": by_pillow(image, quality=20),
        "optimised": by_pillow(image, optimize=True),
        "one-pixel": by_pillow(image[:1, :1]),
        "cmyk": cmyk.getvalue(),
    }


def damaged(encoded: bytes) -> list[bytes]:
    """Cut a file at 25 lengths, and change six bytes in each of 40 copies of it."""
    rng = np.random.default_rng(0)
    files = [encoded[:length] for length in np.linspace(0, len(encoded) - 1, 25).astype(int)]
    for _ in range(40):
        changed = bytearray(encoded)
        for position in rng.integers(2, len(encoded), 6):
            changed[position] = rng.integers(256)
        files.append(bytes(changed))
    return files
