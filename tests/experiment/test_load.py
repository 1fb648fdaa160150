"""Experiment files and overrides, right and wrong."""

import os
import re
from pathlib import Path

import pytest

from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.experiment.yaml_source import parse

ROOT = Path(__file__).resolve().parents[2]
FULL = """\
# Which key is read where?
name: every-key
data: {name: digits-on-photos, train: 120, eval: 100, seed: 0}
preprocess:
  spelt-out:
    decode: {name: simplejpeg, chroma: smooth, dct: islow}
    orient: exif
    resize: {name: torch, size: [52, 52], fit: letterbox, pad: 7, antialias: true}
    crop: 48
    quantise: round
    colour: bgr
    normalise: {mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2]}
  a-preset: {preset: pillow-train, size: 48}
train:
  model: small-cnn
  epochs: 1
  seeds: [0, 1]
  batch_size: 32
  optimiser: sgd
  learning_rate: 1e-3
  weight_decay: 0.0
  momentum: 0.8
  schedule: constant
  label_smoothing: 0.1
  augment: {flip: 0.5, crop: 4}
  device: cpu
evaluate:
  backends:
    - {name: torch, precision: [fp32, bf16]}
    - {name: onnxruntime, precision: fp16}
  batch_size: 50
  resamples: 500
gate:
  informational: true
  on_inconclusive: warn
  allow_missing: true
  rules:
    - {metric: churn, warn: 0.01, fail: 0.02}
    - {metric: recall.macro, margin: 0.01}
report: {worst: 3}
"""
FREE = ("spelt-out", "a-preset")
"""Keys that the user chooses."""


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "x.yaml"
    path.write_text(FULL)
    return path


def refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_experiment(path, overrides)
    return str(caught.value)


def edited(file: Path, old: str, new: str) -> Path:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return file


def head(file: Path, where: str) -> str:
    line = FULL[: FULL.index(where)].count("\n") + 1
    column = FULL.index(where) - FULL.rfind("\n", 0, FULL.index(where))
    return f"{file}:{line}:{column}: "


def test_a_file_with_every_key_is_read(file):
    experiment = load_experiment(file)
    assert experiment.name == "every-key"
    assert experiment.question == "Which key is read where?"
    first, second = experiment.paths
    assert first.name == "spelt-out"
    assert first.size == second.size == (48, 48)
    assert first.resize.resizer.antialias is True
    assert first.normalise.std == (0.2, 0.2, 0.2)
    assert experiment.content.train.learning_rate == 0.001
    assert experiment.content.evaluate.backends[1].precision == ("fp16",)


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("experiments/**/*.yaml")), ids=lambda path: path.name
)
def test_every_experiment_of_the_project_is_valid_and_asks_a_question(path):
    assert len(load_experiment(path).question) > 20


def misspellings() -> list:
    cases = []
    for key, place in parse(FULL, "x").keys.items():
        name = str(key[-1])
        if name in FREE:
            continue
        wrong = name[:-2] + name[-1] + name[-2] if name[-1] != name[-2] else name[:-1]
        cases.append(pytest.param(place, name, wrong, id=".".join(map(str, key))))
    return cases


@pytest.mark.parametrize(("place", "name", "wrong"), misspellings())
def test_every_misspelt_key_is_located_and_the_right_one_suggested(file, place, name, wrong):
    lines = FULL.splitlines()
    line = lines[place.line]
    lines[place.line] = line[: place.column] + wrong + line[place.column + len(name) :]
    file.write_text("\n".join(lines))
    told = refusal(file)
    first, shown, carets = told.splitlines()[:3]
    if name == "name":  # of a plugin: without its name, nothing is known of its options
        assert re.match(rf"{re.escape(str(file))}:{place.line + 1}:\d+: ", first)
    else:
        assert first.startswith(f"{file}:{place.line + 1}:{place.column + 1}: ")
        assert first.endswith(f"; did you mean {name!r}?")
        assert shown[carets.index("^") : len(carets)] == wrong


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("simplejpeg", "simplejpg"),
        ("name: torch, size", "name: torhc, size"),
        ("pillow-train", "pilow-train"),
        ("digits-on-photos", "digits-on-photo"),
        ("onnxruntime", "onxruntime"),
        ("small-cnn", "small-cn"),
        ("letterbox", "leterbox"),
        ("chroma: smooth", "chroma: smoth"),
        ("bf16", "bf61"),
        ("recall.macro", "recal.macro"),
        ("colour: bgr", "colour: bgrr"),
    ],
)
def test_every_misspelt_name_is_located_and_the_right_one_suggested(file, right, wrong):
    meant = re.search(r"(?<=name: )\w+|[\w.-]+$", right).group()
    told = refusal(edited(file, right, wrong)).splitlines()
    assert re.match(rf"{re.escape(str(file))}:\d+:\d+: [\w.-]+: ", told[0])
    assert told[0].endswith(f"; did you mean {meant!r}?")


