"""Serving code with one fault: its recorded stages name the stage that has it, and the fault."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.errors import ConfigError, DataError
from alignkit.preprocess import Colour, Crop, Orient, Preprocess, Quantise, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.samples import HeldImages, Samples
from alignkit.search.image_names import samples_named
from alignkit.search.stored_taps import stored_taps
from alignkit.search.tap_blame import blame, nearest_to_the_last
from alignkit.search.tap_report import StageReport, TapReport
from alignkit.search.tap_text import rows, verdict
from alignkit.search.target import preprocess_of
from alignkit.tap_recorder import Tap
from tests.photos import encoded, scene
from tests.search.test_search import photographs

SIDE = 48
PILLOW = {"decoders": ("pillow",), "resizers": ("pillow",)}
ONLY = {"decoders": ("opencv", "simplejpeg"), "resizers": ("opencv", "pillow", "torch")}
MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


@cache
def images():
    return photographs(4)


def decoded(data: bytes, flags: int = cv2.IMREAD_COLOR) -> np.ndarray:
    """Decode as `cv2.imread` does: turned by EXIF, unless a flag says otherwise."""
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), flags), cv2.COLOR_BGR2RGB)


def unturned(data: bytes) -> np.ndarray:
    return decoded(data, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)


def resized(image: np.ndarray) -> np.ndarray:
    return cv2.resize(image, (SIDE, SIDE))


def interpolated(image: np.ndarray, **options: bool) -> np.ndarray:
    pixels = torch.from_numpy(image.copy()).permute(2, 0, 1)[None].float()
    scaled = torch.nn.functional.interpolate(pixels, (SIDE, SIDE), mode="bilinear", **options)
    return scaled[0].permute(1, 2, 0).numpy()


def cropped(image: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    short = round(SIDE * 256 / 224)
    scale = short / min(height, width)
    size = [short if side == min(height, width) else int(side * scale) for side in (width, height)]
    larger = cv2.resize(image, size)
    top, left = (round((side - SIDE) / 2) for side in larger.shape[:2])
    return larger[top : top + SIDE, left : left + SIDE]


def normalised(levels: np.ndarray) -> np.ndarray:
    tensor = (levels.astype(np.float32) / 255 - MEAN) / STD
    return np.ascontiguousarray(tensor.transpose(2, 0, 1)[None])


@dataclass(frozen=True)
class Serving:
    """Three stages of serving code, each right unless it is given."""

    decode: Callable = decoded
    resize: Callable = resized
    normalise: Callable = normalised

    def record(self, folder: Path) -> None:
        tap = Tap()
        tap.to(folder)
        for row, name in enumerate(images().ids):
            image = tap("after_decode", self.decode(images().read(row)), f"/srv/upload/{name}")
            image = tap("after_resize", self.resize(image), f"/srv/upload/{name}")
            tap("model_input", self.normalise(image), f"/srv/upload/{name}")


def reference(name: str = "opencv-train") -> Preprocess:
    return preprocess_of(name, SIDE)


def judged(folder: Path, serving: Serving, path: Preprocess | None = None) -> TapReport:
    serving.record(folder)
    return blame(stored_taps(folder, images()), images(), path or reference(), **ONLY)


def only_fault(report: TapReport, stage: str) -> StageReport:
    assert [each.stage for each in report.stages if each.differs] == [stage]
    first = report.first
    assert first is not None
    assert first.state == "explained"
    return first


def test_right_code_is_the_reference_in_every_stage(tmp_path):
    report = judged(tmp_path, Serving())
    assert report.first is None
    assert [each.stage for each in report.stages] == ["decode", "resize", "normalise"]
    assert all(each.isolated.identical == len(images()) for each in report.stages)
    assert "every recorded stage is the reference's" in verdict(report)


def test_swapped_channels_are_named_where_they_begin(tmp_path):
    first = only_fault(
        judged(tmp_path, Serving(decode=lambda data: decoded(data)[..., ::-1])), "decode"
    )
    assert first.causes[0].text == "channels are in reverse order"
    assert first.explained == 1.0
    assert first.remains == 0.0


def test_swapped_channels_that_are_restored_are_a_note(tmp_path):
    serving = Serving(
        decode=lambda data: decoded(data)[..., ::-1],
        normalise=lambda image: normalised(image[..., ::-1]),
    )
    report = judged(tmp_path, serving)
    assert report.first is None
    assert "held in reverse channel order" in report.stages[0].note
    assert [each.cumulative.identical for each in report.stages] == [len(images())] * 3
    assert "back in the reference's order" in report.stages[2].note


@pytest.mark.parametrize(
    ("serve", "text", "meaning"),
    [
        (
            lambda image: cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_NEAREST),
            "resizer: opencv interpolation=linear → nearest",
            "",
        ),
        (
            lambda image: interpolated(image, align_corners=True),
            "→ torch mode=bilinear align_corners=True",
            "up to half a pixel off",
        ),
        (
            lambda image: interpolated(image, antialias=True),
            "→ torch mode=bilinear antialias=True",
            "antialiased",
        ),
    ],
    ids=["interpolation", "half pixel", "antialias"],
)
def test_a_wrong_resize_is_named_with_its_options(tmp_path, serve, text, meaning):
    first = only_fault(judged(tmp_path, Serving(resize=serve)), "resize")
    (cause,) = first.causes
    assert text in cause.text
    assert meaning in cause.meaning
    assert first.remains < 1e-3


def record_crops(
    folder: Path, *, resample=Image.Resampling.BICUBIC, to_whole=int, half=round, side=SIDE
) -> TapReport:
    """Record timm's evaluation (Pillow, shorter side, centre crop) with some options changed."""
    tap, short = Tap(), SIDE * 8 // 7
    tap.to(folder)
    for row, name in enumerate(images().ids):
        image = Image.open(io.BytesIO(images().read(row))).convert("RGB")
        tap("decode", np.asarray(image), name)
        sizes = [to_whole(short * each / min(image.size)) for each in image.size]
        resized = tap("resize", np.asarray(image.resize(sizes, resample)), name)
        top, left = (half((each - side) / 2) for each in resized.shape[:2])
        tap("crop", resized[top : top + side, left : left + side], name)
    return blame(stored_taps(folder, images()), images(), reference("timm-eval"), **PILLOW)


