"""`NvjpegModelDecoder`: with libjpeg's steps it is libjpeg-turbo, with its own nvJPEG's stored output."""

import hashlib
import json
import os
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import cv2
import jpeglib
import numpy as np
import pytest
import scipy.fft

from alignkit.decoders import inverse_dct, jpeg_coefficients, jpeg_colour
from alignkit.decoders.jpeg_coefficients import CodedPlane, Coefficients, read_coefficients
from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.preprocess.jpeg_header import read_jpeg_header
from alignkit.preprocess.stress import SUBSAMPLINGS, Stress
from alignkit.stored_file import read_sealed
from alignkit.studies.calibrate import SHIPPED
from tests.photos import encoded, photo

LIBJPEG = {
    "smooth": NvjpegModelDecoder("interpolate", "islow", "round"),
    "nearest": NvjpegModelDecoder("repeat", "islow", "round"),
}
"""simplejpeg's name of the upsampling → the same from this decoder."""
SIZES = ((1, 1), (2, 3), (8, 8), (9, 200), (61, 97), (200, 5), (33, 50))
RECORD = json.loads(read_sealed(SHIPPED / "nvjpeg-model.json"))
MEASURED = [pair for pair in RECORD["pairs"] if pair["state"] == "measured"]


def noise(height: int, width: int) -> np.ndarray:
    rng = np.random.default_rng(height * width)
    return rng.integers(0, 256, (height, width, 3), np.uint8)


def with_factors(tmp_path, factors: list[tuple[int, int]]) -> bytes:
    """A photo whose components have these sampling factors, (down, across)."""
    file = jpeglib.from_spatial(np.ascontiguousarray(photo()))
    file.samp_factor = factors
    file.write_spatial(str(tmp_path / "a.jpg"))
    return (tmp_path / "a.jpg").read_bytes()


def patched(encoded: bytes, changes: dict[int, int]) -> bytes:
    """The file with other bytes in its frame header, counted from the marker."""
    changed = bytearray(encoded)
    for offset, value in changes.items():
        changed[encoded.index(b"\xff\xc0") + offset] = value
    return bytes(changed)


@pytest.mark.parametrize("subsampling", [*SUBSAMPLINGS, "grey"])
@pytest.mark.parametrize("chroma", LIBJPEG)
def test_with_libjpegs_steps_it_equals_libjpeg_turbo(subsampling, chroma):
    for size in SIZES:
        for image, quality in ((photo("flower", *size), 90), (noise(*size), 30)):
            if subsampling == "grey":
                file = encoded(image[..., 0], quality=quality)
            else:
                file = Stress(subsampling, quality).encode(image)
            expected = SimpleJPEGDecoder(chroma).decode(file).image
            assert np.array_equal(LIBJPEG[chroma].decode(file).image, expected), (size, quality)


