"""Known mechanisms: named where removing them removes the difference, and nowhere else."""

import numpy as np
import pytest

from alignkit.experiment.yaml_argument import named_paths
from alignkit.isolation import Limits
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.samples import Samples
from alignkit.studies.diff.diff_cause import main_mechanism
from alignkit.studies.diff.mechanisms import KNOWN
from alignkit.text.diff_words import mechanism_words
from tests.made_images import KINDS
from tests.photos import encoded, exif, photo

FILES = {
    "420.jpg": encoded(photo(height=240, width=320), subsampling="4:2:0", quality=90),
    "444.jpg": encoded(photo("flower", 260, 200), subsampling="4:4:4", quality=90),
    "turned.jpg": encoded(photo(height=200, width=280), subsampling="4:2:0", exif=exif(6)),
}


def found(one: str, other: str, files=FILES):
    paths = (each.preprocess for each in named_paths([one, other], size=48))
    samples = Samples(tuple(files), (), (), list(files.values()).__getitem__, "fingerprint")
    return main_mechanism(*paths, samples, Limits(lossy=True))


def entry(name: str, **stages: str) -> str:
    options = ", ".join(f"{stage}: {option}" for stage, option in stages.items())
    return f"{{name: {name}, preset: opencv-train, {options}}}"


SMOOTH = entry("smooth", decode="simplejpeg")
MECHANISMS = {
    "filters when it shrinks": ("opencv-train", entry("area", resize="{interpolation: area}")),
    "a linear kernel, opencv-train with a cubic": None,
    "repeats the samples of chroma": (
        SMOOTH, entry("nearest", decode="{name: simplejpeg, chroma: nearest}")
    ),
    "fast inverse DCT": (SMOOTH, entry("fast", decode="{name: simplejpeg, dct: ifast}")),
    "turns images by their EXIF": (
        entry("upright", orient="none"), "opencv-train"
    ),
    "in the order BGR": ("opencv-train", entry("bgr", colour="bgr")),
    "passes NV12": ("opencv-train", entry("nv12", colour="nv12-bt601-limited")),
    "show other parts of an image": ("opencv-train", "mlperf-resnet50"),
    "cuts RGB levels off": (
        entry("round", decode="{name: nvjpeg-model, colour: round}"),
        entry("truncate", decode="nvjpeg-model"),
    ),
    "through the centres of the corner pixels": (
        entry("half", resize="{name: torch}"),
        entry("corners", resize="{name: torch, align_corners: true}"),
    ),
    "cuts unrounded levels off": (
        entry("round", resize="{name: torch}", quantise="round"),
        entry("cut", resize="{name: torch}", quantise="truncate"),
    ),
}  # fmt: skip
MECHANISMS["a linear kernel, opencv-train with a cubic"] = (
    entry("opencv-train", resize="{interpolation: cubic}"), entry("linear", orient="exif")
)  # fmt: skip


@pytest.mark.parametrize("words", MECHANISMS)
def test_each_mechanism_is_found_where_it_is_the_only_difference(words):
    mechanism = found(*MECHANISMS[words])
    assert words in mechanism.sentence
    assert mechanism.explains_most
    assert mechanism.images == len(FILES)


def test_every_known_mechanism_is_tried_above_and_has_evidence():
    assert len(KNOWN) == len(MECHANISMS) + 1  # and that of 16-bit grey, below
    assert all(each.evidence for each in KNOWN)


GREY = KINDS["PNG", "16-bit grey"]()


@pytest.mark.parametrize(
    ("one", "other", "file"),
    [
        ("pillow-train", "opencv-train", GREY),
        ("opencv-train", "pillow-train", GREY),
        ("pillow-train", "torchpipe-cpu", GREY),
        ("timm-eval", "mlperf-resnet50", GREY),
        ("pillow-train", "opencv-train", KINDS["TIFF", "16-bit grey"]()),
        ("pillow-train", "opencv-train", KINDS["PNM", "16-bit grey"]()),
        ("pillow-train", "opencv-train", KINDS["JPEG 2000", "16-bit grey"]()),
    ],
)
def test_clipped_grey_of_16_bits_is_named_among_other_images(one, other, file):
    """Pillow's ``convert`` clips (python-pillow/Pillow #3011); cv2 takes the high byte."""
    upright = {name: FILES[name] for name in ("420.jpg", "444.jpg")}
    mechanism = found(one, other, {**upright, "grey.png": file})
    clips = one if one in ("pillow-train", "timm-eval") else other
    assert f"{clips} clips the levels of 16-bit grey images at 255" in mechanism.sentence
    assert mechanism.explains_most


@pytest.mark.parametrize(
    "file", [KINDS["PNG", "16-bit RGB"](), KINDS["PNG", "grey"](), KINDS["TIFF", "palette"]()]
)
def test_clipping_is_not_named_where_no_image_is_grey_of_16_bits(file):
    mechanism = found("pillow-train", entry("area", resize="{interpolation: area}"), {"a": file})
    assert mechanism is None or "clips" not in mechanism.sentence