def test_another_rounding_of_the_longer_side_is_named_with_both_sizes(tmp_path):
    report = record_crops(tmp_path, to_whole=lambda side: int(side + 0.5))
    first = only_fault(report, "resize")
    assert [each.text for each in first.causes] == ["resize.rounding: floor → nearest"]
    assert first.remains == 0.0
    other = first.other_size
    assert other.recorded == np.load(next(tmp_path.glob(f"resize/**/{other.image}*"))).shape[:2]
    sizes = "against the reference's {}x{}".format(*other.reference)
    assert f"{other.images} of {len(images())} images have another size" in verdict(report)
    assert sizes in verdict(report)
    assert sizes in list(rows(report))[1][-1]


def test_a_rounding_and_a_resizer_are_named_together(tmp_path):
    report = record_crops(
        tmp_path,
        to_whole=lambda side: int(side + 0.5),
        resample=Image.Resampling.BILINEAR,
    )
    texts = [each.text for each in only_fault(report, "resize").causes]
    assert texts == [
        "resize.rounding: floor → nearest",
        "resizer: pillow filter=bicubic → bilinear",
    ]


def test_another_half_of_an_odd_margin_is_named_by_its_option(tmp_path):
    first = only_fault(record_crops(tmp_path, half=int), "crop")
    assert [each.text for each in first.causes] == ["crop.half: even → down"]


def test_sizes_without_a_cause_are_shown(tmp_path):
    report = record_crops(tmp_path, to_whole=lambda side: int(side) + 3)
    assert report.first.stage == "resize"
    assert "No cause found: no configuration that was tried gives these sizes" in verdict(report)
    assert "against the reference's" in verdict(report)


def test_another_geometry_is_named(tmp_path):
    first = only_fault(judged(tmp_path, Serving(resize=cropped)), "resize")
    assert first.causes[0].text == (
        f"geometry: squash to {SIDE}x{SIDE} → shorter side to 55, centre crop {SIDE}x{SIDE}"
    )
    assert first.remains == 0.0


def test_another_size_has_no_distance_and_a_cause(tmp_path):
    report = judged(tmp_path, Serving(resize=lambda image: cv2.resize(image, (40, 40))))
    first = report.first
    assert first.stage == "resize"
    assert first.isolated is None
    assert first.causes[0].text == f"resize.size: {SIDE}x{SIDE} → 40x40"


