from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from alignkit.datasets.masks import Masks
from alignkit.errors import ConfigError, DataError, UnreadableImage
from tests.datasets.annotated_case import SIZES, jpeg, mask, masks, write_images

VALUES = {"a": (0, 1), "b": (2, 255, 0), "d": (1,)}
CLASSES = ("ground", "cat", "dog")


@pytest.fixture
def data(tmp_path):
    return Masks(root=masks(tmp_path, VALUES), classes=CLASSES, eval_share=1)


def test_a_mask_is_the_class_of_each_pixel(data):
    samples = data.evaluation()
    assert samples.ids == ("images/a.jpg", "images/b.jpg", "images/d.jpg")
    assert samples.classes == CLASSES
    assert samples.truth == data.truth == "mask"
    pixels = samples.annotations[1].read()
    assert pixels.dtype == np.uint8
    assert pixels.tolist() == np.asarray(mask(*SIZES["b"], *VALUES["b"])).tolist()
    assert samples.annotations[1].present() == (0, 2)


def test_images_without_a_mask_are_left_out_and_counted(data):
    assert [*data.notes()] == [f"{data.root}/images: images without a mask, left out: 1"]


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", ["grey", "palette"])
def test_values_are_read_as_they_are_stored_whatever_the_bits(data, bits, kind):
    import cv2

    values = [0, 1] if bits == 1 else [0, 1, 2]
    image = mask(*SIZES["a"], *values)
    file = data.root / "masks/a.png"
    if kind == "palette":
        image.putpalette([*range(50, 200, 10)])
        image.save(file, bits=bits)
        assert Image.open(io.BytesIO(file.read_bytes())).mode == "P"
    else:
        # OpenCV writes grey of 1 bit alone; the others are packed here
        file.write_bytes(packed(np.asarray(image), bits))
        spread = 255 // (2**bits - 1)
        seen = cv2.imread(str(file), cv2.IMREAD_GRAYSCALE)
        assert (seen // spread).tolist() == np.asarray(image).tolist()
    assert data.evaluation().annotations[0].read().tolist() == np.asarray(image).tolist()


def packed(pixels, bits):
    """Return a grey PNG file of 1, 2, 4 or 8 bits a value, as the specification has it."""
    import struct
    import zlib

    def chunk(kind, content):
        crc = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)

    height, width = pixels.shape
    digits = ((pixels[..., None] >> np.arange(bits)[::-1]) & 1).astype(np.uint8)
    rows = np.packbits(digits.reshape(height, -1), axis=1)
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", data), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_values_can_be_named(data):
    for stem, values in {"a": (0, 7), "b": (9, 7), "d": (200,)}.items():
        mask(*SIZES[stem], *values).save(data.root / "masks" / f"{stem}.png")
    chosen = replace(data, values=(7, 200, 9), ignore=0)
    found = [each.present() for each in chosen.evaluation().annotations]
    assert found == [(0,), (0, 2), (1,)]
    assert set(np.unique(chosen.evaluation().annotations[0].read())) == {0, 255}


@pytest.mark.parametrize(
    "change",
    [
        lambda data: mask(*SIZES["a"], 1, 0).save(data.root / "masks/a.png"),
        lambda data: mask(*SIZES["d"], 255).save(data.root / "masks/d.png"),
        lambda data: (data.root / "masks/d.png").unlink(),
        lambda data: (data.root / "images/a.jpg").write_bytes(jpeg(SIZES["a"], (1, 2, 3))),
    ],
)
def test_every_change_of_a_mask_changes_the_fingerprint(data, change):
    before = data.fingerprint("eval")
    assert before == data.evaluation().fingerprint
    change(data)
    assert data.fingerprint("eval") != before


def test_options_that_change_masks_change_the_fingerprint(data):
    options = [{}, {"values": (1, 0, 2)}, {"ignore": 254}, {"classes": ("x", "y", "z")}]
    assert len({replace(data, **each).fingerprint("eval") for each in options}) == 4


def test_a_mask_of_another_size_is_refused_before_any_is_read(data):
    mask(41, 30, 0).save(data.root / "masks/a.png")
    with pytest.raises(DataError, match=r"masks/a\.png is 41x30, and images/a\.jpg is 40x30"):
        data.fingerprint("eval")
    mask(30, 40, 0).save(data.root / "masks/a.png")
    with pytest.raises(DataError, match="turn it as the image's EXIF orientation says"):
        data.evaluation()
    (data.root / "images/a.jpg").write_bytes(jpeg(SIZES["a"], orientation=5))
    assert data.evaluation().annotations[0].read().shape == (40, 30)


