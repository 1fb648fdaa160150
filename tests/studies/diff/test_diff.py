"""Stacks compared on files, against loops by hand and scikit-image."""

import io
from dataclasses import replace

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from alignkit.errors import BackendError, ExitCode, MissingDependency, RecordError
from alignkit.experiment.yaml_argument import NamedPath, named_paths
from alignkit.isolation import Limits
from alignkit.preprocess.stress import Stress
from alignkit.progress import NoProgress
from alignkit.record.diff_document import DiffRecord, read_diff_record, write_diff_record
from alignkit.report.stage_view import stage_sections
from alignkit.samples import Samples
from alignkit.stored_file import sealed
from alignkit.studies.diff import DiffRequest, diff, exit_code
from alignkit.studies.diff.diff_summary import diff_summary
from alignkit.text.names import Names
from tests.fatal_decoders import MARK, BrokenDecoder, FatalDecoder
from tests.made_images import KINDS
from tests.photos import encoded, exif, photo

GREY = KINDS["PNG", "16-bit grey"]()
REFERENCE = "opencv-train"
NEAREST = "{name: nearest, preset: opencv-train, decode: {name: simplejpeg, chroma: nearest}}"
FILES = {
    "420.jpg": encoded(photo(height=120, width=180), subsampling="4:2:0", quality=90),
    "422.jpg": encoded(photo("flower", 90, 75), subsampling="4:2:2", quality=92),
    "444.jpg": encoded(photo(height=100, width=70), subsampling="4:4:4", quality=80),
    "grey.jpg": encoded(photo(height=64, width=64)[..., 0]),
    "picture.png": encoded(photo(), "PNG"),
    "turned.jpg": encoded(photo(), subsampling="4:4:4", exif=exif(6)),
    "bad.jpg": encoded(photo())[:700],
}


def samples_of(files):
    return Samples(tuple(files), (), (), list(files.values()).__getitem__, "fingerprint")


def compared(*paths, files=FILES, max_pixels=None, **options) -> DiffRecord:
    named = named_paths(paths, size=48, max_pixels=max_pixels)
    return of_paths(named, files, **options)


def of_paths(paths, files, **options) -> DiffRecord:
    request = DiffRequest(tuple(paths), samples_of(files), "files", threads=2, **options)
    return diff(request, NoProgress())


@pytest.fixture(scope="module")
def record():
    return compared(
        REFERENCE, NEAREST, "pillow-train", ssim="full", planes="full", stress=(Stress("420", 90),)
    )


def stage(pair, name, mode):
    return next(each for each in pair.stages if (each.stage, each.mode) == (name, mode))


def taps(argument):
    path = named_paths([REFERENCE, argument], size=48)[1].preprocess
    return {name: path.taps(data).pixels for name, data in FILES.items()}


def test_every_number_is_that_of_a_loop_by_hand(record):
    pair = record.pairs[0]
    left, right = taps(REFERENCE), taps(NEAREST)
    both = [name for name in FILES if left[name] and right[name]]
    assert pair.compared == len(both)
    for name in ("decode", "resize"):
        pairs = [(left[each][name].astype(np.int16), right[each][name].astype(np.int16))
                 for each in both]  # fmt: skip
        gaps = np.concatenate([(b - a).ravel() for a, b in pairs])
        found = stage(pair, name, "cumulative")
        assert found.max_abs == np.abs(gaps).max()
        assert found.mean_abs == pytest.approx(np.abs(gaps).mean())
        assert np.mean(found.bias) == pytest.approx(gaps.mean())
        for level in (1, 2, 4, 8):
            assert found.share_above[str(level)] == pytest.approx((np.abs(gaps) > level).mean())
        for value, percent in ((found.p99, 99), (found.p99_9, 99.9)):
            assert value == np.percentile(np.abs(gaps), percent, method="inverted_cdf")
        everything = [
            np.concatenate([each.ravel() for each in side]) for side in zip(*pairs, strict=True)
        ]
        psnr = pytest.importorskip("skimage.metrics").peak_signal_noise_ratio
        assert found.psnr == pytest.approx(psnr(*everything, data_range=255))
        assert found.identical == sum(np.array_equal(a, b) for a, b in pairs)