def test_another_normalisation_is_named(tmp_path):
    def halves(image: np.ndarray) -> np.ndarray:
        return (image / 127.5 - 1).astype(np.float32).transpose(2, 0, 1)[None]

    serving = Serving(normalise=halves)
    first = only_fault(judged(tmp_path, serving), "normalise")
    assert first.causes[0].text.startswith("normalisation: -1..1 (mean 0.5/0.5/0.5")


def test_a_decoder_s_switch_is_named_on_full_images(tmp_path):
    from alignkit.decoders.simplejpeg import SimpleJPEGDecoder

    serving = Serving(decode=lambda data: SimpleJPEGDecoder(chroma="nearest").decode(data).image)
    path = replace(reference(), orient=Orient("none"))
    first = only_fault(judged(tmp_path, serving, path), "decode")
    assert "simplejpeg chroma=nearest" in first.causes[0].text


def test_two_faults_are_two_stages(tmp_path):
    serving = Serving(
        resize=lambda image: cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA),
        normalise=lambda image: normalised(image[..., ::-1]),
    )
    report = judged(tmp_path, serving)
    assert [each.stage for each in report.stages if each.differs] == ["resize", "normalise"]
    assert "interpolation=linear → area" in verdict(report)
    assert "Also different, on its own recorded input: normalise" in verdict(report)


def test_a_blur_is_no_diagnosis(tmp_path):
    serving = Serving(resize=lambda image: cv2.GaussianBlur(resized(image), (0, 0), 2.0))
    report = judged(tmp_path, serving)
    assert report.first.stage == "resize"
    assert report.first.state == "not explained"
    assert not report.first.causes
    assert "No cause explains most of it; the nearest is" in verdict(report)


def test_without_a_reference_the_nearest_to_the_last_tap_is_taken(tmp_path):
    Serving(resize=lambda image: interpolated(image, align_corners=True)).record(tmp_path)
    taps = stored_taps(tmp_path, images())
    found = nearest_to_the_last(taps, images(), **ONLY)
    report = blame(taps, images(), found, given=False, **ONLY)
    assert report.first is None
    assert "align_corners=True" in report.reference


def test_values_of_0_to_1_are_read_as_levels(tmp_path):
    serving = Serving(
        resize=lambda image: resized(image).astype(np.float32) / 255,
        normalise=lambda image: normalised(np.rint(image * 255)),
    )
    report = judged(tmp_path, serving)
    assert report.first is None
    assert "0..1" in report.stages[1].note


def record(folder: Path, *stages: str, image: str = "0.jpg", array=None) -> None:
    tap = Tap()
    tap.to(folder)
    for stage in stages:
        tap(stage, np.zeros((4, 4, 3), np.uint8) if array is None else array, image)


def test_names_of_taps_are_stages_by_their_words_or_by_option(tmp_path):
    name = images().ids[0]
    record(tmp_path, "1_imread", "letterbox", "to_rgb", "feed", image=name)
    with pytest.raises(ConfigError, match="tap 'feed': its name is no stage's; say which"):
        stored_taps(tmp_path, images())
    found = stored_taps(tmp_path, images(), {"feed": "normalise"})
    assert [each.stage for each in found.stages] == ["decode", "resize", "colour", "normalise"]
    assert stored_taps(tmp_path, images(), {"feed": "none"}).stages[-1].stage is None
    with pytest.raises(ConfigError, match="did you mean 'feed'"):
        stored_taps(tmp_path, images(), {"fed": "none"})
    with pytest.raises(ConfigError, match="did you mean 'resize'"):
        stored_taps(tmp_path, images(), {"feed": "resiz"})


def samples_of(*names: str) -> Samples:
    return Samples(names, (), (), lambda _: b"", "")


@pytest.mark.parametrize(
    ("recorded", "given", "row"),
    [
        ("dogs/0.jpg", ("cats/0.jpg",), None),
        ("/srv/upload/cats/0.jpg", ("dogs/0.jpg", "cats/0.jpg"), 1),
        ("C:\\upload\\cats\\0.jpg", ("dogs/0.jpg", "cats/0.jpg"), 1),
        ("0.jpg", ("dogs/0.jpg", "cats/0.jpg"), None),
        ("0.jpg", ("dogs/0.jpg", "0.jpg"), 1),
        ("0", ("cats/0.jpg",), 0),
        ("./cats/0", ("a/cats/0.jpg",), 0),
        ("img.v2", ("img.v2.jpg",), 0),
        ("0.png", ("0.jpg", "0.png"), 1),
        ("ts/0.jpg", ("cats/0.jpg",), None),
    ],
)
def test_a_recorded_image_is_a_sample_if_one_path_is_the_end_of_the_other(recorded, given, row):
    assert samples_named([recorded], samples_of(*given)).get(recorded) == row