def test_a_value_of_no_class_is_named_where_it_is_first(data):
    mask(*SIZES["a"], 0, 3).save(data.root / "masks/a.png")
    with pytest.raises(DataError, match=r"a\.png has the value 3 at row 0, column 20, of no class"):
        data.evaluation().annotations[0].read()


def test_a_mask_of_colours_a_damaged_one_and_one_of_another_format_are_refused(data):
    file = data.root / "masks/a.png"
    whole = file.read_bytes()
    for image, message in (
        (Image.new("RGB", SIZES["a"]), "has pixels of the kind RGB"),
        (Image.new("I;16", SIZES["a"]), "has pixels of the kind I;16"),
    ):
        image.save(file)
        with pytest.raises(DataError, match=f"a.png {message}"):
            data.evaluation().annotations[0].read()
    for content in (whole[:60], b"no image", jpeg(SIZES["a"])):
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.png is no PNG file that can be decoded"):
            data.evaluation().annotations[0].read()


def test_a_mask_that_changed_since_it_was_listed_is_not_used(data):
    annotation = data.evaluation().annotations[0]
    mask(*SIZES["a"], 1, 0).save(data.root / "masks/a.png")
    with pytest.raises(UnreadableImage, match="changed after it was listed"):
        annotation.read()


def test_a_mask_without_an_image_is_refused(data):
    mask(4, 4, 0).save(data.root / "masks/e.png")
    with pytest.raises(
        DataError, match=r"1 masks have no image in .*images, the first masks/e\.png"
    ):
        data.evaluation()


def test_folders_of_the_sets_are_found_in_both(tmp_path):
    for name in ("train", "val"):
        masks(tmp_path / name, VALUES)
    for kind in ("images", "masks"):
        (tmp_path / kind).mkdir()
        for name in ("train", "val"):
            (tmp_path / name / kind).rename(tmp_path / kind / name)
    data = Masks(root=tmp_path, classes=CLASSES)
    assert data.counts() == (3, 3)
    assert data.evaluation().ids[0] == "images/val/a.jpg"
    assert data.training().ids[0] == "images/train/a.jpg"


def test_folders_can_be_named(tmp_path):
    write_images(tmp_path / "JPEGImages", {"a": (8, 8)})
    (tmp_path / "SegmentationClass").mkdir()
    mask(8, 8, 0, mode="P").save(tmp_path / "SegmentationClass/a.png")
    data = Masks(root=tmp_path, images_dir="JPEGImages", masks_dir="SegmentationClass",
                 classes=("background",), eval_share=1)  # fmt: skip
    assert data.evaluation().ids == ("JPEGImages/a.jpg",)
    with pytest.raises(DataError, match="none is no folder"):
        replace(data, masks_dir="none").evaluation()


@pytest.mark.parametrize(
    "options",
    [
        {"classes": ()},
        {"classes": ("a", "a")},
        {"values": (1,)},
        {"values": (1, 1, 2)},
        {"values": (0, 1, 256)},
        {"values": (0, 1, 255), "ignore": 255},
        {"ignore": 300},
    ],
)
def test_options_out_of_range_are_refused(tmp_path, options):
    with pytest.raises(ConfigError, match=r"classes|values"):
        Masks(root=tmp_path, **{"classes": CLASSES, **options})


BINARY = {"a": (0, 255), "b": (0,), "d": (255, 0)}
"""Masks as many programs save two classes."""


def test_masks_of_0_and_255_are_refused_until_they_say_whether_255_is_a_class(tmp_path):
    data = Masks(root=masks(tmp_path, BINARY), classes=("ground", "cat"), eval_share=1)
    reads = (data.counts, data.evaluation, lambda: data.fingerprint("eval"))
    for read in reads:
        with pytest.raises(DataError) as caught:
            read()
        assert str(caught.value) == (
            f"{tmp_path}/masks: all pixels of the 3 masks have the value 0 (ground) or 255, and 255 "
            "counts for nothing by default; write 'values: [0, 255]' if 255 is cat, or "
            "'ignore: 255' if it is no class"
        )
    named = replace(data, values=(0, 255)).evaluation()
    expected = np.asarray(mask(*SIZES["a"], *BINARY["a"])) // 255
    assert named.annotations[0].read().tolist() == expected.tolist()
    void = replace(data, ignore=255)
    assert {*np.unique(void.evaluation().annotations[0].read()).tolist()} == {0, 255}
    assert void.fingerprint("eval") != replace(data, values=(0, 255)).fingerprint("eval")