def test_all_mistakes_are_told_in_one_pass_in_the_order_of_the_file(file):
    edited(file, "epochs: 1", "epochs: 0")
    edited(file, "name: every-key", "name: every key")
    edited(file, "dct: islow", "dct: slow, turbo: yes")
    edited(file, "size: 48}", "siz: 48}")
    edited(file, "worst: 3", "worst: many")
    told = refusal(file, "train.sedes=[1]")
    keys = re.findall(r"^(?:\S+:\d+:\d+|--set .*?): ([\w.-]+): ", told, re.MULTILINE)
    assert keys == [
        "name",
        "preprocess.spelt-out.decode.dct",
        "preprocess.spelt-out.decode.turbo",
        "preprocess.a-preset.siz",
        "train.epochs",
        "report.worst",
        "train.sedes",
    ]


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [
        ("flip: 0.5", "flip: true", "0.5, crop", "should be a valid number, not true"),
        ("flip: 0.5", "flip: 2", "0.5, crop", "should be less than or equal to 1, not 2"),
        ("informational: true", "informational: yes", "true\n  on_inc", "should be a valid boolean, not 'yes'"),
        ("seeds: [0, 1]", "seeds: [1, 1]", "[0, 1]", "each seed may stand here once"),
        ("seeds: [0, 1]", "seeds: []", "[0, 1]", "needs an entry"),
        ("augment: {flip: 0.5, crop: 4}", "augment: 4", "{flip", "should be a mapping of keys"),
        ("crop: 48\n", "crop: 40\n", "a-preset", "gives 48x48, but 'spelt-out' gives 40x40; one model takes one size"),
        ("simplejpeg, chroma: smooth, dct: islow", "torchpipe", "orient: exif", None),
        ("margin: 0.01", "margin: 0", "0.01}\nreport", "should be greater than 0, not 0"),
        ("  epochs: 1\n", "  epochs: 1.5\n", "1\n  seeds", "should be a valid integer, not 1.5"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_located_with_a_reason(file, old, new, where, message):
    told = refusal(edited(file, old, new)).splitlines()[0]
    if message is None:
        assert told.startswith(f"{file}:7:13: ")
        assert "this decoder turns images by EXIF itself; leave 'orient' out" in told
    else:
        assert told.startswith(head(file, where))
        assert told.endswith(f": {message}")


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ("crop: 48\n", "crop: {half: up}\n", "spelt-out.crop.size", "is required"),
        ("crop: 48\n", "crop: {at: [4, 4]}\n", "spelt-out.crop.size", "is required"),
        ("crop: 48\n", "crop: {size: null}\n", "spelt-out.crop.size", "is required"),
        ("crop: 48\n", "crop: {1: 2}\n", "spelt-out.crop: ", "a key must be text"),
        ("std: [0.2, 0.2, 0.2]", "1: 2", "spelt-out.normalise: ", "a key must be text"),
        ("antialias: true", "1: 2", "spelt-out.resize: ", "a key must be text"),
        ("mean: [0.5, 0.5, 0.5]", "mean: [0.5, 0.5, -1e400]", "mean", "should be a finite number"),
        ("std: [0.2, 0.2, 0.2]", "std: [0.2, 0.2, 1e400]", "std", "should be a finite number"),
    ],
)
def test_a_stage_that_cannot_be_is_refused_at_its_key(file, old, new, key, message):
    told = refusal(edited(file, old, new))
    assert any(key in line and message in line for line in told.splitlines()), told


