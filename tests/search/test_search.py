"""The search finds what is known to be the nearest, and says how near."""

import json
import os
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from textwrap import indent

import numpy as np
import pytest

from alignkit.decoders import DECODERS
from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.errors import ConfigError, MissingDependency, NothingCompared
from alignkit.experiment import load_experiment
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.findings.stage_yaml import stage_block
from alignkit.isolation.worker import Encoded
from alignkit.plugins import Plugin
from alignkit.preprocess import Colour, Crop, Orient, Preprocess, Quantise, Resize
from alignkit.preprocess.normalise import Normalise
from alignkit.preprocess.presets import PRESETS
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.search import configurations as configurations_module
from alignkit.search import match
from alignkit.search.configuration_distances import MeasureDistances
from alignkit.search.configurations import (
    Configuration,
    Framing,
    configurations,
    serving_options,
)
from alignkit.search.match_result import Match
from alignkit.search.match_text import as_json, headline, yaml_block
from alignkit.search.recolouring import MISREADINGS, recoloured
from alignkit.search.target import Target, preprocess_of, preprocess_target
from tests.photos import encoded, exif, make_jpegs, whole_photo
from tests.stacks import samples_of


class LoudResizer(OpenCVResizer):
    """One whose library writes to standard output when it is first used."""

    def resize(self, image, height, width):
        os.write(1, b"[sequential.cpp:115] Sequential: min=1, max=1\n")
        return super().resize(image, height, width)


def test_a_library_that_writes_when_it_is_first_used_is_not_heard(monkeypatch, capfd):
    monkeypatch.setattr(configurations_module, "variants", lambda _: iter([LoudResizer()]))
    squash = Framing(Resize(OpenCVResizer(), (8, 8)), orient="exif")
    configurations(squash, decoders=["opencv"], resizers=["opencv"])
    assert capfd.readouterr().out == ""


SMALL = Framing(Resize(OpenCVResizer(), (8, 8)))
BASE = ("opencv", "pillow", "simplejpeg", "torchvision")
RESIZERS = ("opencv", "pillow", "torch", "torchvision", "torchpipe")


@cache
def photographs(count: int = 15):
    """4:2:0 JPEGs cut from the two bundled photographs; two of them are turned by EXIF."""
    rng = np.random.default_rng(0)
    files = []
    for index in range(count):
        image = whole_photo(("china", "flower")[index % 2])
        height, width = rng.integers(180, 260, 2)
        top, left = rng.integers(0, 160), rng.integers(0, 360)
        options = {"exif": exif(6)} if index in (1, 8) else {}
        cut = image[top : top + height, left : left + width]
        files.append(encoded(cut, quality=60 + 2 * index, subsampling="4:2:0", **options))
    return samples_of(files)


def found_for(path: Preprocess, **only: tuple[str, ...]) -> Match:
    samples = photographs()
    target = preprocess_target(path)
    only = {"decoders": BASE, "resizers": RESIZERS} | only
    return match(target, samples, range(len(samples)), configurations(target.geometry, **only))


@dataclass(frozen=True)
class NeedsAValue(PillowDecoder):
    strength: int = field(kw_only=True)


def test_a_plugin_that_a_search_cannot_try_is_refused_by_its_name(monkeypatch):
    plugin = Plugin(f"{__name__}:NeedsAValue", package="mine")
    monkeypatch.setitem(DECODERS.own, "mine", plugin)
    geometry = Framing.of(preprocess_of("pillow-train", 32))
    with pytest.raises(ConfigError, match="decoder 'mine' has options without a default, so a"):
        configurations(geometry, decoders=["mine"])
    assert configurations(geometry, resizers=["pillow"])


@pytest.mark.parametrize("preset", ["opencv-train", "pillow-train", "torchvision-eval",
                                    "torchpipe-gpu-surrogate", "torchvision-cuda-surrogate"])  # fmt: skip
