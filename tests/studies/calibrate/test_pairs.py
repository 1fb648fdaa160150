"""Stored pixels and the rules that reproduce them, with decoders of this machine as the unknown."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.errors import ConfigError, DataError, NothingCompared
from alignkit.isolation.worker import Encoded
from alignkit.progress import NoProgress
from alignkit.search.configurations import variants
from alignkit.stored_file import file_sha256
from alignkit.studies.calibrate import SHIPPED, pair_rules
from alignkit.studies.calibrate.pair_fits import fits_of
from alignkit.studies.calibrate.pair_record import pairs_record
from alignkit.studies.calibrate.pair_rules import DecodeRule, Gap, compare_pairs, gap_of
from alignkit.studies.calibrate.pair_summary import answer, pairs_summary
from alignkit.studies.calibrate.recorder_file import recorder_jpegs
from alignkit.studies.calibrate.stored_pairs import pixels_of, stored_pairs
from tests.fatal_decoders import MARK, FatalDecoder

RULES = (
    *(DecodeRule(each, "nvjpeg-model") for each in variants(NvjpegModelDecoder)),
    *(DecodeRule(each, "simplejpeg") for each in variants(SimpleJPEGDecoder)),
    DecodeRule(OpenCVDecoder(), "opencv"),
)
JPEGS = recorder_jpegs()
SHIPPED_NAMES = {
    "nvjpeg-model": "nvjpeg-model (repeat, float, truncate)",
    "simplejpeg chroma=nearest": "simplejpeg (nearest, islow)",
    "simplejpeg": "simplejpeg (smooth, islow)",
}
"""Names of decoders in the shipped record → rules."""
ORDINARY = "libjpeg-turbo (interpolate, islow, round)"


def write(folder, decoder, names=JPEGS, change=lambda pixels: pixels):
    """Pairs in which ``decoder`` is the unknown."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(JPEGS[name])
        pixels = change(decoder.decode(JPEGS[name]).image)
        np.save((folder / name).with_suffix(".npy"), pixels)


def compared(folder, rules=RULES, **rows):
    stored = stored_pairs(folder, rows)
    outcomes = compare_pairs(stored, rules, NoProgress())
    return stored, outcomes, fits_of(stored, outcomes, rules, "kind")


def told(folder, rules=RULES, **rows):
    return pairs_summary("here", *compared(folder, rules, **rows)).replace("\N{NO-BREAK SPACE}", "")


def test_nvjpegs_rule_and_libjpegs_are_each_found_on_every_kind_of_jpeg(tmp_path):
    write(tmp_path / "a", NvjpegModelDecoder())
    write(tmp_path / "b", SimpleJPEGDecoder())
    for name in "ab":
        (tmp_path / name / "facts.json").write_text("{}")
    stored, outcomes, fits = compared(tmp_path)
    text = pairs_summary("here", stored, outcomes, fits)
    assert len(text.splitlines()) < 12  # tables are of single sources, or of kinds without a rule
    assert text.endswith("the whole table of one: --pairs here/a")
    ours, ordinary = ([fit for fit in fits if fit.source is each] for each in stored.sources)
    kinds = {f"{each} baseline" for each in ("4:2:0", "4:4:4", "4:2:2", "4:4:0", "4:1:1", "grey")}
    kinds |= {f"{each} progressive" for each in ("4:2:0", "4:4:4", "4:2:2", "grey")}
    assert {each.name for each in ours} == {each.name for each in ordinary} == kinds
    assert {each.best.title for each in ours} == {"nvjpeg-model (repeat, float, truncate)"}
    assert {each.best.title for each in ordinary} == {ORDINARY}
    assert not any(each.best.gap.wrong for each in fits)
    assert all(each.best.reproduces for each in fits)
    # without chroma to upsample, or at a ratio that libjpeg repeats too, rules decode alike
    alike = {each.name.partition(" ")[0] for each in ours if each.best.alike}
    assert alike == {"4:4:4", "4:1:1", "grey"}