def test_ssim_at_both_sizes_is_scikit_images(record):
    structural_similarity = pytest.importorskip("skimage.metrics").structural_similarity
    left, right = taps(REFERENCE), taps("pillow-train")
    both = [name for name in FILES if left[name] and right[name]]
    for name, stage_name in (("decode", "decode"), ("resize", "colour")):
        values = [
            structural_similarity(
                left[each][name], right[each][name], channel_axis=2, data_range=255
            )
            for each in both
            if left[each][name].shape == right[each][name].shape
        ]
        found = stage(record.pairs[1], stage_name, "cumulative")
        assert found.ssim == pytest.approx(np.mean(values), abs=1e-5)


def test_planes_are_those_of_numpy_at_both_stages(record):
    left, right = taps(REFERENCE), taps(NEAREST)
    both = [name for name in FILES if left[name] and right[name]]
    for name in ("decode", "colour"):
        gaps = np.concatenate(
            [(right[each][name].astype(float) - left[each][name]).reshape(-1, 3) for each in both]
        )
        luma = gaps @ (0.299, 0.587, 0.114)
        expected = {
            "Y'": luma, "Cb": (gaps[:, 2] - luma) / 1.772, "Cr": (gaps[:, 0] - luma) / 1.402
        }  # fmt: skip
        found = {each.plane: each for each in record.pairs[0].planes if each.stage == name}
        assert list(found) == list(expected)
        for plane, values in expected.items():
            assert found[plane].images == len(both)
            assert found[plane].mean_abs == pytest.approx(np.abs(values).mean(), rel=1e-4)
            assert found[plane].bias == pytest.approx(values.mean(), abs=1e-4)
            assert found[plane].max_abs == pytest.approx(np.abs(values).max(), rel=1e-4)


def test_planes_are_measured_only_where_they_are_asked_for():
    files = {"420.jpg": FILES["420.jpg"]}
    assert compared(REFERENCE, NEAREST, files=files).pairs[0].planes == ()
    (pair,) = compared(REFERENCE, NEAREST, files=files, planes="size").pairs
    assert {each.stage for each in pair.planes} == {"colour"}


def test_both_paths_in_bgr_have_the_planes_of_both_in_rgb():
    files = {"420.jpg": FILES["420.jpg"]}
    rgb, bgr = (
        compared(*paths, files=files, planes="size").pairs[0].planes
        for paths in (
            (REFERENCE, NEAREST),
            (
                "{name: a, preset: opencv-train, colour: bgr}",
                NEAREST.replace("}}", "}, colour: bgr}"),
            ),
        )
    )
    assert [each.mean_abs for each in rgb] == pytest.approx([each.mean_abs for each in bgr])


def test_the_first_stage_that_diverges_is_named(record):
    nearest, pillow = record.pairs
    assert (nearest.first, nearest.largest) == ("decode", "decode")
    assert (pillow.first, pillow.largest) == ("orient", "resize")
    assert "first diverges at decode" in nearest.sentence
    assert "the largest is at resize" in pillow.sentence


def test_kinds_of_images_are_told_apart(record):
    kinds = {each.kind: each for each in record.pairs[0].kinds if each.dimension == "subsampling"}
    assert {kind: each.images for kind, each in kinds.items()} == {
        "4:2:0": 2, "4:4:4": 2, "4:2:2": 1, "grey": 1, "not JPEG": 1,
    }  # fmt: skip
    for kind, each in kinds.items():
        differs = bool(each.decode.max_abs)
        assert differs == (kind in ("4:2:0", "4:2:2"))
        assert each.decode.identical == (0 if differs else each.decode.images)
    turned = {each.kind: each for each in record.pairs[1].kinds if each.dimension == "orientation"}
    assert turned["EXIF 6"].last.mean_abs > turned["upright"].last.mean_abs
    counts = {each.kind: each.images for each in record.census if each.dimension == "format"}
    assert counts == {"JPEG": 6, "PNG": 1}


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("pillow-train", "opencv-train", True),
        ("opencv-train", "timm-eval", True),
        ("opencv-train", "torchpipe-cpu", False),
    ],
)
def test_one_image_of_clipped_grey_has_its_cause_among_others(one, other, told):
    """Pillow's ``convert`` clips 16-bit grey (python-pillow/Pillow #3011)."""
    if other == "torchpipe-cpu":
        pytest.importorskip("torchpipe", reason="needs the extra torchpipe")
    files = {**{f"{n}.png": FILES["picture.png"] for n in range(20)}, "x-ray.png": GREY}
    (pair,) = compared(one, other, files=files).pairs
    levels = cv2.imdecode(np.frombuffer(GREY, np.uint8), cv2.IMREAD_UNCHANGED).astype(int)
    apart = np.abs((levels >> 8) - levels.clip(0, 255)).mean()
    clips = one if one == "pillow-train" else other
    causes = [each.change for each in pair.causes if each.stage == "decode"]
    assert len(causes) == told
    for change in causes:
        assert f"; {clips} clips the levels of 16-bit grey images at 255" in change
        assert change.endswith(f"(1\N{NO-BREAK SPACE}image, {apart:.2f} levels apart)")