def test_a_stack_this_machine_has_is_found_exactly(preset):
    path = preprocess_of(preset, 96)
    found = found_for(path, decoders=(*BASE, "nvjpeg-model"))
    winner = found.winner
    assert winner.mean_abs.value == winner.max_abs == winner.unseen == 0.0
    assert winner.identical == found.images == 12
    assert winner.unseen_identical == found.unseen == 3
    assert found.holds
    assert found.ranking[1].mean_abs.value > 0
    same = [each.preprocess(Framing.of(path), path.normalise) for each in winner.configurations]
    assert any(
        (each.decode, each.resize) == (path.decode, path.resize)
        or path.decode.orients
        or each.resize.resizer == TorchResizer(antialias=True)
        for each in same
    )


def test_of_opencv_area_is_nearer_to_pillow_than_linear():
    """Measured on other photographs at 256/224: mean error 1.05 against 2.06 levels."""
    found = found_for(preprocess_of("pillow-train", 96), decoders=("opencv",), resizers=("opencv",))
    order = [each.configurations[0].resizer.interpolation for each in found.ranking]
    assert order[0] == "area"
    by_name = dict(zip(order, found.ranking, strict=True))
    assert by_name["linear"].mean_abs.value > 1.5 * by_name["area"].mean_abs.value


@pytest.mark.parametrize(
    "decode",
    [SimpleJPEGDecoder(chroma="nearest"), NvjpegModelDecoder(), NvjpegModelDecoder("interpolate")],
)
def test_the_switches_of_a_decoder_are_found(decode):
    path = replace(preprocess_of("torchpipe-gpu-surrogate", 96), decode=decode)
    found = found_for(path, decoders=(*BASE, "nvjpeg-model"), resizers=("torch", "torchpipe"))
    winner = found.winner.configurations[0]
    assert winner == Configuration(decode, TorchResizer(align_corners=True))
    assert {each.resizer for each in found.winner.configurations} > {winner.resizer}


def test_the_search_narrows_and_gives_what_trying_everything_gives():
    samples = photographs()
    target = preprocess_target(preprocess_of("pillow-train", 96))
    tried = configurations(target.geometry, decoders=BASE, resizers=RESIZERS)
    found = match(target, samples, range(len(samples)), tried)
    counts = [alive for _, alive in found.rungs]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == found.tried == len(tried) > 200
    assert counts[-1] < 0.2 * counts[0]
    best = {}
    for each in tried[::7]:
        preprocess = each.preprocess(target.geometry, target.normalise)
        pixels = [
            [
                path.taps(samples.read(row)).last.astype(float)
                for path in (preprocess, target.preprocess)
            ]
            for row in range(len(samples))
        ]
        apart = [np.abs(ours - wanted).mean() for ours, wanted in pixels]
        best[each] = np.mean(apart)
    nearest = min(best.values())
    assert found.winner.mean_abs.value <= nearest + 1e-9


FITS = [SMALL, Framing(Resize(OpenCVResizer(), (9, 7), "letterbox"), orient="exif")]
RULES = ("none", "round", "truncate")


@pytest.mark.parametrize("geometry", FITS)
@pytest.mark.parametrize("part", [0.0, 0.37])
def test_a_distance_is_that_of_the_two_paths_run_one_after_the_other(geometry, part):
    decoders = (*map(recoloured, [OpenCVDecoder()] * 2, (None, MISREADINGS[2])), PillowDecoder(),
                SimpleJPEGDecoder("nearest"))  # fmt: skip
    resizers = OpenCVResizer(), PillowResizer(), TorchResizer(antialias=True)
    tried = [Configuration(*each) for each in product(decoders, resizers, RULES)]
    for recolouring in (None, MISREADINGS[0]):
        target = Target("t", None, geometry, Normalise(), recolouring=recolouring)
        for row in (0, 1):
            image = photographs().read(row)
            own = Configuration(PillowDecoder(), TorchResizer()).preprocess(geometry, Normalise())
            wanted = own.taps(image).last.round() + np.float32(part)
            given = Encoded("image", image, given=(range(len(tried)), wanted))
            (found,) = MeasureDistances(tuple(tried), target)([given], lambda *_: None)
            checksums = {}
            for place, each in enumerate(tried):
                coloured = replace(each, decode=recoloured(each.decode, recolouring))
                levels = coloured.preprocess(geometry, Normalise()).taps(image).last
                apart = np.abs(levels.astype(np.float32) - wanted)
                assert found[place].mean == apart.mean(dtype=np.float64)
                assert found[place].greatest == apart.max()
                same = levels.astype(np.float32).tobytes()
                assert checksums.setdefault(same, found[place].pixels) == found[place].pixels
            assert len({*checksums.values()}) == len(checksums) > 9