@pytest.mark.parametrize(
    "factors",
    [
        [(2, 4), (1, 1), (1, 1)],  # 4:1:0
        [(4, 1), (1, 1), (1, 1)],  # 4:4:1
        [(1, 3), (1, 1), (1, 1)],
        [(2, 2), (2, 2), (1, 1)],  # two sizes of chroma
        [(1, 1), (1, 2), (1, 2)],  # chroma finer than luma
    ],
)
def test_samplings_that_simplejpeg_cannot_name_are_decoded_as_by_pillow(tmp_path, factors):
    file = with_factors(tmp_path, factors)
    decoded = LIBJPEG["smooth"].decode(file)
    assert decoded.outcome == "ok"
    assert np.array_equal(decoded.image, PillowDecoder().decode(file).image)
    assert NvjpegModelDecoder().decode(file[: len(file) // 2]).outcome == "corrupt"


def test_with_libjpegs_steps_photographs_equal_libjpeg_turbo(shared_data):
    files = [file.read_bytes() for file in sorted((shared_data / "photos").glob("*"))]
    assert {read_jpeg_header(file).subsampling for file in files} >= {"4:2:0", "4:4:4", "4:2:2"}
    for index, file in enumerate(files):
        for chroma in list(LIBJPEG)[: 2 if index % 3 == 0 else 1]:
            expected = SimpleJPEGDecoder(chroma).decode(file).image
            assert np.array_equal(LIBJPEG[chroma].decode(file).image, expected)


def test_the_float_transform_is_the_inverse_dct_rounded_half_to_even(jpegs):
    for kind in ("420", "low-quality", "grey"):
        file = read_coefficients(jpegs[kind])
        samples = inverse_dct.planes_of(file, inverse_dct.samples_in_float)
        for plane, found in zip(file.planes, samples, strict=True):
            blocks = file.blocks[plane.start : plane.stop].astype(float) * plane.steps
            exact = scipy.fft.idctn(blocks.reshape(-1, 8, 8), axes=(1, 2), norm="ortho") + 128
            rows = exact.reshape(plane.block_rows, plane.block_columns, 8, 8)
            exact = rows.transpose(0, 2, 1, 3).reshape(found.shape)
            decided = np.abs(exact % 1 - 0.5) > 1e-4
            assert decided.mean() > 0.5
            assert np.array_equal(found[decided], np.rint(exact).clip(0, 255)[decided])
    # a block of one level, 128.5 and 129.5
    blocks = np.zeros((2, 64), np.int16)
    blocks[:, 0] = 4, 12
    assert (inverse_dct.samples_in_float(of_blocks(blocks)) == [[128], [130]]).all()


def of_blocks(blocks: np.ndarray, step: int = 1) -> Coefficients:
    """A grey file of these blocks in one row, all quantised by one step."""
    plane = CodedPlane(1, len(blocks), 0, np.full(64, step, np.float32), 1, 1)
    return Coefficients(8, 8 * len(blocks), blocks, (plane,))


def pass_of_dct8x8(given: np.ndarray) -> np.ndarray:
    """One pass of NVIDIA's sample, (8, ...) in float32: the second product alone is not fused."""
    a, b, c = np.float32([1.387039845322148, 1.306562964876377, 1.175875602419359])
    d, e, f = np.float32([0.785694958387102, 0.541196100146197, 0.275899379282943])
    x0, x1, x2, x3, x4, x5, x6, x7 = given

    def total(first, second, *others):
        value = second[0] * second[1]
        for constant, values in (first, *others):
            wide = values.astype(np.float64) * float(constant) + value
            value = wide.astype(np.float32)
        return value

    outer, inner = total((b, x2), (e, x6)), total((e, x2), (-b, x6))
    even = (x0 + x4) + outer, (x0 - x4) + inner, (x0 - x4) - inner, (x0 + x4) - outer
    odd = (
        total((f, x7), (a, x1), (c, x3), (d, x5)),
        total((c, x1), (-d, x7), (-f, x3), (-a, x5)),
        total((d, x1), (c, x7), (-a, x3), (f, x5)),
        total((-a, x7), (f, x1), (-d, x3), (c, x5)),
    )
    added = [x + y for x, y in zip(even, odd, strict=True)]
    return np.stack([*added, *(x - y for x, y in zip(even[::-1], odd[::-1], strict=True))])


def by_dct8x8(file: Coefficients) -> np.ndarray:
    """All blocks in the order of NVIDIA's sample, one grey plane."""
    scale = np.float32(0.3535533905932737)
    levels = (file.blocks * file.planes[0].steps).reshape(-1, 8, 8)
    rows = pass_of_dct8x8(levels.transpose(1, 2, 0)) * scale
    both = pass_of_dct8x8(rows.transpose(1, 0, 2)).astype(np.float64)
    fused = (both * float(scale) + 128).astype(np.float32)
    return np.rint(fused).clip(0, 255).astype(np.uint8).transpose(2, 1, 0).reshape(-1, 64)


@pytest.mark.parametrize("step", [1, 3, 255, 65535])
def test_a_product_of_matrices_changes_no_sample_of_nvjpegs_order(step):
    rng = np.random.default_rng(step)
    kinds = [
        rng.integers(-400, 400, (1500, 64)) // step,
        rng.normal(0, 1, (1500, 64)) * 300 / np.arange(1, 65) ** 1.2 / step,
        rng.integers(-8, 9, (700, 64)) * np.isin(np.arange(64), (0, 4, 32, 36)),  # halves abound
        rng.integers(-1024, 1024, (300, 64)) * (np.arange(64) == 0),
        rng.integers(-(1 << 15), 1 << 15, (77, 64)),
        np.full((1, 64), -(1 << 15)),
    ]
    file = of_blocks(np.concatenate(kinds).astype(np.int16), step)
    assert np.array_equal(inverse_dct.samples_in_float(file), by_dct8x8(file))


def test_a_product_and_a_sum_are_rounded_once():
    rng = np.random.default_rng(0)
    for constant in np.float32([1.387039845322148, 0.3535533905932737]):
        values, addend = (rng.normal(0, 300, 500).astype(np.float32) for _ in "xy")
        found = inverse_dct._add_products(addend, values, constant)
        for x, y, z in zip(values, addend, found, strict=True):
            exact = Fraction(float(constant)) * Fraction(float(x)) + Fraction(float(y))
            near = z, np.nextafter(z, np.float32(np.inf)), np.nextafter(z, np.float32(-np.inf))
            assert min(near, key=lambda each: abs(Fraction(float(each)) - exact)) == z


@pytest.mark.parametrize("rounding", ["truncate", "even"])
def test_colours_are_jfifs_formula_made_whole_and_clipped(rounding):
    chroma = np.arange(256)
    blue, red = (plane.astype(np.uint8) for plane in np.meshgrid(chroma, chroma))
    b, r = (plane.astype(int) - 128 for plane in (blue, red))
    for level in (0, 90, 128, 255):
        found = jpeg_colour.rgb(np.full_like(blue, level), blue, red, (1, 1), rounding)
        millionths = [1402000 * r, -344136 * b - 714136 * r, 1772000 * b]
        sums = [each + 1000000 * level for each in millionths]
        expected = [each // 1000000 for each in sums]
        if rounding == "even":  # whole numbers, so that a half is one
            below = [
                (each % 1000000, whole % 2) for each, whole in zip(sums, expected, strict=True)
            ]
            up = [(rest > 500000) | ((rest == 500000) & (odd == 1)) for rest, odd in below]
            expected = [whole + more for whole, more in zip(expected, up, strict=True)]
        assert np.array_equal(found, np.stack(expected, axis=-1).clip(0, 255))


def test_neutral_pixels_keep_their_level_and_coloured_ones_lose_half_a_level(jpegs):
    grey = encoded(photo()[..., 0])
    rounded = NvjpegModelDecoder(colour="round")
    assert np.array_equal(NvjpegModelDecoder().decode(grey).image, rounded.decode(grey).image)
    lost = NvjpegModelDecoder().decode(jpegs["444"]).image - rounded.decode(
        jpegs["444"]
    ).image.astype(int)
    assert set(np.unique(lost)) == {-1, 0}
    assert -0.6 < lost.mean() < -0.4


@pytest.mark.parametrize("pair", MEASURED, ids=lambda pair: pair["name"])
def test_stored_output_of_nvjpeg_is_reproduced(shared_data, pair):
    (file,) = (shared_data / "nvjpeg-pairs").glob(f"{pair['name']}.jpg")
    (output,) = set(file.parent.glob(f"{pair['name']}.*")) - {file}
    for kind, path in (("jpeg", file), ("output", output)):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == pair["sha256"][kind]
    header = read_jpeg_header(file.read_bytes())
    assert f"{header.subsampling} {header.coding}" == pair["kind"]
    size = header.height, header.width, 3
    if output.suffix == ".bmp":
        stored = cv2.imread(str(output))[..., ::-1]
    else:
        stored = np.frombuffer(output.read_bytes()[-np.prod(size) :], np.uint8).reshape(size)
    decoders = {
        "nvjpeg-model": NvjpegModelDecoder(),
        "simplejpeg chroma=nearest": SimpleJPEGDecoder("nearest"),
        "simplejpeg": SimpleJPEGDecoder(),
    }
    compared = slice(pair["rows_compared"])
    assert stored[compared].size == pair["samples"]
    for name, figures in pair["decoders"].items():
        image = decoders[name].decode(file.read_bytes()).image
        off = np.abs(image[compared].astype(int) - stored[compared])
        assert (np.count_nonzero(off), off.max()) == (figures["wrong"], figures["greatest"]), name


EVIDENCE = Path(__file__).parents[2] / "benchmarks" / "gpu"
RULES_OF_13 = {
    "nvjpeg-default": NvjpegModelDecoder("repeat", "float-up", "even", engine=True),
    "nvjpeg-default-fancy": NvjpegModelDecoder("interpolate", "float-up", "even", engine=True),
    "nvimgcodec-hybrid": NvjpegModelDecoder("repeat", "float-up", "even"),
    "nvimgcodec-hybrid-fancy": NvjpegModelDecoder("interpolate", "float-up", "even"),
}
"""Way to decode of benchmarks/gpu → its rule. nvImageCodec's hybrid backend leaves out the engine."""
TIES = {"444-baseline-noise-q30.jpg", "exact-444-colour-whole1.jpg"}
"""Files whose pixels another order of sums decides, on the cores."""


@pytest.mark.parametrize("way", RULES_OF_13)
def test_what_an_h100_made_of_the_probes_is_reproduced_to_the_last_bit(way):
    """Of valid files; nvJPEG reads quantisers of 16 bits and RGB otherwise than JPEG says."""
    stored, compared, kinds = (
        json.loads((EVIDENCE / "evidence/probes.json").read_text())[way],
        0,
        set(),
    )
    for name, theirs in stored.items():
        kind = "-".join(name.split("-")[:2])
        left_out = kind.endswith(("truncated", "broken", "extended"))
        if left_out or (way.startswith("nvimgcodec") and name in TIES):
            continue
        decoded = RULES_OF_13[way].decode((EVIDENCE / "probes" / name).read_bytes())
        if theirs.startswith("refused") or decoded.image is None:
            continue
        shape = f"{decoded.image.shape}{decoded.image.dtype}".encode()
        ours = hashlib.sha256(shape + decoded.image.tobytes()).hexdigest()[:16]
        assert ours == theirs, name
        compared += 1
        kinds.add(kind)
    assert compared > 140
    assert {"420-baseline", "422-progressive", "440-baseline", "411-baseline"} <= kinds


def test_without_the_release_or_the_engine_the_pixels_of_an_h100_differ():
    """The comparison can fail: each option of the rule is needed."""
    stored = json.loads((EVIDENCE / "evidence/probes.json").read_text())["nvjpeg-default"]
    rule = RULES_OF_13["nvjpeg-default"]
    for name, other in (
        ("420-baseline-china-q85.jpg", replace(rule, upsampling="interpolate")),
        ("420-baseline-china-q85.jpg", replace(rule, engine=False)),
        ("444-progressive-china-q75.jpg", replace(rule, dct="float")),
        ("444-progressive-china-q75.jpg", replace(rule, colour="round")),
        ("444-progressive-china-q75.jpg", replace(rule, colour="truncate")),
    ):
        image = other.decode((EVIDENCE / "probes" / name).read_bytes()).image
        ours = hashlib.sha256(f"{image.shape}{image.dtype}".encode() + image.tobytes()).hexdigest()
        assert ours[:16] != stored[name]


def test_the_record_says_what_was_measured_and_what_is_published():
    assert {pair["state"] for pair in RECORD["pairs"]} == {"measured", "published"}
    wrong = sum(pair["decoders"]["nvjpeg-model"]["wrong"] for pair in MEASURED)
    samples = sum(pair["samples"] for pair in MEASURED)
    told = RECORD["summary"]["decode (repeat, float, truncate)"]
    assert told.startswith("decode verified for 4:2:0 and 4:4:4 baseline (stored nvJPEG output ")
    assert f": {wrong} of {samples:,} samples differ (other kinds: same rule, " in told
    verified = {kind for kind, word in RECORD["kinds"].items() if word == "verified"}
    assert verified == {pair["kind"] for pair in MEASURED}
    assert all(pair["cuda"] in told for pair in MEASURED)


def test_files_of_other_kinds_are_unsupported_with_the_reason(jpegs):
    plain = encoded(photo(), subsampling="4:2:0")
    for file, reason in (
        (jpegs["cmyk"], "colour mode CMYK"),
        (encoded(photo(), keep_rgb=True), "colour mode RGB"),
        (patched(plain, {1: 0xC9}), "arithmetic coding"),
        (patched(plain, {4: 12}), "precision 12"),
        (patched(plain, {11: 0x32, 14: 0x21}), "no whole ratio"),
        (encoded(photo(), "PNG"), "not a JPEG"),
    ):
        decoded = NvjpegModelDecoder().decode(file)
        assert decoded.outcome == "unsupported", decoded
        assert reason in decoded.reason


def test_a_truncated_file_is_corrupt_with_the_pixels_it_has(jpegs):
    whole, cut = (NvjpegModelDecoder().decode(jpegs["420"][:end]) for end in (None, -200))
    assert cut.outcome == "corrupt"
    assert "premature end" in cut.reason.lower()
    assert np.array_equal(cut.image[:16], whole.image[:16])


@pytest.mark.parametrize("folder", ["odd-jpegs", "hostile-jpegs"])
def test_no_file_is_ok_that_libjpeg_turbo_warns_of(shared_data, capfd, folder):
    for file in sorted((shared_data / folder).rglob("*.jpg")):
        data = file.read_bytes()
        libjpeg, found = (each.decode(data) for each in (SimpleJPEGDecoder(), NvjpegModelDecoder()))
        known = "subsampling" not in libjpeg.reason
        assert not (known and found.outcome == "ok" and libjpeg.outcome != "ok"), file
        assert not (known and found.image is not None and libjpeg.image is None), file
    assert not capfd.readouterr().out


def test_a_header_on_which_parsers_may_differ_reaches_no_c_code(jpegs, monkeypatch):
    monkeypatch.setattr(jpeg_coefficients, "_library", lambda: pytest.fail("C code was called"))
    plain = jpegs["420"]
    frame = plain.index(b"\xff\xc0")
    length = 2 + int.from_bytes(plain[frame + 2 : frame + 4])
    for file in (
        plain[:frame] + b"junk" + plain[frame:],
        plain[: frame + length] + plain[frame:],
        patched(plain, {9: 2}),
        patched(plain, {11: 0x02}),
        patched(plain, {5: 0, 6: 0}),
        plain[: frame + 6],
    ):
        with pytest.raises(jpeg_coefficients.UnreadableJpeg):
            read_coefficients(file)


def test_coefficients_are_read_from_a_file_where_memory_has_no_path(jpegs, monkeypatch):
    expected = NvjpegModelDecoder().decode(jpegs["420"]).image
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert np.array_equal(NvjpegModelDecoder().decode(jpegs["420"]).image, expected)


def test_it_leaves_the_libjpeg_that_a_process_has_chosen_in_jpeglib(jpegs):
    before = jpeglib.version.get()
    NvjpegModelDecoder().decode(jpegs["420"])
    assert jpeglib.version.get() == before


def test_its_version_names_the_codec_that_ran():
    version = NvjpegModelDecoder().version()
    assert re.search(rf"jpeglib {re.escape(jpeglib.__version__)}, libjpeg-turbo \d+\.\d+", version)
