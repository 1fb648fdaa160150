"""Rectangles and masks planted in images: where the model's input has them, and the way back."""

import itertools
from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional

from alignkit.decoders.exif import turn
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.torchpipe import TorchpipeDecoder
from alignkit.preprocess import Crop, Orient, Preprocess, Resize
from alignkit.preprocess.geometry import Geometry
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.resizers.torch import TorchResizer
from tests.photos import encoded, exif, photo

SIDES = [(427, 640), (333, 501), (640, 425), (97, 61)]
"""Heights and widths of upright images."""
OPENCV, PILLOW, TORCH = OpenCVResizer(), PillowResizer(), TorchResizer("bilinear")
RESIZES = {
    "squash": (Resize(OPENCV, (160, 192)), Crop()),
    "squash-cropped": (Resize(PILLOW, (191, 176)), Crop((160, 128))),
    "letterbox": (Resize(OPENCV, (192, 160), "letterbox"), Crop()),
    "letterbox-nearest": (Resize(TORCH, (161, 193), "letterbox", rounding="nearest"), Crop()),
    "letterbox-auto": (Resize(OPENCV, (320, 320), "letterbox", auto=True), Crop()),
    "letterbox-auto-64": (Resize(OPENCV, (256, 192), "letterbox", auto=True, stride=64), Crop()),
    **{
        f"shorter-{rounding}-{half}": (
            Resize(PILLOW, (160, 160), "shorter", 0, rounding), Crop((145, 160), half),
        )
        for rounding, half in (("floor", "even"), ("nearest", "down"), ("even", "up"), ("ceil", "even"))
    },
}  # fmt: skip


def path_of(name: str, **stages: object) -> Preprocess:
    resize, crop = RESIZES[name]
    return replace(Preprocess("path", PillowDecoder(), resize, crop=crop), **stages)