def test_the_interval_holds_the_mean_and_distances_grow_down_the_table():
    found = found_for(preprocess_of("opencv-train", 96), resizers=("pillow",))
    means = [each.mean_abs for each in found.ranking]
    assert [mean.value for mean in means] == sorted(mean.value for mean in means)
    assert all(mean.low <= mean.value <= mean.high for mean in means)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_yaml_of_every_path_builds_it_again(preset):
    path = preprocess_of(preset, 64)
    again = PreprocessOption.model_validate(stage_block(path)).build(path.name)
    assert again.identity() == path.identity()


@pytest.mark.parametrize(
    "stages",
    [
        {"colour": Colour("bgr")},
        {"normalise": Normalise((0.4, 0.5, 0.3), (1 / 255, 0.00001234, 0.2))},
        {"resize": Resize(OpenCVResizer("area"), (90, 110), "letterbox", 0)},
        {"resize": Resize(PillowResizer(), (110, 110), "shorter"), "crop": Crop((95, 96), "up")},
        {"orient": Orient("exif"), "quantise": Quantise("truncate"), "max_pixels": 1_000_000},
    ],
    ids=["bgr", "normalise", "letterbox", "crop", "orient"],
)
def test_the_block_pasted_into_an_experiment_builds_the_path(stages, tmp_path):
    path = replace(preprocess_of("torchpipe-gpu-surrogate", 96), **stages)
    file = tmp_path / "pasted.yaml"
    block = indent(yaml_block(path, "matched"), "  ")
    # written twice, as an experiment compares two paths
    head = "name: pasted\ndata: {name: digits-on-photos, train: 40, eval: 20}\npreprocess:\n"
    file.write_text(head + block + block.replace("matched", "again") + "    same: true\n")
    for built in load_experiment(file).paths:
        assert built.identity() == path.identity()


def test_the_winner_s_yaml_gives_the_target_s_pixels():
    import yaml

    samples = photographs()
    found = found_for(preprocess_of("torchvision-eval", 96))
    block = yaml.safe_load(yaml_block(found.preprocesses[0], "matched"))["matched"]
    path = PreprocessOption.model_validate(block).build("matched")
    target = preprocess_of("torchvision-eval", 96)
    for row in range(len(samples)):
        mine, theirs = path.taps(samples.read(row)).last, target.taps(samples.read(row)).last
        assert np.array_equal(mine, theirs)


def test_the_headline_says_what_remains_and_the_json_holds_it():
    found = found_for(preprocess_of("pillow-train", 96), decoders=("opencv",), resizers=("opencv",))
    words = headline(found, {})
    assert words.startswith(
        "near: opencv ▸ opencv interpolation=area comes nearest to pillow-train; "
    )
    assert "that opencv ▸ opencv leaves is explained" in words
    assert "on 3 images the search did not see it is still the nearest" in words.lower()
    stored = as_json(found, {})
    assert stored["ranking"][0]["mean_abs"]["value"] == found.winner.mean_abs.value
    assert (stored["state"], stored["plain"]) == ("near", "opencv ▸ opencv")
    assert stored["explained"] == pytest.approx(1 - stored["remains"] / stored["plain_mean_abs"])
    assert stored["ranking"][0]["preprocess"]["resize"]["interpolation"] == "area"