def test_two_are_named_where_neither_suffices():
    upright = {name: FILES[name] for name in ("420.jpg", "444.jpg")}
    mechanism = found("pillow-train", "torchpipe-gpu-surrogate", upright)
    assert (
        "pillow-train filters when it shrinks an image (antialias), torchpipe" in mechanism.sentence
    )
    assert "align_corners" in mechanism.sentence
    assert mechanism.explained > 0.8
    assert [each.kind for each in mechanism.published] == ["published"]


def test_a_mechanism_that_explains_little_is_called_the_nearest():
    # only one image of three is turned, and everything is blurred by the resize
    small = {**FILES, "turned.jpg": FILES["420.jpg"]}
    mechanism = found(
        entry("a", resize="{interpolation: nearest}", decode="simplejpeg"),
        entry("b", decode="{name: simplejpeg, dct: ifast}"),
        small,
    )
    assert mechanism.explained < EXPLAINS_MOST
    assert mechanism_words(mechanism).startswith("no known mechanism explains most of it; the nea")


def test_paths_that_differ_in_nothing_known_have_no_mechanism():
    assert found("opencv-train", entry("lanczos", resize="{interpolation: lanczos4}")) is None
    assert found("opencv-train", "opencv-train") is None


def test_no_filter_is_blamed_where_images_grow():
    tiny = {"tiny.png": encoded(photo(height=24, width=20), "PNG")}
    mechanism = found("opencv-train", "pillow-train", tiny)
    # of an image that grows, the filter changes no more than rounding does
    assert mechanism is None or mechanism.before < 1


def test_the_distances_are_those_of_numpy():
    one, other = named_paths(["opencv-train", entry("bgr", colour="bgr")], size=48)
    gaps = [
        np.abs(
            one.preprocess.taps(data).last.astype(float)
            - other.preprocess.taps(data).last.astype(float)
        ).mean()
        for data in FILES.values()
    ]
    assert found("opencv-train", entry("bgr", colour="bgr")).before == pytest.approx(np.mean(gaps))


def test_the_rounding_of_a_library_is_not_taken_for_its_filter():
    # most images grow: what is left of them is the rounding of the two libraries
    grow = {f"{n}.png": encoded(photo(height=40, width=40 - n), "PNG") for n in range(8)}
    nearly = {**grow, "49.png": encoded(photo(height=49, width=40), "PNG")}
    assert not found("opencv-train", "pillow-train", nearly).explains_most
    shrinks = {"1.png": encoded(photo(height=400, width=400), "PNG")}
    assert found("opencv-train", "pillow-train", shrinks).explained > 0.9


def test_a_filter_is_left_out_where_no_image_shrinks():
    tiny = {f"{n}.jpg": encoded(photo(height=30, width=32), quality=90) for n in range(2)}
    # EXIF is the only mechanism left, and it turns none of these images
    assert found("opencv-train", "pillow-train", tiny) is None
    assert found("torchpipe-gpu-surrogate", "pillow-train", tiny).published == ()


def test_the_workers_are_as_many_as_the_threads_asked_for(monkeypatch):
    from alignkit.studies.diff import diff_cause

    asked = []

    def taken(*args, whole=diff_cause.take_pixels, **options):
        asked.append(options["processes"])
        return whole(*args, **options)

    monkeypatch.setattr(diff_cause, "take_pixels", taken)
    paths = (
        each.preprocess
        for each in named_paths(["opencv-train", entry("bgr", colour="bgr")], size=48)
    )
    samples = Samples(tuple(FILES), (), (), list(FILES.values()).__getitem__, "fingerprint")
    main_mechanism(*paths, samples, Limits(lossy=True), 1)
    assert set(asked) == {1}


@pytest.mark.parametrize(("one", "other", "never"), [
    (entry("bgr", colour="bgr"), entry("nv12", colour="nv12-bt601-limited"), "passes NV12 too"),
    (entry("cut", decode="nvjpeg-model"), entry("dali", decode="dali"), "cuts RGB levels off"),
    (entry("fast", decode="{name: simplejpeg, dct: ifast}"), entry("b", decode="nvjpeg-model"),
     "fast inverse DCT"),
])  # fmt: skip
def test_nothing_is_said_of_a_decoder_that_is_not_known_of_it(one, other, never):
    a, b = (each.preprocess for each in named_paths([one, other], size=48))
    tried = [each for each in KNOWN if each.without(a, b)]
    assert never not in str([each.sentence for each in tried])
    assert all(each.without(a, b).colour.space == "rgb" for each in tried if "BGR" in each.sentence)


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (entry("area", resize="{interpolation: area}"), ("antialias", "candidate")),
        (entry("nearest", decode="{name: simplejpeg, chroma: nearest}"), ("chroma", "candidate")),
        (entry("fast", decode="{name: simplejpeg, dct: ifast}"), ("inverse_dct", "")),
    ],
)
def test_a_mechanism_of_the_options_is_known_by_the_name_that_pixels_give_it(other, shown):
    assert found("opencv-train", other).shown_as == (shown,)