def test_stress_shows_what_the_set_hides():
    sharp = {"444.jpg": FILES["444.jpg"], "grey.jpg": FILES["grey.jpg"]}
    stressed = (Stress("420", 90), Stress("444", 90))
    record = compared(REFERENCE, NEAREST, files=sharp, stress=stressed)
    assert record.pairs[0].first is None
    subsampled, full = (each.pairs[0] for each in record.stress)
    assert [each.name for each in record.stress] == ["4:2:0 q90", "4:4:4 q90"]
    assert "libjpeg-turbo" in record.stress[0].encoder
    assert (subsampled.first, subsampled.compared) == ("decode", 2)
    assert full.first is None


def test_coverage_comes_with_reasons_and_decides_the_exit_code(record):
    by_path = {each.preprocess: each for each in record.coverage}
    assert (by_path[REFERENCE].ok, by_path[REFERENCE].corrupt) == (6, 1)
    nearest = by_path["nearest"]
    assert (nearest.corrupt, nearest.unsupported, nearest.ok) == (1, 1, 5)
    assert {each.id: each.outcome for each in nearest.examples} == {
        "picture.png": "unsupported", "bad.jpg": "corrupt",
    }  # fmt: skip
    assert all(each.reason for each in nearest.examples)
    difference = record.coverage_diffs[0]
    assert (difference.only_reference, difference.reference_examples) == (1, ("picture.png",))
    assert difference.only_candidate == 0
    assert not record.covers_alike
    assert exit_code(record) == ExitCode.PASS
    assert exit_code(record, fail_on_coverage=True) == ExitCode.DRIFT


def test_images_that_end_a_decoder_fail_and_the_rest_is_compared():
    paths = named_paths([REFERENCE, REFERENCE], size=48)
    fatal = NamedPath(replace(paths[1].preprocess, name="fatal", decode=FatalDecoder("segfault")))
    files = {name: FILES["420.jpg"] + (MARK if name == "b" else b"") for name in "abc"}
    record = of_paths((paths[0], fatal), files, limits=Limits(seconds=20))
    (bad,) = record.coverage[1].examples
    assert (bad.id, bad.outcome, bad.reason) == ("b", "failed", "crashed: SIGSEGV")
    assert (record.pairs[0].compared, record.pairs[0].first) == (2, None)


def test_a_decoder_that_cannot_run_is_named():
    paths = named_paths([REFERENCE, REFERENCE], size=48)
    broken = NamedPath(replace(paths[1].preprocess, name="broken", decode=BrokenDecoder()))
    with pytest.raises(BackendError, match=r"broken cannot run here: .* crashed: SIGABRT"):
        of_paths((paths[0], broken), FILES)


def test_a_candidate_that_is_not_here_is_skipped_with_its_reason():
    record = compared(REFERENCE, "pillow-train", "torchvision-cuda", files={"a": FILES["444.jpg"]})
    measured, skipped = record.pairs
    assert measured.state == "measured"
    assert (skipped.state, skipped.stages) == ("skipped", ())
    assert "GPU" in skipped.reason
    assert record.paths[2].skipped == skipped.reason
    assert exit_code(record) == ExitCode.MISSING


def test_nothing_that_can_run_is_an_error():
    for paths in ((REFERENCE, "torchvision-cuda"), ("torchvision-cuda", REFERENCE)):
        with pytest.raises(MissingDependency, match="GPU"):
            compared(*paths)


def test_an_image_over_the_limit_is_not_decoded():
    record = compared(REFERENCE, "pillow-train", files={"a": FILES["420.jpg"]}, max_pixels=21_599)
    (bad,) = record.coverage[0].examples
    assert bad.reason.startswith("too large: 180x120 by its header")
    assert record.pairs[0].sentence == "nothing to compare: no image was decoded by both"
    assert exit_code(record) == ExitCode.NOTHING_COMPARED


