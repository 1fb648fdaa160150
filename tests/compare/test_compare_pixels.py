"""Two paths compared stage by stage, against a loop that recomputes everything in float64."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from skimage.metrics import structural_similarity

import alignkit.lots
from alignkit.compare.compare_pixels import (
    compare_lots,
    compare_preprocess,
    pixel_stages,
    spatial_stages,
)
from alignkit.compare.pixel_diff import COMPARISON_MODES
from alignkit.decoders import Decoded
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.decoders.torchpipe import TorchpipeDecoder
from alignkit.errors import NothingCompared
from alignkit.lots import Shard, lot_parts
from alignkit.lots.kept_lots import KeptLots
from alignkit.lots.local import LocalEngine
from alignkit.lots.remote import RemoteEngine
from alignkit.preprocess import (
    STAGES,
    Colour,
    Crop,
    Orient,
    Preprocess,
    Quantise,
    Resize,
)
from alignkit.preprocess.normalise import Normalise
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.samples import Samples
from alignkit.workspace import Workspace
from tests.lots.test_lots import Threads
from tests.made_images import KINDS, NOTED
from tests.photos import encoded, exif, photo
from tests.stacks import REFERENCE, changed, turned_photos

SERVED = Resize(OpenCVResizer(), (32, 32))
TRAINED = Preprocess("train", OpenCVDecoder(), SERVED)
PHOTOS = turned_photos(23)


def samples_of(*files: bytes) -> Samples:
    ids = tuple(f"{index}.jpg" for index in range(len(files)))
    return Samples(ids, (), (), files.__getitem__, "")


@pytest.fixture(scope="module")
def photos() -> Samples:
    sizes = [(40 + 7 * each, 90 - 5 * each) for each in range(11)]
    names = ("china", "flower")
    return samples_of(
        *(
            encoded(photo(names[index % 2], *size), subsampling="4:2:0", quality=85)
            for index, size in enumerate(sizes)
        )
    )


def summary(diffs):
    return [
        (
            diff.stage, diff.mode, diff.shape_mismatches, diff.sums.histogram.tobytes(),
            [getattr(diff.sums, name) for name in diff.sums.__slots__ if name != "histogram"],
        )
        for diff in diffs.diffs
    ]  # fmt: skip


def naive(reference, candidate, files):
    """(stage, mode) → all signed differences, every stage recomputed for both modes."""
    found = {(stage, mode): [] for stage in STAGES for mode in COMPARISON_MODES}
    for data in files:
        sides = []
        for path in (reference, candidate):
            taps = dict(path.taps(data).pixels)
            taps["normalise"] = path.normalise(taps["colour"])
            sides.append(taps)
        left, right = sides
        for before, stage in zip((None, *STAGES), STAGES, strict=False):
            run = candidate.turn(data) if stage == "orient" else getattr(candidate, stage)
            alone = run.decode(data).image if stage == "decode" else run(left[before])
            for mode, other in (("isolated", alone), ("cumulative", right[stage])):
                found[stage, mode].append((other.astype(np.float64) - left[stage]).ravel())
    return {key: np.concatenate(values) for key, values in found.items()}


PATHS = {
    "decoder": replace(TRAINED, name="served", decode=SimpleJPEGDecoder(chroma="nearest")),
    "resizer": replace(TRAINED, name="served", resize=Resize(TorchResizer(), (32, 32))),
    "quantised": replace(
        TRAINED, name="served", resize=Resize(TorchResizer(), (32, 32)), quantise=Quantise("truncate")
    ),
    "colour": replace(TRAINED, name="served", colour=Colour("bgr")),
    "normalise": replace(TRAINED, name="served", normalise=Normalise((0.5,) * 3, (0.5,) * 3)),
    "everything": Preprocess(
        "served", SimpleJPEGDecoder(chroma="nearest"), Resize(TorchResizer(), (32, 32)),
        quantise=Quantise("round"), colour=Colour("bgr"), normalise=Normalise((0.0,) * 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PATHS)
def test_every_stage_equals_a_loop_that_recomputes_everything(name, photos):
    files = [photos.read(index) for index in range(len(photos))]
    diffs = compare_preprocess(TRAINED, PATHS[name], photos)
    for (stage, mode), signed in naive(TRAINED, PATHS[name], files).items():
        diff = diffs.diff(stage, mode)
        assert diff.images == 11
        assert diff.sums.values == len(signed)
        gap = np.abs(signed)
        assert diff.sums.mean_abs == pytest.approx(gap.mean(), rel=1e-5)
        assert diff.sums.max_abs == pytest.approx(gap.max(), rel=1e-5, abs=1e-6)
        assert np.mean(diff.sums.bias) == pytest.approx(signed.mean(), abs=1e-5)
        assert diff.differs == bool(gap.any())


@pytest.mark.parametrize(
    ("name", "first", "largest"),
    [
        ("decoder", "decode", "decode"),
        ("resizer", "resize", "resize"),
        ("colour", "colour", "colour"),
        ("normalise", "normalise", "normalise"),
        ("everything", "decode", "normalise"),
    ],
)
def test_the_stage_to_blame_is_named(name, first, largest, photos):
    diffs = compare_preprocess(TRAINED, PATHS[name], photos, ssim=False)
    assert diffs.first_divergence == first
    assert diffs.largest_divergence == largest


@pytest.mark.parametrize("path", [TRAINED, PATHS["everything"]], ids=["plain", "float"])
def test_a_path_against_itself_is_zero_at_every_stage(path, photos):
    diffs = compare_preprocess(path, replace(path, name="again"), photos)
    assert diffs.first_divergence is None
    assert diffs.largest_divergence is None
    for diff in diffs.diffs:
        assert (diff.images, diff.sums.identical, diff.shape_mismatches) == (11, 11, 0)
        assert diff.sums.mean_abs == diff.sums.max_abs == diff.sums.share_differing == 0
        assert diff.psnr is None
    assert diffs.diff("colour").sums.ssim == 1.0


def test_results_do_not_depend_on_the_number_of_threads(photos):
    many = samples_of(*[photos.read(index % 11) for index in range(60)])
    one, two, five = (
        compare_preprocess(TRAINED, PATHS["everything"], many, threads=threads)
        for threads in (1, 2, 5)
    )
    assert summary(one) == summary(two) == summary(five)
    assert one.rows == two.rows == five.rows


def test_ssim_is_scikit_images_at_the_models_input(photos):
    diffs = compare_preprocess(TRAINED, PATHS["resizer"], photos)
    theirs = []
    for index in range(len(photos)):
        sides = (path.taps(photos.read(index)).last for path in (TRAINED, PATHS["resizer"]))
        left, right = (side.astype(np.float64) for side in sides)
        theirs.append(structural_similarity(left, right, channel_axis=2, data_range=255))
    assert diffs.diff("colour").sums.ssim == pytest.approx(np.mean(theirs), abs=1e-6)
    assert [row.ssim for row in diffs.rows] == pytest.approx(theirs, abs=1e-6)
    without = compare_preprocess(TRAINED, PATHS["resizer"], photos, ssim=False)
    assert without.diff("colour").sums.ssim is None


def test_rows_find_the_worst_image(photos):
    diffs = compare_preprocess(TRAINED, PATHS["decoder"], photos)
    assert [row.id for row in diffs.rows] == list(photos.ids)
    worst = diffs.worst(3)
    means = [row.mean_abs[STAGES.index("colour")] for row in diffs.rows]
    assert [row.mean_abs[STAGES.index("colour")] for row in worst] == sorted(means)[:-4:-1]
    index = photos.ids.index(worst[0].id)
    alone = compare_preprocess(TRAINED, PATHS["decoder"], samples_of(photos.read(index)))
    assert alone.diff("colour").sums.mean_abs == max(means)
    assert alone.diff("decode").sums.max_abs == worst[0].max_abs[0]


@dataclass(frozen=True)
class CountingDecoder:
    """OpenCV's, told apart by its log, which gets a line for every call."""

    log: Path
    orients: ClassVar[bool] = False

    def decode(self, data: bytes) -> Decoded:
        with self.log.open("a") as file:
            file.write("called\n")
        return OpenCVDecoder().decode(data)

    def version(self) -> str:
        return ""