def test_too_few_images_leave_nothing_to_check_on():
    samples = photographs().take(range(3))
    target = preprocess_target(preprocess_of("pillow-train", 96))
    found = match(target, samples, range(3), [Configuration(OpenCVDecoder(), PillowResizer())])
    assert found.holds is None
    assert found.unseen == 0
    assert "give five different ones or more" in headline(found, {})


def test_a_configuration_that_cannot_prepare_what_the_target_can_is_out_of_the_race():
    from tests.photos import make_pngs

    samples = samples_of([make_pngs()["rgb"]] * 3)
    target = preprocess_target(preprocess_of("pillow-train", 32))
    only = [
        Configuration(SimpleJPEGDecoder(), PillowResizer()),
        Configuration(OpenCVDecoder(), OpenCVResizer()),
    ]
    found = match(target, samples, range(3), only)
    assert [each.configurations[0] for each in found.ranking] == only[1:]
    with pytest.raises(NothingCompared, match="no configuration prepares every image"):
        match(target, samples, range(3), only[:1])


def test_images_the_target_does_not_decode_are_left_out_by_name():
    good = [photographs().read(row) for row in range(4)]
    samples = samples_of([*good, b"no image"])
    target = preprocess_target(preprocess_of("pillow-train", 96))
    found = match(target, samples, range(5), [Configuration(OpenCVDecoder(), PillowResizer())])
    assert [name for name, _ in found.left_out] == ["4.jpg"]
    assert found.images + found.unseen == 4
    with pytest.raises(NothingCompared, match="gives no pixels for any image"):
        match(target, samples, [4], [Configuration(OpenCVDecoder(), PillowResizer())])


def test_rounding_is_tried_only_where_there_is_something_to_round():
    tried = configurations(SMALL, decoders=("opencv",), resizers=("opencv", "torch"))
    rules = {each.rounding for each in tried if isinstance(each.resizer, OpenCVResizer)}
    assert rules == {"none"}
    assert len(tried) == 6 + 4 + 9 * 3


def test_a_name_that_is_unknown_or_cannot_run_here_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'opencv'"):
        configurations(SMALL, decoders=("opencvv",))
    from alignkit.plugins import gpu_present

    if not gpu_present():
        with pytest.raises(MissingDependency):
            configurations(SMALL, decoders=("torchvision-cuda",))


def test_no_stack_is_searched_that_mixes_the_rules_of_libjpeg_and_nvjpeg():
    found = {each.decode for each in configurations(SMALL, decoders=("nvjpeg-model",))}
    ways = ("repeat", "interpolate")
    old = {NvjpegModelDecoder(each) for each in ways}
    assert found == old | {NvjpegModelDecoder(each, "float-up", "even") for each in ways}


def test_serving_options_bring_a_trained_stack_home():
    samples, names = photographs(), serving_options()
    target = preprocess_target(preprocess_of("opencv-train", 96))
    found = match(target, samples, range(len(samples)), list(names))
    first = names[found.winner.configurations[0]]
    assert "decode on the CPU" in first
    assert "ResizeMat" in first
    needs_gpu = {name for name in names.values() if "nvJPEG" in name or "JPEG engine" in name}
    assert len(needs_gpu) == 5 * len(names) / 6
    labels = {name.partition("(surrogate of nvJPEG, ")[2].partition(")")[0] for name in needs_gpu}
    every = "decode verified for 4:4:4, 4:2:2, 4:2:0, 4:4:0, 4:1:1, 4:1:0 and grey, baseline and progressive"
    assert labels == {"decode verified for 4:2:0 and 4:4:4 baseline", "decode unverified", every}


def test_the_option_of_a_jpeg_engine_is_its_preset_with_the_pixels_of_repeated_chroma():
    (engine,) = {each.decode for each, name in serving_options().items() if "engine" in name}
    assert engine == preprocess_of("torchvision-cuda-engine-surrogate", 96).decode
    for kind in ("420", "444"):
        data = make_jpegs()[kind]
        pixels = engine.decode(data).image
        assert np.array_equal(pixels, SimpleJPEGDecoder(chroma="nearest").decode(data).image)