@pytest.mark.parametrize(
    ("entries", "key", "message"),
    [
        ("[null]", "models.0", "should be a mapping of keys, with name and preprocess"),
        ("[{1: 2}]", "models", "a key must be text"),
        ("[{name: a, preprocess: spelt-out, pretrained: ''}]", "models.0.pretrained", "at least 1"),
        ("[{name: a, preprocess: spelt-out, made_by: '  '}]", "models.0.made_by", "at least 1"),
    ],
)
def test_a_model_that_cannot_be_is_refused_at_its_key(file, entries, key, message):
    told = refusal(file, f"models={entries}")
    assert any(key in line and message in line for line in told.splitlines()), told


def test_a_missing_key_is_told_at_what_should_hold_it(file):
    told = refusal(edited(file, "name: torch, size: [52, 52], ", "name: torch, "))
    assert told.startswith(f"{file}:8:5: preprocess.spelt-out.resize.size: is required\n")


def test_a_preset_needs_a_size_and_a_size_needs_a_preset(file):
    assert "a preset needs 'size'" in refusal(edited(file, "train, size: 48}", "train}"))
    file.write_text(FULL)
    told = refusal(edited(file, "    orient: exif", "    size: 48"))
    assert "preprocess.spelt-out.size: a size here belongs to a preset" in told


def test_one_path_is_not_enough(file):
    one = edited(file, "  a-preset: {preset: pillow-train, size: 48}\n", "")
    told = refusal(one, "evaluate.backends=[torch]")
    assert "preprocess: needs two paths or more; the first is the reference" in told