def corners_of(height: int, width: int) -> np.ndarray:
    """A rectangle left and above of the middle, inside any centre crop: its corners."""
    return np.array([[width * 3 // 10, height * 7 // 20, width * 3 // 5, height * 11 // 20]], float)


def stored(upright: np.ndarray, orientation: int, kind: str = "PNG", **options: object) -> bytes:
    """The file of a camera held so that its viewer has to turn it as ``orientation`` says."""
    # quarter turns undo each other; every other orientation undoes itself
    turned = turn(upright, {6: 8, 8: 6}.get(orientation, orientation))
    return encoded(turned, kind, exif=exif(orientation), **(options or {"compress_level": 0}))


def planted(
    path: Preprocess, upright: np.ndarray, corners: np.ndarray, **stored_as
) -> dict[str, np.ndarray]:
    """How much of each pixel of every stage, and of the input (""), shows the rectangle, by images
    with it white and black: whatever is around it cancels."""
    left, top, right, bottom = corners[0].astype(int)
    inputs = []
    for level in (255, 0):
        image = upright.copy()
        image[top:bottom, left:right] = level
        taps = path.taps(stored(image, **stored_as))
        after = {**taps.pixels, "decode": taps.decoded.image, "": taps.last}
        inputs.append(after)
    white, black = inputs
    return {
        stage: (white[stage].astype(float) - black[stage]).mean(axis=2) / 255 for stage in white
    }


def edges(shown: np.ndarray) -> np.ndarray:
    """Corners of the rectangle in the input, to a part of a pixel."""
    row, column = (int(np.median(at)) for at in np.nonzero(shown > 0.9))
    found = []
    for line, middle in ((shown[row], column), (shown[:, column], row)):
        found += [middle - line[:middle].sum(), middle + line[middle:].sum()]
    left, right, top, bottom = found
    return np.array([[left, top, right, bottom]])


@pytest.mark.parametrize("name", RESIZES)
@pytest.mark.parametrize(("height", "width"), SIDES)
def test_a_planted_rectangle_lies_in_the_input_where_the_geometry_says(name, height, width):
    path, upright = path_of(name), photo("china", height, width)
    corners = corners_of(height, width)
    shown = planted(path, upright, corners, orientation=1)[""]
    found = path.geometry(width, height)
    assert (found.input_height, found.input_width) == shown.shape
    # cv2's bilinear looks at two pixels only: an edge between them moves by half a pixel at most
    assert np.abs(edges(shown) - found.to_input(corners)).max() <= 0.5
    np.testing.assert_allclose(found.to_image(found.to_input(corners)), corners, atol=1e-9)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("policy", ["none", "exif"])
def test_corners_are_those_of_the_upright_image_whether_the_path_turns_it_or_not(
    orientation, policy
):
    path, upright = path_of("letterbox", orient=Orient(policy)), photo("flower", 333, 501)
    corners = corners_of(333, 501)
    shown = planted(path, upright, corners, orientation=orientation)[""]
    found = path.geometry(501, 333, orientation)
    assert (found.input_height, found.input_width) == shown.shape
    assert np.abs(edges(shown) - found.to_input(corners)).max() <= 0.5
    np.testing.assert_allclose(found.to_image(found.to_input(corners)), corners, atol=1e-9)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("policy", ["none", "exif"])
def test_corners_are_found_after_every_stage_of_an_image_that_is_turned(orientation, policy):
    path, upright = path_of("shorter-floor-even", orient=Orient(policy)), photo("flower", 333, 501)
    corners = corners_of(333, 501)
    shown = planted(path, upright, corners, orientation=orientation)
    for stage in ("decode", "orient", "resize", "crop"):
        found = path.geometry(501, 333, orientation, stage)
        assert (found.input_height, found.input_width) == shown[stage].shape
        assert np.abs(edges(shown[stage]) - found.to_input(corners)).max() <= 0.5
        np.testing.assert_allclose(found.to_image(found.to_input(corners)), corners, atol=1e-9)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_decoder_that_turns_by_itself_leaves_no_turn_for_the_way_back(orientation):
    path = path_of("letterbox", decode=TorchpipeDecoder())
    upright, corners = photo("flower", 333, 501), corners_of(333, 501)
    jpeg = {"kind": "JPEG", "quality": 100, "subsampling": 0}
    shown = planted(path, upright, corners, orientation=orientation, **jpeg)[""]
    found = path.geometry(501, 333, orientation)
    assert found.orientation == 1
    assert np.abs(edges(shown) - found.to_input(corners)).max() <= 0.5


@pytest.mark.parametrize("size", [(61, 97), (500, 33)])
def test_the_scale_is_that_of_the_sides_as_they_were_rounded(size):
    height, width = functional.resize(torch.zeros(3, *size), [64]).shape[1:]
    path = Preprocess("path", PillowDecoder(), Resize(PILLOW, (64, 64), "shorter"))
    found = path.geometry(size[1], size[0])
    assert (found.scale_x, found.scale_y) == (width / size[1], height / size[0])


def class_plane(height: int, width: int) -> np.ndarray:
    """Blocks of classes 0 to 3, with edges at odd places."""
    rows, columns = np.mgrid[:height, :width]
    return ((rows > height * 0.43) * 2 + (columns > width * 0.61)).astype(np.uint8)


@pytest.mark.parametrize("name", RESIZES)
@pytest.mark.parametrize("orientation", [1, 3, 6, 7])
@pytest.mark.parametrize("stride", [1, 4])
def test_a_planted_mask_comes_back_to_the_image_within_a_cell(name, orientation, stride):
    path, upright = path_of(name), class_plane(333, 501)
    found = path.geometry(501, 333, orientation)
    # its input, sampled by the stages themselves: resized to the nearest class, padded, cropped
    resize, crop = RESIZES[name]
    as_stored = turn(np.stack([upright] * 3, 2), {6: 8, 8: 6}.get(orientation, orientation))
    inner = np.asarray(
        Image.fromarray(as_stored[..., 0]).resize(
            resize.target(*as_stored.shape[:2])[::-1], Image.Resampling.NEAREST
        )
    )
    tall, wide, top, left = resize.canvas(*inner.shape)
    canvas = np.full((tall, wide, 3), 9, np.uint8)
    canvas[top : top + inner.shape[0], left : left + inner.shape[1]] = inner[..., None]
    plane = crop(canvas)[stride // 2 :: stride, stride // 2 :: stride, 0]
    back = found.plane_to_image(plane, unknown=255)
    assert back.shape == upright.shape
    assert back.dtype == np.uint8
    assert np.array_equal(back != 255, found.seen())
    if crop.size is None:
        assert found.seen().all()
    # away from the edges every class is itself; a cell of the plane covers so many pixels
    reach = int(np.ceil((stride + 1) / min(found.scale_x, found.scale_y)))
    window = np.ones((2 * reach + 1,) * 2, np.uint8)
    flat = cv2.erode(upright, window) == cv2.dilate(upright, window)
    # nor is anything sure beside padding or a cut: beyond the image nothing was seen
    seen = cv2.erode(np.pad(found.seen().astype(np.uint8), 1), window)[1:-1, 1:-1] > 0
    flat &= seen
    assert flat.mean() > 0.2
    assert np.array_equal(back[flat], upright[flat])


def test_a_crop_marks_what_it_cut_away():
    found = path_of("shorter-floor-even").geometry(501, 333)
    # 160x240 after the resize, of which 145x160 are kept: rows 8..152, columns 40..199
    edge = (Crop((145, 160)).begin(160, 240), (333 / 160, 501 / 240))
    (top, left), (down, across) = edge
    centres = np.arange(333) + 0.5, np.arange(501) + 0.5
    rows = (centres[0] >= top * down) & (centres[0] < (top + 145) * down)
    columns = (centres[1] >= left * across) & (centres[1] < (left + 160) * across)
    assert np.array_equal(found.seen(), rows[:, None] & columns)


@pytest.mark.parametrize("name", ["squash", "letterbox", "letterbox-auto"])
@pytest.mark.parametrize(("height", "width"), [(333, 501), (97, 61)])
def test_smooth_planes_equal_torchs_bilinear_interpolation_of_the_part_without_padding(
    name, height, width
):
    path = path_of(name)
    found = path.geometry(width, height)
    plane = np.random.default_rng(0).normal(
        size=(3, found.input_height, found.input_width)
    ).astype(np.float32)  # fmt: skip
    tall, wide = path.resize.target(height, width)
    _, _, top, left = path.resize.canvas(tall, wide)
    inner = torch.from_numpy(plane[:, top : top + tall, left : left + wide].copy())[None]
    expected = torch.nn.functional.interpolate(inner, (height, width), mode="bilinear")[0]
    back = found.plane_to_image(plane, unknown=0.0, smooth=True)
    assert back.dtype == np.float32
    np.testing.assert_allclose(back, expected.numpy(), atol=2e-4)


def test_no_rounding_error_lets_padding_into_the_last_row_or_column():
    rng = np.random.default_rng(0)
    auto = Resize(OPENCV, (640, 640), "letterbox", auto=True)
    square = Resize(OPENCV, (512, 512), "letterbox")
    sides = [(auto, 1685, 1327), (auto, 1327, 1685), (square, 1146, 1364), (square, 1364, 1146)]
    sides += [(square, *rng.integers(20, 900, 2).tolist()) for _ in range(20)]
    for resize, width, height in sides:
        found = Preprocess("path", PillowDecoder(), resize).geometry(width, height)
        tall, wide = resize.target(height, width)
        _, _, top, left = resize.canvas(tall, wide)
        plane = np.full((found.input_height, found.input_width), 1e6, np.float32)
        inner = rng.normal(size=(tall, wide)).astype(np.float32)
        plane[top : top + tall, left : left + wide] = inner
        expected = torch.nn.functional.interpolate(
            torch.from_numpy(inner)[None, None], (height, width), mode="bilinear"
        )[0, 0]
        back = found.plane_to_image(plane, unknown=0.0, smooth=True)
        np.testing.assert_allclose(back, expected.numpy(), atol=1e-3)


def test_a_plane_of_a_coarse_stride_is_interpolated_over_the_whole_input():
    found = path_of("squash").geometry(501, 333)
    plane = np.random.default_rng(1).normal(size=(40, 48)).astype(np.float32)
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(plane)[None, None], (333, 501), mode="bilinear"
    )[0, 0]
    back = found.plane_to_image(plane, unknown=0.0, smooth=True)
    np.testing.assert_allclose(back, expected.numpy(), atol=2e-4)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_planes_and_corners_turn_alike(orientation):
    found = path_of("letterbox").geometry(61, 97, orientation)
    for y, x in itertools.product((5, 40), (7, 30)):
        plane = np.zeros((found.input_height, found.input_width), np.uint8)
        corners = found.to_input(np.array([[x, y, x + 20, y + 12]], float))
        left, top, right, bottom = np.round(corners[0]).astype(int)
        plane[top:bottom, left:right] = 1
        back = found.plane_to_image(plane, unknown=255)
        assert back.shape == (97, 61)
        rows, columns = np.nonzero(back == 1)
        box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert np.abs(np.array(box) - [x, y, x + 20, y + 12]).max() <= 1


def test_no_box_is_mapped_to_no_box():
    found = Geometry(10, 20, 30, 40, 3.0, 2.0, 0.0, 0.0, orientation=6)
    assert found.to_image(np.zeros((0, 4))).shape == (0, 4)
    assert found.to_input(np.zeros((0, 4))).shape == (0, 4)