def test_no_image_is_decoded_twice_by_a_path(photos, tmp_path):
    logs = [tmp_path / name for name in "ab"]
    paths = [replace(TRAINED, decode=CountingDecoder(log)) for log in logs]
    compare_preprocess(*paths, photos, threads=1)
    assert [len(log.read_text().split()) for log in logs] == [12, 12]  # once to warm up


def test_a_decode_that_two_paths_share_runs_once_and_gives_the_same_sums(photos, tmp_path):
    log = tmp_path / "log"
    one = replace(TRAINED, decode=CountingDecoder(log))
    other = replace(PATHS["resizer"], decode=CountingDecoder(log))
    shared = compare_preprocess(one, other, photos, threads=1)
    assert len(log.read_text().split()) == 11 + 2  # and once for each path to warm up
    twice = replace(other, decode=CountingDecoder(tmp_path / "other"))
    assert summary(shared) == summary(compare_preprocess(one, twice, photos, threads=1))


def test_a_path_against_itself_decodes_twice(photos, tmp_path):
    log = tmp_path / "log"
    path = replace(TRAINED, decode=CountingDecoder(log))
    compare_preprocess(path, replace(path, name="again"), photos, threads=1)
    assert len(log.read_text().split()) == 2 * 11 + 1


def turned_photo() -> Samples:
    return samples_of(encoded(photo(), exif=exif(6)), encoded(photo()))


def test_an_exif_policy_shows_at_orient_as_another_shape():
    obeying = replace(TRAINED, name="obeying", orient=Orient("exif"))
    diffs = compare_preprocess(TRAINED, obeying, turned_photo())
    assert diffs.first_divergence == "orient"
    orient = diffs.diff("orient", "isolated")
    assert (orient.images, orient.shape_mismatches) == (1, 1)
    assert diffs.diff("decode").sums.identical == 2
    assert diffs.diff("resize", "isolated").differs is False
    assert diffs.diff("resize", "cumulative").differs