@pytest.mark.parametrize(
    ("given", "size", "message"),
    [
        ("opencv-trian", 96, "did you mean 'opencv-train'"),
        ("absent.yaml", None, "no such file"),
    ],
)
def test_a_target_that_cannot_be_found_is_refused_with_the_next_step(given, size, message):
    with pytest.raises(ConfigError, match=message):
        preprocess_of(given, size)


def test_a_yaml_file_is_one_path_or_an_experiment(tmp_path):
    import yaml

    block = stage_block(preprocess_of("opencv-train", 64))
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(block))
    (tmp_path / "many.yaml").write_text(yaml.safe_dump({"preprocess": {"a": block, "b": block}}))
    assert (
        preprocess_of(f"{tmp_path}/one.yaml", None).identity()
        == preprocess_of("opencv-train", 64).identity()
    )
    assert preprocess_of(f"{tmp_path}/many.yaml:b", None).name == "b"
    with pytest.raises(ConfigError, match=r"name one of its paths: .*many.yaml:NAME \(a, b\)"):
        preprocess_of(f"{tmp_path}/many.yaml", None)
    (tmp_path / "wrong.yaml").write_text("decode: opencv\nresize: {name: opencv, sze: 3}\n")
    with pytest.raises(ConfigError, match="sze"):
        preprocess_of(f"{tmp_path}/wrong.yaml", None)


def test_no_stage_is_run_on_what_the_stage_before_it_refused(monkeypatch):
    given = []

    def refuses(self, pixels):
        raise ValueError("no rounding here")

    monkeypatch.setattr(Quantise, "__call__", refuses)
    monkeypatch.setattr(Colour, "__call__", lambda self, pixels: given.append(pixels))
    target = Target("refused", lambda row: "not asked", SMALL, Normalise())
    one = Configuration(OpenCVDecoder(), OpenCVResizer())
    wanted = np.zeros((8, 8, 3), np.float32)
    image = Encoded("one", photographs().read(0), given=([0], wanted))
    found = MeasureDistances((one,), target)([image], lambda *_: None)
    assert found == ["no configuration tried on it prepares the image; it may be damaged"]
    assert given == []


def test_a_distance_that_is_no_number_is_never_ranked_or_printed():
    rows = np.random.default_rng(0).permutation(12)
    png = {int(rows[-1])}  # seen after the first configurations were dropped
    samples = with_pngs(12, png)
    target = preprocess_target(preprocess_of("pillow-train", 32))
    only = [
        Configuration(SimpleJPEGDecoder(), OpenCVResizer()),
        Configuration(OpenCVDecoder(), OpenCVResizer()),
        Configuration(OpenCVDecoder(), PillowResizer()),
    ]
    found = match(target, samples, range(12), only)
    assert found.plain == only[1]
    assert found.plain_mean > found.remains
    json.dumps(as_json(found, {}), allow_nan=False)


@pytest.mark.parametrize("known", [True, False])
def test_a_finalist_that_cannot_prepare_an_unseen_image_is_out_of_the_race(known):
    unseen = int(np.random.default_rng(0).permutation(12)[0])
    samples = with_pngs(12, {unseen})
    path = preprocess_of("pillow-train", 32)
    target = preprocess_target(path)
    if not known:
        target = replace(
            target, preprocess=None, levels=lambda row: path.taps(samples.read(row)).last + 0.0
        )
    only = [
        Configuration(SimpleJPEGDecoder(), PillowResizer()),
        Configuration(OpenCVDecoder(), OpenCVResizer()),
    ]
    found = match(target, samples, range(12), only)
    assert found.left_out == ()
    assert found.unseen == 2
    assert [each.configurations[0] for each in found.ranking] == only[1:]
    json.dumps(as_json(found, {}), allow_nan=False)


def with_pngs(count: int, pngs: set[int]):
    """Photographs of which some are PNG files, which a JPEG decoder refuses."""
    photos = [photographs().read(row) for row in range(count)]
    picture = encoded(whole_photo("china")[:90, :120], "PNG")
    return samples_of([picture if row in pngs else photos[row] for row in range(count)])
