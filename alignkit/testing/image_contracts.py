"""The contracts in `alignkit.decoders`, `alignkit.resizers` and `alignkit.datasets` as tests."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, replace
from typing import Any, ClassVar, get_args
from unittest import SkipTest

import numpy as np
import numpy.typing as npt

from alignkit.annotations import Annotation, Boxes, Mask
from alignkit.arrays import Image
from alignkit.datasets import DATASETS, Dataset
from alignkit.decoders import DECODERS, Decoded, Decoder
from alignkit.decoders.exif import exif_orientation
from alignkit.machine import without_messages
from alignkit.plugins import PluginTable, name_of
from alignkit.preprocess.image_header import declared_size
from alignkit.resizers import RESIZERS, Resizer
from alignkit.samples import Samples, Split

UNREADABLE = (
    b"", b"\xff", b"this is no image" * 20, bytes(4096), b"\xff\xd8\xff\xe0", b"\xff\xd8\xff\xd9",
    b"\x89PNG\r\n\x1a\n",
)  # fmt: skip
"""Bytes that are no image."""
OPTIONAL = ("cmyk",)
"""Kinds of JPEG that a decoder may leave as unsupported."""
TARGETS = ((24, 32), (130, 200), (97, 61), (61, 97), (2, 97))
"""Shrunk, enlarged, squashed, unchanged, and two rows."""
_CUTS, _DAMAGES, _BYTES = 25, 40, 6
"""Lengths at which a file is cut, files with changed bytes, and changed bytes in each."""
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
        check_version(self.plugin, self.table)


class DecoderContract(PluginContract):
    """Tests of a decoder, on JPEG files made here."""

    plugin: Decoder
    table = DECODERS
    files: Sequence[bytes] = ()
    """Valid files of another format, for a decoder that reads no JPEG."""

    def test_gives_owned_rgb_pixels_of_valid_files(self) -> None:
        for kind, encoded in jpegs(picture()).items():
            found = self.plugin.decode(encoded)
            if self.files or (kind in OPTIONAL and found.outcome == "unsupported"):
                check_decoded(found)
            else:
                _valid(self.plugin, encoded, kind)
        for index, encoded in enumerate(self.files):
            _valid(self.plugin, encoded, f"file {index}")

    def test_ends_in_an_outcome_for_damaged_files_and_what_is_no_image(self) -> None:
        made = jpegs(picture())
        harmed = [
            each for kind in ("420", "progressive", "grey", "cmyk") for each in damaged(made[kind])
        ]
        for encoded in (*UNREADABLE, *harmed):
            with without_messages():
                found = self.plugin.decode(encoded)
            check_decoded(found)
            known = encoded not in UNREADABLE or found.image is None
            assert known, f"{encoded[:16]!r}, no image, is called {found.outcome}"

    def test_gives_the_channels_in_the_order_red_green_blue(self) -> None:
        plain = np.full((16, 16, 3), _COLOUR, np.uint8)
        image = self._pixels(_jpeg(plain, quality=100))
        seen = tuple(map(int, image[8, 8]))
        apart = np.abs(image.astype(int) - plain).max()
        assert apart <= 2, f"a plain image of {_COLOUR} is decoded as {seen}"

    def test_turns_by_exif_only_if_its_class_says_so(self) -> None:
        height, width = picture().shape[:2]
        shape = self._pixels(jpegs(picture())["exif-6"]).shape[:2]
        turns = bool(getattr(self.plugin, "orients", False))
        found = f"{height}x{width} px of orientation 6 are decoded as {shape[0]}x{shape[1]}"
        expected = (width, height) if turns else (height, width)
        assert shape == expected, f"orients is {turns}, and {found}"

    def test_may_be_called_from_threads(self) -> None:
        made = jpegs(picture())
        _check_threads(self._pixels, [made[kind] for kind in ("420", "444", "grey")])

    def _pixels(self, encoded: bytes) -> Image:
        image = self.plugin.decode(encoded).image
        if image is None:
            raise SkipTest("it decodes no JPEG")
        return image


class ResizerContract(PluginContract):
    """Tests of a resizer."""

    plugin: Resizer
    table = RESIZERS

    def test_gives_the_size_asked_for_and_leaves_its_input_alone(self) -> None:
        for height, width in TARGETS:
            image, size = picture(), f"61x97 to {height}x{width}"
            resized = self.plugin.resize(image, height, width)
            assert resized.shape == (height, width, 3), f"{size} gives shape {resized.shape}"
            assert resized.dtype in (np.uint8, np.float32), f"{size} gives {resized.dtype}"
            assert np.array_equal(image, picture()), f"{size} writes to its input"
            assert not np.shares_memory(resized, image), f"{size} returns memory of its input"
            frozen = image.copy()
            frozen.flags.writeable = False
            strided = np.ascontiguousarray(image[..., ::-1])[..., ::-1]
            for kind, given in (("read-only", frozen), ("strided", strided)):
                same = np.array_equal(self.plugin.resize(given, height, width), resized)
                assert same, f"{size} differs for a {kind} input"

    def test_keeps_a_plain_image_plain(self) -> None:
        plain = np.full((40, 50, 3), _COLOUR, np.uint8)
        apart = np.abs(self.plugin.resize(plain, 17, 23) - plain[0, 0].astype(float)).max()
        assert apart < 1e-3, f"a plain image changes by {apart:.3g} levels"

    def test_keeps_rows_columns_and_channels_apart(self) -> None:
        image = np.zeros((80, 120, 3), np.uint8)
        image[:20, :60, 0] = 255
        resized = self.plugin.resize(image, 20, 20)
        # away from its edge, which a wide filter blurs
        inside = float(resized[:2, :6, 0].min())
        outside = float(max(resized[9:].max(), resized[:, 14:].max()))
        others = float(resized[..., 1:].max())
        found = f"corner {inside:.1f}, rest {outside:.1f}, empty channels {others:.1f} levels"
        fits = inside > 250 and outside < 5 and others == 0
        assert fits, f"{found}; expected over 250, below 5 and 0"

    def test_may_be_called_from_threads(self) -> None:
        images = [picture(), picture(40, 120), picture()[:50]]
        _check_threads(lambda image: self.plugin.resize(image, 30, 40), images)


class DatasetContract(PluginContract):
    """Tests of a data set."""

    plugin: Dataset
    table = DATASETS

    def test_has_unique_ids_labels_in_its_classes_and_annotations_as_it_says(self) -> None:
        truth = getattr(self.plugin, "truth", "class")  # of a plugin that extends no `Dataset`
        for split, samples in zip(get_args(Split), _both(self.plugin), strict=True):
            known, found = range(len(samples.classes)), samples.truth
            assert len(set(samples.ids)) == len(samples), f"{split}: ids are not unique"
            wrong = {*samples.labels} - {*known}
            assert not wrong, f"{split}: labels {wrong} of {len(known)} classes"
            assert not len(samples) or found == truth, f"truth is {truth}, the samples' {found}"
            for name, each in zip(samples.ids, samples.annotations, strict=False):
                assert each.truth == truth, f"{name}: {each.truth} among {truth}"
                # masks are read from files: the next test reads some
                wrong = set() if truth == "mask" else {*each.present()} - {*known}
                assert not wrong, f"{name}: classes {wrong} of {len(known)}"
        assert len(self.plugin.evaluation()), "the evaluation split is empty"

    def test_annotates_within_the_images(self) -> None:
        samples = self.plugin.evaluation()
        if samples.truth not in ("boxes", "mask"):
            raise SkipTest("it has no boxes and no masks")
        for index, (name, each) in enumerate(
            zip(samples.ids[:_READ], samples.annotations, strict=False)
        ):
            encoded = samples.read(index)
            size = declared_size(encoded)
            if size is None:
                continue  # an image that cannot be decoded
            sides = size if exif_orientation(encoded) < 5 else size[::-1]
            if isinstance(each, Boxes):
                inside = (each.corners >= 0).all() and (each.corners <= [*sides[::-1]] * 2).all()
                assert inside, f"{name}: a box leaves the image"
                area = (each.corners[:, 2:] > each.corners[:, :2]).all()
                assert area, f"{name}: a box has no area"
            elif isinstance(each, Mask):
                shape = each.read().shape
                assert shape == sides, f"{name}: its mask is {shape}, the image {sides}"
                wrong = {*each.present()} - {*range(len(samples.classes))}
                assert not wrong, f"{name}: classes {wrong} of {len(samples.classes)}"

    def test_shares_classes_and_no_sample_between_its_splits(self) -> None:
        training, evaluation = _both(self.plugin)
        if not len(training):
            raise SkipTest("it has no training images")
        if getattr(self.plugin, "held_out", False):  # of a plugin that extends no `Dataset`
            named = self.plugin.trained_names(), self.plugin.class_names()
            for samples, names in zip((training, evaluation), named, strict=True):
                assert not names or samples.classes == names, "it names other identities"
                unique = len({*samples.classes}) == len(samples.classes)
                assert unique, "an identity is there twice"
        else:
            same = training.truth == "none" or training.classes == evaluation.classes
            assert same, "the splits have different classes"
        shared = {*training.ids} & {*evaluation.ids}
        assert not shared, f"{len(shared)} samples are in both splits, as {min(shared, default='')}"

    def test_gives_the_same_samples_twice_and_counts_them(self) -> None:
        whole: Any = self.plugin
        first, again = self.plugin.evaluation(), replace(whole).evaluation()
        for part in ("ids", "labels", "fingerprint"):
            same = getattr(first, part) == getattr(again, part)
            assert same, f"{part} differ the second time"
        same = all(map(_are_equal, first.annotations[:_READ], again.annotations[:_READ]))
        assert same, "the annotations differ the second time"
        both = _both(self.plugin)
        said, found = tuple(self.plugin.counts()), tuple(map(len, both))
        assert said == found, f"counts() says {said}, and the splits have {found}"
        split: Split
        for split, samples in zip(get_args(Split), both, strict=True):
            if len(samples):
                key = self.plugin.fingerprint(split)
                same = key == samples.fingerprint
                assert same, f"fingerprint({split!r}) is {key[:12]}, not that of the samples"

    def test_reads_the_same_bytes_again_and_in_another_process(self) -> None:
        samples = self.plugin.evaluation()
        order = range(min(_READ, len(samples)))[::-1]
        try:
            part = pickle.loads(pickle.dumps(samples.read.only(order)))  # noqa: S301 - pickled here
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise AssertionError(f"'read' cannot be sent to another process: {error}") from error
        for place, index in enumerate(order):
            name, data = samples.ids[index], samples.read(index)
            held = isinstance(data, bytes) and bool(data)
            assert held, f"{name} is read as no bytes"
            assert samples.read(index) == data, f"{name} is read as other bytes again"
            assert part(place) == data, f"{name} is read as other bytes after it was pickled"


def check_decoded(decoded: Decoded) -> None:
    """Check that outcome, pixels and reason belong together."""
    assert isinstance(decoded, Decoded), f"decode() gives {type(decoded).__name__}, no Decoded"
    outcome, image = decoded.outcome, decoded.image
    assert outcome in ("ok", "corrupt", "failed", "unsupported"), f"outcome {outcome!r}"
    fits = (image is not None) == (outcome in ("ok", "corrupt"))
    assert fits, f"outcome {outcome!r} with image {image is not None}"
    fits = bool(decoded.reason) == (outcome != "ok")
    assert fits, f"outcome {outcome!r}, reason {decoded.reason!r}"
    if image is not None:
        assert image.dtype == np.uint8, f"pixels of {image.dtype}, expected uint8"
        assert image.ndim == 3 == image.shape[-1], f"shape {image.shape}, expected (h, w, 3)"
        assert image.flags.c_contiguous, "pixels are not C-contiguous; use np.ascontiguousarray"
        assert image.flags.writeable, "pixels are read-only; return a copy"


def check_version(plugin: Any, table: PluginTable) -> None:
    """Check that ``version()`` names what runs, in a version that cache keys hold too.

    A key that holds only the package's own version would keep results of an older library.
    """
    said = plugin.version()
    text = isinstance(said, str) and bool(said)
    assert text, f"version() gives {said!r}, expected text"
    name = name_of(plugin, table)
    keyed = table[name].version() if name in table else ""
    # a wheel's number may go on where the library's ends: 5.0.0.93
    numbers = re.findall(_MAJOR_MINOR, keyed)
    assert not keyed or not {*numbers}.isdisjoint(re.findall(_MAJOR_MINOR, said)), (
        f"version() says {said!r}, and cache keys hold {keyed!r}: name the distribution whose "
        "code runs in the entry point's Plugin, and its version in version()"
    )


def _valid(decoder: Decoder, encoded: bytes, kind: str) -> None:
    decoded, again = decoder.decode(encoded), decoder.decode(encoded)
    check_decoded(decoded)
    assert decoded.outcome == "ok", f"a valid file, {kind}, is {decoded.outcome}: {decoded.reason}"
    assert decoded.image is not None
    assert again.image is not None, f"{kind}: a second decode gives no image"
    assert not np.shares_memory(decoded.image, again.image), "two decodes share their memory"
    assert np.array_equal(decoded.image, again.image), f"{kind}: two decodes differ"


def _check_threads(call: Callable[[Any], npt.NDArray[Any]], arguments: Sequence[Any]) -> None:
    alone = [call(each) for each in arguments] * 5
    with ThreadPoolExecutor(4) as pool:
        for index, image in enumerate(pool.map(call, [*arguments] * 5)):
            same = np.array_equal(image, alone[index])
            assert same, f"call {index} of {len(alone)} in threads gave other pixels"


def damaged(encoded: bytes) -> list[bytes]:
    """Cut a file at many lengths, and change some bytes in copies of it."""
    rng = np.random.default_rng(0)
    files = [encoded[:length] for length in np.linspace(0, len(encoded) - 1, _CUTS).astype(int)]
    for _ in range(_DAMAGES):
        changed = bytearray(encoded)
        for position in rng.integers(2, len(encoded), _BYTES):
            changed[position] = rng.integers(256)
        files.append(bytes(changed))
    return files


def picture(height: int = 61, width: int = 97) -> Image:
    """Draw (height, width, 3): waves of colour with some noise, odd-sized by default."""
    down, across = np.mgrid[:height, :width]
    waves = [np.sin(across / 9 + down / 13 + shift) for shift in (0, 2, 4)]
    noise = np.random.default_rng(0).normal(0, 8, (height, width, 3))
    return np.clip(127.5 + 100 * np.stack(waves, axis=-1) + noise, 0, 255).astype(np.uint8)


def jpegs(image: Image) -> dict[str, bytes]:
    """Encode (h, w, 3) in the kinds of JPEG that one meets; all are valid."""
    from PIL import Image as Pillow
    from PIL import ImageCms

    whole = Pillow.fromarray(image)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    kinds = {
        "420": _jpeg(whole, subsampling="4:2:0", quality=90),
        "422": _jpeg(whole, subsampling="4:2:2", quality=90),
        "444": _jpeg(whole, subsampling="4:4:4", quality=90),
        "low-quality": _jpeg(whole, subsampling="4:2:0", quality=20),
        "progressive": _jpeg(whole, progressive=True, quality=90),
        "restart-markers": _jpeg(whole, restart_marker_rows=1),
        "optimised": _jpeg(whole, optimize=True),
        "grey": _jpeg(whole.convert("L")),
        "cmyk": _jpeg(whole.convert("CMYK")),
        "icc": _jpeg(whole, icc_profile=profile),
        "one-pixel": _jpeg(whole.crop((0, 0, 1, 1))),
    }
    for number in range(2, 9):
        tags = Pillow.Exif()
        tags[0x0112] = number
        kinds[f"exif-{number}"] = _jpeg(whole, exif=tags.tobytes())
    return kinds


def _jpeg(image: Any, **options: Any) -> bytes:
    from PIL import Image as Pillow

    whole = Pillow.fromarray(image) if isinstance(image, np.ndarray) else image
    file = io.BytesIO()
    whole.save(file, "JPEG", **options)
    return file.getvalue()


def _are_equal(first: Annotation, again: Annotation) -> bool:
    if isinstance(first, Boxes) and isinstance(again, Boxes):
        pairs = zip(astuple(first), astuple(again), strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)
    if isinstance(first, Mask) and isinstance(again, Mask):
        return np.array_equal(first.read(), again.read())
    return first == again


def _both(dataset: Dataset) -> tuple[Samples, Samples]:
    evaluation = dataset.evaluation()
    # a set without training images may refuse to give that split
    none = Samples((), (), evaluation.classes, evaluation.read, "")
    return dataset.training() if dataset.counts()[0] else none, evaluation