@pytest.mark.parametrize("colour", ["black", "white", "grey", (90, 90, 90), (128, 128, 128)])
def test_files_of_one_even_grey_name_no_rule(tmp_path, colour):
    """Every decoder gives them the same pixels, whichever made those."""
    data = io.BytesIO()
    Image.new("RGB", (64, 64), colour).save(data, "JPEG", quality=90, subsampling=2)
    (tmp_path / "even.jpg").write_bytes(data.getvalue())
    np.save(tmp_path / "even.npy", np.asarray(Image.open(data)))
    text = told(tmp_path)
    assert "reproduces" not in text
    assert f"cannot tell nvjpeg-model (repeat, float, truncate) from {ORDINARY}" in text


def test_an_unknown_rule_is_called_unknown_and_the_nearest_is_named(tmp_path):
    rng = np.random.default_rng(0)

    def noisy(pixels):
        return np.clip(pixels + rng.integers(-2, 3, pixels.shape), 0, 255).astype(np.uint8)

    write(tmp_path, NvjpegModelDecoder(), change=noisy)
    *_, fits = compared(tmp_path)
    assert not any(each.best.reproduces for each in fits)
    said = answer(fits)
    assert said.startswith("No rule of this machine reproduces 4:1:1 baseline, 4:2:0 baseline, ")
    assert "; nvjpeg-model (repeat, float, truncate) comes nearest: " in said
    assert "pairs it reproduces" not in said


def test_of_a_folder_that_two_decoders_filled_it_is_said_how_many_pairs_a_rule_reproduces(tmp_path):
    names = [name for name in JPEGS if name.startswith("420-baseline")]
    names.sort(key=lambda name: "large" not in name)  # the largest decides which is nearest
    write(tmp_path, NvjpegModelDecoder(), names[:2])
    write(tmp_path, OpenCVDecoder(), names[2:])
    said = answer(compared(tmp_path)[2])
    assert said.startswith(
        "No rule of this machine reproduces 4:2:0 baseline; nvjpeg-model (repeat"
    )
    assert said.endswith(f"; of {len(names)} pairs it reproduces 2.")


def test_a_few_samples_off_by_one_level_are_counted_and_one_by_two_levels_is_another_rule(tmp_path):
    name = "420-baseline-large-208x160.jpg"

    def changed(by):
        def change(pixels):
            pixels.flat[np.flatnonzero(pixels < 200)[:3]] += by
            return pixels

        return change

    write(tmp_path / "one", NvjpegModelDecoder(), [name], changed(1))
    write(tmp_path / "two", NvjpegModelDecoder(), [name], changed(2))
    near = answer(compared(tmp_path / "one")[2]).replace("\N{NO-BREAK SPACE}", "")
    assert near.endswith("reproduces 4:2:0 baseline: 3 of 99840 samples differ, by 1 level.")
    assert answer(compared(tmp_path / "two")[2]).startswith("No rule of this machine")


def test_every_format_of_pixels_gives_the_same_samples(tmp_path):
    name = "420-baseline-noise-35x21.jpg"
    pixels = OpenCVDecoder().decode(JPEGS[name]).image
    (tmp_path / "deep").mkdir()
    for number, suffix in enumerate((".ppm", ".bmp", ".png", ".npy", ".npy")):
        (tmp_path / "deep" / f"{number}.JPG").write_bytes(JPEGS[name])
        file = tmp_path / "deep" / f"{number}{suffix}"
        if suffix == ".npy":  # as torch gives it, and as everything else does
            np.save(file, pixels.transpose(2, 0, 1)[None] if number == 3 else pixels)
        else:
            Image.fromarray(pixels).save(file)
    for pair in stored_pairs(tmp_path, {}).pairs:
        assert np.array_equal(pixels_of(pair, 21, 35), pixels), pair.id