@pytest.mark.parametrize("swapped", [False, True])
def test_two_libraries_that_read_an_orientation_otherwise_differ_at_orient(swapped):
    """By cv2.imread and ImageOps.exif_transpose: Pillow alone turns this WebP."""
    file = NOTED["WebP"]["EXIF with JPEG's identifier"](KINDS["WebP", "lossless"](), 6)
    pair = [
        replace(TRAINED, name=name, decode=decoder, orient=Orient("exif"))
        for name, decoder in (("cv2", OpenCVDecoder()), ("pil", PillowDecoder()))
    ]
    diffs = compare_preprocess(*(pair[::-1] if swapped else pair), samples_of(file))
    assert diffs.diff("decode").sums.identical == 1
    assert diffs.first_divergence == "orient"
    assert diffs.diff("orient", "isolated").shape_mismatches == 1


@pytest.mark.parametrize("swapped", [False, True])
def test_a_decoder_that_turns_equals_one_followed_by_exif(swapped):
    obeying = replace(TRAINED, name="obeying", orient=Orient("exif"))
    turning = replace(TRAINED, name="turning", decode=TorchpipeDecoder())
    pair = (turning, obeying) if swapped else (obeying, turning)
    diffs = compare_preprocess(*pair, turned_photo())
    assert diffs.first_divergence is None
    assert diffs.diff("decode").images == 2


@pytest.mark.parametrize("swapped", [False, True])
def test_geometries_that_cannot_be_mixed_are_counted_not_compared(photos, swapped):
    cropped = replace(
        TRAINED, name="cropped", resize=Resize(OpenCVResizer(), (40, 40), "shorter"), crop=Crop((36, 36))
    )  # fmt: skip
    pair = (cropped, TRAINED) if swapped else (TRAINED, cropped)
    diffs = compare_preprocess(*pair, photos)
    assert diffs.first_divergence == "resize"
    assert diffs.diff("resize", "isolated").shape_mismatches == 11
    assert diffs.diff("crop", "isolated").shape_mismatches == 11
    assert diffs.diff("colour").sums is None
    assert {row.mean_abs[STAGES.index("colour")] for row in diffs.rows} == {None}
    assert diffs.worst(5) == ()


def test_what_one_path_cannot_decode_is_counted_and_not_compared(jpegs):
    from tests.photos import make_pngs

    png = next(iter(make_pngs().values()))
    files = samples_of(jpegs["420"], b"no image", png)
    strict = replace(TRAINED, name="strict", decode=SimpleJPEGDecoder())
    diffs = compare_preprocess(TRAINED, strict, files)
    assert diffs.compared == 1
    assert [(row.reference, row.candidate) for row in diffs.rows].count(("ok", "ok")) == 1
    assert len(diffs.rows) == 3
    assert diffs.rows[2].candidate == "unsupported"
    assert diffs.rows[2].max_abs == (None,) * len(STAGES)
    assert diffs.diff("decode").images == 1


def test_nothing_to_compare_is_an_error():
    for files in ((), (b"no image",)):
        with pytest.raises(NothingCompared, match=f"none of {len(files)} images"):
            compare_preprocess(TRAINED, TRAINED, samples_of(*files))


def test_an_error_in_a_thread_ends_the_comparison(photos):
    def read(index: int) -> bytes:
        if index == 9:
            raise OSError("the disk is gone")
        return photos.read(index)

    with pytest.raises(OSError, match="the disk is gone"):
        compare_preprocess(TRAINED, TRAINED, replace(photos, read=read))


@pytest.mark.slow
def test_real_photographs_agree_between_libjpeg_turbo_decoders(shared_data):
    files = [file.read_bytes() for file in sorted((shared_data / "photos").iterdir())[:20]]
    other = replace(TRAINED, name="served", decode=SimpleJPEGDecoder())
    assert compare_preprocess(TRAINED, other, samples_of(*files)).first_divergence is None


def test_float_sums_are_the_same_for_every_number_of_workers_and_on_every_engine(
    monkeypatch, tmp_path
):
    """The paths round nothing before the end, so that all sums are of floats."""
    monkeypatch.setattr(alignkit.lots, "IMAGES_A_LOT", 8)
    paths = REFERENCE, changed("decode", "resize")
    here = compare_preprocess(*paths, PHOTOS, threads=1, spatial=True)
    store = KeptLots(Workspace(tmp_path))
    for _ in lot_parts(
        compare_lots(*paths, PHOTOS, spatial=True), PHOTOS, LocalEngine(2), store=store,
        shard=Shard(2, 2),
    ):  # fmt: skip
        pass
    for options in (
        {"threads": 3},
        {"engine": RemoteEngine(Threads(lose=2))},
        {"engine": RemoteEngine(Threads()), "store": store},
        {"threads": 2, "store": store},
    ):
        found = compare_preprocess(*paths, PHOTOS, spatial=True, **options)
        assert summary(found) == summary(here)
        assert (pixel_stages(found), found.rows) == (pixel_stages(here), here.rows)
        assert spatial_stages(found) == spatial_stages(here)