def test_an_image_of_another_folder_replaces_no_array(tmp_path):
    record(tmp_path, "decode", image="cats/0.jpg")
    record(tmp_path, "decode", image="dogs/0.jpg", array=np.ones((5, 5, 3), np.uint8))
    (stage,) = stored_taps(tmp_path, samples_of("cats/0.jpg")).stages
    assert stage.shapes == {0: (4, 4, 3)}
    with pytest.raises(DataError, match=r"'cats/0.jpg' and 'dogs/0.jpg' .* mean the image '0.jpg'"):
        stored_taps(tmp_path, samples_of("0.jpg"))


def test_a_tap_that_is_left_out_is_not_opened_and_chooses_no_images(tmp_path):
    first, second = images().ids[:2]
    record(tmp_path, "decode", image=first)
    record(tmp_path, "decode", "mask", image=second)
    for file in tmp_path.glob("mask/*.npy"):
        file.write_bytes(b"damaged")
    found = stored_taps(tmp_path, images(), {"mask": "none"})
    assert len(found.rows) == 2
    with pytest.raises(ConfigError, match="no tap is a stage"):
        blame(
            stored_taps(tmp_path, images(), {"mask": "none", "decode": "none"}),
            images(), reference(),
        )  # fmt: skip


def test_two_taps_of_one_stage_are_refused_with_the_option(tmp_path):
    record(tmp_path, "resize_a", "resize_b", image=images().ids[0])
    taps = stored_taps(tmp_path, images())
    with pytest.raises(ConfigError, match="both taken as resize; say which"):
        blame(taps, images(), reference())


def test_folders_without_taps_of_these_images_are_refused(tmp_path):
    with pytest.raises(DataError, match="holds no taps-"):
        stored_taps(tmp_path, images())
    record(tmp_path, "decode", image="other.jpg")
    with pytest.raises(DataError, match=r"recorded was .* 'other.jpg', given"):
        stored_taps(tmp_path, images())


def test_a_line_that_was_cut_off_is_ignored_and_a_damaged_one_is_named(tmp_path):
    record(tmp_path, "decode", image=images().ids[0])
    (log,) = tmp_path.glob("taps-*.jsonl")
    whole = log.read_text()
    log.write_text(whole + whole[:20])
    assert len(stored_taps(tmp_path, images()).stages) == 1
    log.write_text(whole + "{\n")
    with pytest.raises(DataError, match=r"taps-\w+.jsonl:2 is no line of alignkit.tap"):
        stored_taps(tmp_path, images())
    outside = json.loads(whole) | {"file": "../../secret.npy"}
    log.write_text(json.dumps(outside) + "\n")
    with pytest.raises(DataError, match="is not in the folder"):
        stored_taps(tmp_path, images())


def test_a_recorded_image_that_cannot_be_compared_is_left_out_with_its_reason(tmp_path):
    Serving().record(tmp_path)
    (file,) = tmp_path.glob(f"after_resize/**/{images().ids[0]}.npy")
    broken = np.load(file).astype(np.float32)
    broken[0, 0, 0] = np.nan
    np.save(file, broken)
    report = blame(stored_taps(tmp_path, images()), images(), reference(), **ONLY)
    assert report.stages[1].left_out == ((images().ids[0], "the array holds NaN or infinity"),)
    assert report.first is report.stages[1]
    assert report.first.state == "not explained"
    assert (
        f"First difference: resize (tap after_resize). 1 of {len(images())} images could not be "
        f"compared; first: {images().ids[0]}: the array holds NaN or infinity."
    ) in verdict(report)


@pytest.mark.parametrize("reverse", [False, True])
def test_stages_of_nan_alone_are_never_the_reference_s(tmp_path, reverse):
    def broken(image: np.ndarray) -> np.ndarray:
        return np.full((SIDE, SIDE, 3), np.nan, np.float32)

    order = -1 if reverse else 1
    serving = Serving(decode=lambda data: decoded(data)[..., ::order], resize=broken)
    report = judged(tmp_path, serving)
    assert [each.state for each in report.stages[1:]] == ["not explained", "not explained"]
    assert not any("no cause" in row[-1] for row in rows(report))
    assert [row[2] for row in rows(report)][1] == "the array holds NaN or infinity"
    assert f"{len(images())} of {len(images())} images could not be compared" in verdict(report)
    assert "shape" not in verdict(report)