def bad_pixels():
    pixels = OpenCVDecoder().decode(JPEGS["420-baseline-noise-35x21.jpg"]).image

    def saved(array, kind):
        file = io.BytesIO()
        if kind == "npy":
            np.save(file, array, allow_pickle=array.dtype == object)
        else:
            Image.fromarray(array).save(file, kind)
        return file.getvalue()

    ppm, png, bmp, npy = (saved(pixels, kind) for kind in ("ppm", "png", "bmp", "npy"))
    return {
        "size.ppm": (saved(pixels[:-1], "ppm"), "it has 35x20 pixels, and the JPEG file 35x21"),
        "cut.ppm": (ppm[:-1], "it holds 2,204 bytes of pixels, and its header announces 2,205"),
        "long.ppm": (ppm + b"x", "it holds 2,206 bytes"),
        "wide.ppm": (ppm.replace(b"255", b"65535"), "its greatest value is 65535"),
        "text.ppm": (b"P3\n1 1\n255\n0 0 0", "does not begin as a binary PPM"),
        "cut.png": (png[:-90], "truncated"),
        "deep.png": (saved(pixels[..., 0].astype(np.uint16), "png"), "8 bits of grey or RGB"),
        "alpha.png": (saved(np.dstack([pixels, pixels[..., :1]]), "png"), "8 bits of grey or RGB"),
        "cut.bmp": (bmp[:-200], "truncated"),
        "cut.npy": (npy[:-1], "it holds no tensor: it ends after 2204 of 2205 bytes"),
        "float.npy": (saved(pixels.astype(np.float32), "npy"), "dtype float32, expected uint8"),
        "object.npy": (saved(np.array([{}]), "npy"), "dtype object"),
        "empty.npy": (b"", "empty"),
    }


def test_what_cannot_be_read_is_named_with_its_reason(tmp_path):
    name = "420-baseline-noise-35x21.jpg"
    bad = bad_pixels()
    for file, (content, _) in bad.items():
        stem, _, kind = file.partition(".")
        (tmp_path / f"{stem}-{kind}.jpg").write_bytes(JPEGS[name])
        (tmp_path / f"{stem}-{kind}.{kind}").write_bytes(content)
    write(tmp_path, OpenCVDecoder(), [name])
    (tmp_path / "alone.jpg").write_bytes(JPEGS[name])
    (tmp_path / "alone.png").write_bytes(b"")
    (tmp_path / "alone.jpeg").write_bytes(JPEGS[name])
    (tmp_path / "only.jpg").write_bytes(JPEGS[name])
    (tmp_path / "only.bmp.npy").write_bytes(b"")
    (tmp_path / "damaged.jpg").write_bytes(JPEGS[name][:100])
    (tmp_path / "damaged.ppm").write_bytes(b"")
    stored, outcomes, _ = compared(tmp_path, RULES[-1:])
    record = pairs_record(stored, outcomes, RULES[-1:])
    reasons = {each["file"]: each["reason"] for each in record["not_compared"]}
    for file, (_, reason) in bad.items():
        stem, _, kind = file.partition(".")
        assert reason in reasons.pop(f"{stem}-{kind}.{kind}"), file
    assert reasons == {
        "alone.png": "several JPEG files have its name",
        "only.jpg": "no pixels beside it",
        "only.bmp.npy": "no JPEG file of that name is beside it",
        "damaged.ppm": "its JPEG header is damaged",
    }
    assert record["sources"][0]["kinds"]["4:2:0 baseline"]["images"] == 1


def test_hidden_files_are_neither_pairs_nor_facts(tmp_path):
    name = "420-baseline-noise-35x21.jpg"
    write(tmp_path, OpenCVDecoder(), [name])
    write(tmp_path / ".trash", OpenCVDecoder(), [name])
    (tmp_path / ".trash" / "facts.json").write_text("no JSON")
    (tmp_path / "._copied.npy").write_bytes(b"")
    found = stored_pairs(tmp_path, {})
    assert [each.jpeg for each in found.pairs] == [tmp_path / name]
    assert (len(found.sources), found.left_out) == (1, ())


