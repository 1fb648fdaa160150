"""`alignkit data stats` and `alignkit data split`."""

import json

import pytest
from PIL import Image


@pytest.fixture
def root(tmp_path):
    for name, level in (("dark", 0), ("light", 255)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for index in range(4):
            Image.new("RGB", (12, 9), (level,) * 3).save(
                tmp_path / "photos" / name / f"{index}.png"
            )
    return tmp_path / "photos"


def test_mean_and_deviation_are_shown_beside_the_counts(alignkit, root):
    told = alignkit("data", "stats", root, "--quiet")
    assert told.code == 0
    assert told.err == ""
    shown = dict(line.split(maxsplit=1) for line in told.out.splitlines()[2:10])
    assert shown == {
        "images": "8, 0.0 MB",
        "measured": "8",
        "formats": "8 PNG",
        "classes": "2 of 4",
        "width": "12",
        "height": "9",
        "sizes": "1",
        "mean": "0.5000 0.5000 0.5000",
    }


def test_the_json_holds_what_the_text_shows(alignkit, root):
    (found,) = json.loads(alignkit("data", "stats", root, "--json").out)["sets"]
    assert found["classes"] == {"dark": 4, "light": 4}
    assert found["whole_set"] == {"mean": [0.5] * 3, "std": [0.5] * 3}
    assert found["width"] == {"least": 12, "median": 12, "greatest": 12}


def test_an_experiment_shows_what_it_normalises_with(alignkit, file):
    told = alignkit("data", "stats", file, "--set", "data.train=10")
    assert told.code == 0
    assert "opencv normalises with" in told.out
    assert "0.4850 0.4560 0.4060" in told.out
    assert "0.2290 0.2240 0.2250" in told.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--decoder", "pilow"], "no decoder 'pilow'; did you mean 'pillow'?"),
        (["--preprocess", "x"], "is a place of images; --preprocess and --set need a file"),
    ],
)
def test_a_wrong_option_is_told(alignkit, root, words, said):
    told = alignkit("data", "stats", root, *words)
    assert told.code == 2
    assert said in told.err


def test_a_division_is_told_class_by_class(alignkit, root, tmp_path):
    told = alignkit("data", "split", root, tmp_path / "one", "--eval", 0.5)
    *table, note = told.out.splitlines()
    assert table == ["class  train  eval", "dark   2      2", "light  2      2"]
    assert note.startswith("evaluation images that are training images too: 4, ")
    assert alignkit("data", "stats", tmp_path / "one").code == 0
    assert alignkit("data", "split", root, tmp_path / "one").code == 2