def test_a_reversed_stage_with_an_image_left_out_is_not_called_the_same(tmp_path):
    def one_broken(image: np.ndarray) -> np.ndarray:
        small = resized(image).astype(np.float32)
        if not seen:
            small[0, 0] = np.nan
        seen.append(1)
        return small

    seen: list[int] = []
    serving = Serving(
        decode=lambda data: decoded(data)[..., ::-1],
        resize=lambda image: one_broken(image[..., ::-1]),
    )
    assert judged(tmp_path, serving).stages[1].state == "not explained"


def test_an_ignored_exif_orientation_is_named(tmp_path):
    first = only_fault(judged(tmp_path, Serving(decode=unturned)), "resize")
    assert first.causes[0].text == "EXIF orientation ignored"
    assert first.remains == 0.0


def test_an_exif_orientation_that_the_reference_ignores_is_named_at_decode(tmp_path):
    path = replace(reference(), orient=Orient("none"))
    first = only_fault(judged(tmp_path, Serving(), path), "decode")
    assert first.causes[0].text.startswith("EXIF orientation applied")
    assert first.isolated is None


def test_arrays_that_are_no_colour_images_are_left_out_with_the_reason(tmp_path):
    serving = Serving(
        resize=lambda image: resized(image).mean(axis=-1).astype(np.float32),
        normalise=lambda image: normalised(np.repeat(image[..., None], 3, axis=-1)),
    )
    report = judged(tmp_path, serving)
    first = report.first
    assert first.stage == "resize"
    assert first.state == "not explained"
    assert "is no image of three channels" in first.left_out[0][1]


def still(side=SIDE, grey=False):
    """Images that no stage of these changes: of the size already, and not turned."""
    whole = [scene(at, side, side) for at in range(4)]
    if grey:
        whole = [np.repeat(each[..., :1], 3, axis=2) for each in whole]
    files = tuple(encoded(each, "PNG") for each in whole)
    return Samples(tuple(f"{at}.png" for at in range(4)), (), (), HeldImages(files), "0" * 64)


AT_SIZE = Resize(OpenCVResizer(), (SIDE, SIDE))
PLAIN = Preprocess("plain", OpenCVDecoder(), AT_SIZE)
IDLE = {
    "a resize to the size that they have": (PLAIN, ("resize",), still(), ["resize"]),
    "another resizer": (
        replace(PLAIN, resize=Resize(PillowResizer(), (SIDE, SIDE))), ("resize",), still(), ["resize"],
    ),
    "a crop of the size that they have": (
        replace(PLAIN, crop=Crop((SIDE, SIDE))), ("resize", "crop"), still(), ["resize", "crop"],
    ),
    "a turn of files that say none": (
        replace(PLAIN, orient=Orient("exif")), ("orient", "resize"), still(), ["orient", "resize"],
    ),
    "a rounding of bytes": (
        replace(PLAIN, quantise=Quantise("round")), ("resize", "quantise"), still(), ["resize", "quantise"],
    ),
    "an order of channels of grey images": (
        replace(PLAIN, colour=Colour("bgr")), ("resize", "colour"), still(grey=True), ["resize", "colour"],
    ),
    "within the stages up to the tensor": (PLAIN, ("normalise",), still(), ["resize"]),
    "nothing: they have another size": (PLAIN, ("resize",), still(SIDE + 9), []),
}  # fmt: skip


@pytest.mark.parametrize("case", IDLE)
def test_a_stage_that_leaves_every_image_as_it_is_is_not_called_the_references(tmp_path, case):
    path, stages, samples, unshown = IDLE[case]
    tap = Tap()
    tap.to(tmp_path)
    for row, name in enumerate(samples.ids):
        taps = path.taps(samples.read(row))
        arrays = {**taps.pixels, "normalise": path.normalise(taps.last)}
        for stage in ("decode", *stages):
            tap(stage, arrays[stage], name)
    report = blame(stored_taps(tmp_path, samples), samples, path, **ONLY)
    said = verdict(report)
    assert report.first is None
    assert [stage for each in report.stages for stage in each.unshown] == unshown
    states = {each.stage: each.state for each in report.stages if each.stage in unshown}
    assert set(states.values()) <= {"idle"}
    assert ("Not shown" in said) == bool(unshown)
    assert ("is the reference's" in said) == (not unshown)
    for stage in unshown:
        assert stage in said.splitlines()[1]