@pytest.mark.parametrize(
    ("classes", "values", "advice"),
    [
        (("cat",), {"a": (0, 255)}, "'values: [0, 255]' with two 'classes'"),
        (("ground", "cat"), {"a": (1, 255)}, "'values: [255, 1]' if 255 is ground"),
        (("ground", "cat"), {"a": (255,)}, "'values: [0, 255]' if 255 is cat"),
        (CLASSES, {"a": (0, 255)}, "'values: [0, 255]' with two 'classes'"),
    ],
)
def test_the_advice_is_that_of_the_masks(tmp_path, classes, values, advice):
    data = Masks(root=masks(tmp_path, values), classes=classes, eval_share=1)
    with pytest.raises(DataError) as caught:
        data.evaluation()
    assert advice in str(caught.value)


@pytest.mark.parametrize("values", [{"a": (0,), "b": (0, 255), "d": (1,)}, {"a": (0,), "b": (0,)}])
def test_masks_with_a_second_class_or_without_255_are_read(tmp_path, values):
    data = Masks(root=masks(tmp_path, values), classes=("ground", "cat"), eval_share=1)
    assert len(data.evaluation()) == len(values)


def test_a_stray_pixel_is_no_second_class(tmp_path):
    data = Masks(root=masks(tmp_path, BINARY), classes=("ground", "cat"), eval_share=1)
    large = np.zeros((100, 100), np.uint8)
    large[:, 50:] = 255
    Image.fromarray(np.dstack([large] * 3)).save(tmp_path / "images/e.jpg")
    large[7, 60] = 1  # as a program leaves that smooths an edge
    Image.fromarray(large).save(tmp_path / "masks/e.png")
    said = f"{tmp_path}/masks: all pixels but 1 of the 4 masks have the value 0 (ground) or 255"
    with pytest.raises(DataError) as caught:
        data.evaluation()
    assert str(caught.value).startswith(said)
    large[7, 60:70] = 1
    Image.fromarray(large).save(tmp_path / "masks/e.png")
    assert len(data.evaluation()) == 4


def test_a_first_look_reads_the_first_mask_alone(tmp_path):
    data = Masks(root=masks(tmp_path, BINARY), classes=("ground", "cat"), eval_share=1)
    (tmp_path / "masks/b.png").write_bytes(b"no mask")
    (warning,) = data.first_look()
    assert warning.startswith(
        f"{tmp_path}/masks: all pixels of the first mask have the value 0 (ground) or 255"
    )
    assert not [*replace(data, values=(0, 255)).first_look()]
    assert not [*Masks(root=tmp_path / "nowhere", classes=("a",)).first_look()]
    with pytest.raises(DataError, match=r"the value 255 at row 0, .*, of no class"):
        [*replace(data, ignore=7).first_look()]


def test_values_that_hold_255_leave_nothing_to_ignore(data):
    mask(*SIZES["a"], 0, 254).save(data.root / "masks/a.png")
    named = replace(data, values=(0, 255, 2))
    with pytest.raises(DataError, match="the value 254 at row 0"):
        named.evaluation().annotations[0].read()
    ignoring = replace(named, ignore=254).evaluation()
    assert {*np.unique(ignoring.annotations[0].read()).tolist()} == {0, 255}


def test_a_class_without_pixels_is_noted_where_much_is_ignored_by_default(tmp_path):
    data = Masks(root=masks(tmp_path, {"a": (0, 1, 255)}), classes=CLASSES, eval_share=1)
    (note,) = [each for each in data.notes() if "no pixel" in each]
    share = (np.asarray(mask(*SIZES["a"], 0, 1, 255)) == 255).mean()
    assert note == (
        f"{tmp_path}/images: no pixel is dog, and {share:.0%} have the value 255, which counts for "
        "nothing by default; name it in 'values' if it is a class, or else write 'ignore: 255'"
    )
    for settled in (replace(data, ignore=255), replace(data, values=(0, 1, 255))):
        assert not [each for each in settled.notes() if "no pixel" in each]
    mask(*SIZES["a"], *[0] * 19, 1, 255).save(tmp_path / "masks/a.png")  # a thin border
    assert not [each for each in data.notes() if "no pixel" in each]


def test_the_image_s_bytes_are_those_of_the_file(data):
    samples = data.evaluation()
    assert Image.open(io.BytesIO(samples.read(1))).size == SIZES["b"]