def test_duplicate_keys_are_refused_together_with_other_mistakes(file):
    edited(file, "epochs: 1", "epochs: 0")
    told = refusal(edited(file, "report: {worst: 3}", "name: again"))
    assert "duplicate key; it stands in line 2 already" in told
    assert "train.epochs" in told


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; an experiment has at least"),
        (b"- a\n- b\n", "not a mapping of keys; an experiment has at least"),
        (b"name: [\n", "not valid YAML"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        ("name: x".encode("utf-16"), "is not UTF-8"),
        (b"name: a\0b\n", "x.yaml:1:8: character 0 is not allowed in YAML"),
        (b"- a\n" * (1 << 18) + b"- b\n", "more than 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_no_experiment_is_told_so(tmp_path, content, message):
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    assert message in refusal(path)


def test_a_pipe_in_place_of_a_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "x.yaml")
    assert refusal(tmp_path / "x.yaml").endswith("cannot be read (not a regular file: a FIFO)")


def test_of_many_mistakes_the_first_are_listed(file):
    told = refusal(edited(file, "report:", "".join(f"k{n}: 1\n" for n in range(70)) + "report:"))
    assert told.count("unknown key") == 50
    assert told.endswith("and 20 more mistakes")


def test_a_missing_file_suggests_the_one_beside_it(file):
    assert refusal(file.with_name("xx.yaml")).endswith(f"no such file; did you mean '{file}'?")
    longer = file.with_name("x-long.yaml")
    longer.write_text(file.read_text())
    said = refusal(file.with_name("X.yaml"))
    assert said.endswith(f"no such file; did you mean {str(longer)!r} or {str(file)!r}?")
    assert "is a folder" in refusal(file.parent)


def test_a_byte_order_mark_is_no_mistake(file):
    file.write_bytes(b"\xef\xbb\xbf" + FULL.encode())
    assert load_experiment(file).name == "every-key"


@pytest.mark.parametrize(
    ("override", "get", "value"),
    [
        ("train.epochs=7", lambda c: c.train.epochs, 7),
        ("train.learning_rate=1e-2", lambda c: c.train.learning_rate, 0.01),
        ("train.seeds=[4, 5]", lambda c: c.train.seeds, (4, 5)),
        ("train.seeds.1=9", lambda c: c.train.seeds, (0, 9)),
        ("evaluate.backends.0.precision=[fp16]", lambda c: c.evaluate.backends[0].precision, ("fp16",)),
        ("gate.rules.0.fail=0.5", lambda c: c.gate.rules[0].fail, 0.5),
        ("preprocess.spelt-out.decode.chroma=nearest", lambda c: c.preprocess["spelt-out"].decode.chroma, "nearest"),
        ("preprocess.a-preset.decode=opencv", lambda c: type(c.preprocess["a-preset"].decode).__name__, "OpenCVDecoder"),
        ("preprocess.a-preset.resize.filter=box", lambda c: c.preprocess["a-preset"].resize.resizer.filter, "box"),
        ("train.augment={}", lambda c: c.train.augment.flip, 0.0),
        ("name=a=b", None, None),
    ],
)  # fmt: skip
def test_an_override_sets_its_value(file, override, get, value):
    if get is None:
        assert f"--set {override}: name:" in refusal(file, override)
        return
    experiment = load_experiment(file, [override])
    assert get(experiment.content) == value
    assert experiment.overrides == (override,)
    assert experiment.text == FULL


def test_an_override_gives_options_to_a_plugin_written_by_its_name_alone(file):
    edited(file, "decode: {name: simplejpeg, chroma: smooth, dct: islow}", "decode: simplejpeg")
    experiment = load_experiment(file, ["preprocess.spelt-out.decode.dct=ifast"])
    assert experiment.paths[0].decode.dct == "ifast"


def test_an_override_reaches_a_path_whose_name_has_dots(file):
    edited(file, "a-preset", "v1.2")
    experiment = load_experiment(file, ["preprocess.v1.2.preset=opencv-train"])
    assert type(experiment.paths[1].decode).__name__ == "OpenCVDecoder"


def test_the_last_of_two_overrides_of_a_key_holds(file):
    experiment = load_experiment(file, ["train.epochs=3", "train.epochs=5"])
    assert experiment.content.train.epochs == 5


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.epoch=3", "train.epoch: unknown key; did you mean 'epochs'?"),
        ("tain.epochs=3", "tain: unknown key; did you mean 'train'?"),
        ("train.epochs=many", "train.epochs: should be a valid integer, not 'many'"),
        ("train.epochs=", "train.epochs: should be a valid integer, not empty"),
        ("train.epochs.first=1", "train.epochs.first: train.epochs is 1, which has no entry 'first'"),
        ("evaluate.backends.2.name=torch", "evaluate.backends.2.name: evaluate.backends is a list; its entries are numbered 0 to 1, not '2'"),
        ("train.seeds.x=1", "train.seeds.x: train.seeds is a list; its entries are numbered 0 to 1, not 'x'"),
        ("preprocess.spelt-out.decode.dtc=islow", "preprocess.spelt-out.decode.dtc: simplejpeg has no such option; did you mean 'dct'?"),
        ("name.x=1", "name: should be a valid string"),
        ("train.model=[", "train.model: not valid YAML: "),
        ("train..x=1", "train..x: an empty key"),
        ("train", "write it as key=value, for example train.epochs=2"),
    ],
)  # fmt: skip
def test_a_wrong_override_is_told_with_its_own_text(file, override, message):
    told = refusal(file, override).splitlines()
    assert told[0].startswith(f"--set {override}: {message}")
    assert told[1] == f"    {override}"
    assert set(told[2]) == {" ", "^"}


def test_mistakes_of_file_and_overrides_are_told_together(file):
    told = refusal(edited(file, "epochs: 1", "epochs: 0"), "train.sed=1", "train.x")
    assert (
        told.index("train.epochs") < told.index("--set train.sed=1") < told.index("--set train.x")
    )


def test_a_wrong_side_of_a_square_is_reported_once(file):
    told = refusal(edited(file, "crop: 48\n", "crop: -4\n"))
    assert told.count("should be greater than or equal to 1, not -4") == 1
    assert "preprocess.spelt-out.crop.size: " in told