def test_the_record_is_read_back_as_written(record, tmp_path):
    path = tmp_path / "diff.json"
    write_diff_record(record, path)
    assert read_diff_record(path) == record


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "has no seal"),
        ("{}", "not a record of alignkit diff"),
        ('{"kind": "diff", "format": 99}', "update alignkit"),
        ('{"kind": "diff", "format": 1}', "has no seal"),
        (sealed('{"kind": "diff", "format": 1}'), "reads 2; run the comparison again"),
        (sealed('{"kind": "diff", "format": 2}'), "is damaged"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    (tmp_path / "diff.json").write_text(text)
    with pytest.raises(RecordError, match=message):
        read_diff_record(tmp_path / "diff.json")
    with pytest.raises(RecordError, match="does not exist"):
        read_diff_record(tmp_path / "other.json")


def some_turned(orientation: int, turned: int = 1) -> dict[str, bytes]:
    """Twelve images, the last of them with an EXIF orientation."""
    return {
        f"{at}.jpg": encoded(
            photo(height=60 + at, width=90), exif=exif(orientation if at >= 12 - turned else 1)
        )
        for at in range(12)
    }


@pytest.mark.parametrize(
    ("orientation", "turned"), [(2, 1), (3, 1), (6, 1), (8, 1), (6, 3), (8, 5)]
)
def test_a_stage_that_turns_some_images_shows_no_zero_and_the_sentence_counts_them(
    orientation, turned
):
    files = some_turned(orientation, turned)
    record = compared("pillow-train", "{name: b, preset: pillow-train, orient: exif}", files=files)
    (pair,) = record.pairs
    apart = {}
    for name, data in files.items():
        stored = Image.open(io.BytesIO(data))
        sides = [
            np.asarray(each.resize((48, 48), Image.BILINEAR)).astype(float)
            for each in (stored, ImageOps.exif_transpose(stored))
        ]
        apart[name] = float(np.abs(np.subtract(*sides)).mean())
    far = sorted(each for each in apart.values() if each)
    worst = max(apart, key=apart.__getitem__)
    least, most = (f"{far[place]:.2g}" for place in (0, -1))
    by = most if least == most else f"{least} to {most}"
    name, verb = (worst, "differs") if turned == 1 else (f"most: {worst}", "differ")
    assert pair.sentence.endswith(
        f"; of 12\xa0images, {12 - turned} are equal, {turned} {verb} by {by} levels before "
        f"normalisation ({name})"
    )
    (line,) = [each for each in diff_summary(record).splitlines() if each.startswith("  orient")]
    (section,) = stage_sections(pair.stages, Names(record.paths))
    (row,) = [each for each in section.table.rows if each.cells[0].text == "orient"]
    isolated = stage(pair, "orient", "isolated")
    if orientation >= 5:
        assert isolated.shapes_alone
        assert set(line.split()) <= {"orient", "–", "(a)"}
        assert {each.text for each in row.cells} == {"orient", "–"}
        reason = " ".join(each.text for each in section.table.notes)
        assert (
            f"{12 - turned} of 12\N{NO-BREAK SPACE}images compared; the others have another shape"
            in reason
        )
    else:
        assert not isolated.shapes_alone
        assert f"{isolated.mean_abs:.3f}" in line


def test_images_of_another_size_are_no_zero_either():
    """Two of six have a longer side that floor and nearest tell apart."""
    files = {f"{at}.png": encoded(photo(height=60, width=90 + at), "PNG") for at in range(6)}
    wider = "{name: b, preset: pillow-train, resize: {fit: shorter, rounding: nearest, size: 48}}"
    record = compared(
        "{name: a, preset: pillow-train, resize: {fit: shorter, size: 48}}", wider, files=files
    )
    other = sum(int(48 * (90 + at) / 60) != round(48 * (90 + at) / 60) for at in range(6))
    assert 0 < other < 6
    (line,) = [each for each in diff_summary(record).splitlines() if each.startswith("  resize")]
    said = f"{6 - other} of 6\N{NO-BREAK SPACE}images compared; the others have another shape"
    assert "(a)" in line
    assert f"a: {said}" in diff_summary(record)