def test_pixels_that_vanish_while_they_are_compared_are_named(tmp_path, monkeypatch):
    names = ["420-baseline-noise-35x21.jpg", "444-baseline-noise-35x21.jpg"]
    write(tmp_path, OpenCVDecoder(), names)
    pairs = stored_pairs(tmp_path, {}).pairs

    def read_and_lost(pair, height, width):
        pixels = pixels_of(pair, height, width)
        pair.pixels.unlink()
        return pixels

    monkeypatch.setattr(pair_rules, "pixels_of", read_and_lost)
    work = pair_rules.ComparePairs(())
    image = Encoded(pairs[0].id, JPEGS[names[0]], (), pairs[0])
    (outcome,) = work([image], lambda *_: None)
    assert outcome.reason == "No such file or directory"


def test_pixels_that_end_at_a_row_are_suspected_and_compared_up_to_it_once_it_is_said(tmp_path):
    name = "420-baseline-large-208x160.jpg"

    def cut(pixels):
        pixels[100:] = 77
        return pixels

    write(tmp_path, NvjpegModelDecoder(), [name], cut)
    stem = name.removesuffix(".jpg")
    text = told(tmp_path)
    assert "No rule of this machine reproduces 4:2:0 baseline" in text
    assert (
        f"its first 100 rows are within 1 level of a rule, and the next is not; if its pixels end there, add --rows {stem}=100"
        in text
    )
    text = told(tmp_path, **{stem: 100})
    assert "(repeat, float, truncate) reproduces 4:2:0 baseline: 0 of 62400 samples" in text
    assert f"{stem}.npy: only the first 100 rows are compared" in text
    (tmp_path / f"{stem}.json").write_text('{"rows": 100}')
    assert told(tmp_path) == text
    with pytest.raises(ConfigError, match="did you mean '420-baseline-large-208x160'"):
        stored_pairs(tmp_path, {"420-baseline-large": 100})


def test_a_damaged_jpeg_file_is_named(tmp_path):
    name = "420-baseline-large-208x160.jpg"
    write(tmp_path, SimpleJPEGDecoder(), [name])
    cut = JPEGS[name][:-400]
    (tmp_path / name).write_bytes(cut)
    pixels = SimpleJPEGDecoder().decode(cut).image
    np.save((tmp_path / name).with_suffix(".npy"), pixels)
    assert "its JPEG file is damaged (Premature end of JPEG file)" in told(tmp_path)


def test_a_rule_that_dies_on_an_image_is_left_out_of_that_kind_and_stops_no_other(tmp_path):
    names = ["420-baseline-noise-35x21.jpg", "444-baseline-noise-35x21.jpg"]
    write(tmp_path, OpenCVDecoder(), names)
    (tmp_path / names[0]).write_bytes(JPEGS[names[0]] + MARK)
    rules = (DecodeRule(FatalDecoder("segfault"), "fatal"), RULES[-1])
    *_, fits = compared(tmp_path, rules)
    found = {each.name: [fit.title for fit in each.rules] for each in fits}
    assert found == {"4:2:0 baseline": ["opencv"], "4:4:4 baseline": ["fatal (segfault)"]}
    assert fits[1].best.alike == ("opencv",)


def test_facts_and_their_failures_are_shown_and_enter_the_record(tmp_path):
    facts = {
        "decoder": "nvJPEG\x1b[2J", "engine": "CUDA cores", "flags": 32,
        "machine": {"gpu": "NVIDIA X", "driver": "570.86", "cuda": "12.8"},
        "failures": {"b.jpg": "RuntimeError: no"},
    }  # fmt: skip
    write(tmp_path / "way", SimpleJPEGDecoder(), ["grey-baseline-smooth-35x21.jpg"])
    (tmp_path / "way" / "facts.json").write_text(json.dumps(facts))
    (tmp_path / "dead").mkdir()
    (tmp_path / "dead" / "facts.json").write_text('{"failed": "the process ended with -11"}')
    stored, outcomes, fits = compared(tmp_path)
    text = pairs_summary("here", stored, outcomes, fits)
    assert (
        r"way: nvJPEG\x1b[2J; CUDA cores; flags 32; gpu NVIDIA X; driver 570.86; cuda 12.8" in text
    )
    assert "not compared: way/b.jpg: not recorded: RuntimeError: no" in text
    assert "not compared: dead: the process ended with -11" in text
    record = json.loads(json.dumps(pairs_record(stored, outcomes, RULES), allow_nan=False))
    assert record["sources"][0]["facts"] == facts
    (pair,) = record["pairs"]
    jpeg = tmp_path / "way" / "grey-baseline-smooth-35x21.jpg"
    hashes = {"jpeg": file_sha256(jpeg), "output": file_sha256(jpeg.with_suffix(".npy"))}
    assert (pair["sha256"], pair["rows_compared"], pair["samples"]) == (hashes, 21, 2205)
    assert pair["decoders"]["opencv"] == {"wrong": 0, "greatest": 0, "mean_levels": 0.0}
    assert len(pair["decoders"]) == len(RULES)


@pytest.mark.parametrize(
    "text", ["[", "[]", '{"rows": 0}', '{"rows": true}', '{"x": NaN}', "[" * 9**5]
)
def test_facts_that_are_none_are_refused(tmp_path, text):
    write(tmp_path, OpenCVDecoder(), ["grey-baseline-smooth-35x21.jpg"])
    (tmp_path / "facts.json").write_text(text)
    with pytest.raises(DataError, match=r"facts\.json"):
        stored_pairs(tmp_path, {})


def test_a_folder_without_pairs_is_nothing_to_compare(tmp_path):
    with pytest.raises(NothingCompared, match="beside it"):
        stored_pairs(tmp_path, {})
    with pytest.raises(DataError, match="no folder"):
        stored_pairs(tmp_path / "absent", {})


def test_differences_are_those_of_a_loop_by_hand():
    rng = np.random.default_rng(0)
    stored, ours = rng.integers(0, 256, (2, 7, 5, 3), np.uint8)
    gaps = [int(a) - int(b) for a, b in zip(stored.flat, ours.flat, strict=True)]
    found = gap_of(stored, ours)
    sizes = [abs(gap) for gap in gaps]
    assert found == Gap(105, sum(map(bool, gaps)), max(sizes), sum(sizes), sum(gaps))
    assert found.plus(Gap(5, 1, 9, 9, -9)) == Gap(
        110, found.wrong + 1, found.greatest, sum(sizes) + 9, sum(gaps) - 9
    )


def test_nvjpegs_rule_reproduces_its_stored_output_as_the_shipped_record_says(shared_data):
    folder = shared_data / "nvjpeg-pairs"
    if not folder.exists():
        pytest.skip("no stored output of nvJPEG here")
    stored, outcomes, fits = compared(folder, P5=168)
    shipped = json.loads((SHIPPED / "nvjpeg-model.json").read_text())["pairs"]
    known = {each["sha256"]["output"]: each for each in shipped if each["sha256"]}
    ours = pairs_record(stored, outcomes, RULES)["pairs"]
    for pair in ours:
        other = known[pair["sha256"]["output"]]
        same = ("kind", "rows_compared", "samples", "sha256")
        assert {key: pair[key] for key in same} == {key: other[key] for key in same}
        for theirs, name in SHIPPED_NAMES.items():
            found, expected = pair["decoders"][name], other["decoders"][theirs]
            assert found == pytest.approx(expected, abs=1e-4), (pair["name"], name)
    assert len(ours) == 3
    best = {
        each.name: (each.best.title, each.best.gap.wrong, each.best.gap.samples) for each in fits
    }
    assert best == {
        "4:2:0 baseline": ("nvjpeg-model (repeat, float, truncate)", 0, 2_195_208),
        "4:4:4 baseline": ("nvjpeg-model (repeat, float, truncate)", 0, 129_024),
    }
    ordinary = next(fit for fit in fits[0].rules if fit.title == ORDINARY)
    assert (ordinary.gap.wrong, ordinary.gap.greatest) == (1_283_168, 27)
