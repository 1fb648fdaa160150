"""`alignkit data stats`, `alignkit data split` and `alignkit data convert`."""

import json

import pytest
from PIL import Image

from tests.datasets import identity_case as case


@pytest.fixture
def root(tmp_path):
    for name, level in (("dark", 0), ("light", 255)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for index in range(4):
            Image.new("RGB", (12, 9), (level,) * 3).save(
                tmp_path / "photos" / name / f"{index}.png"
            )
    return tmp_path / "photos"


def test_both_means_and_deviations_are_shown_by_name(alignkit, root):
    told = alignkit("data", "stats", root, "--quiet")
    assert told.code == 0
    assert told.err == ""
    assert "whole set: all pixels equally  0.5000 0.5000 0.5000  0.5000 0.5000 0.5000" in told.out
    assert "per image, averaged            0.5000 0.5000 0.5000  0.0000 0.0000 0.0000" in told.out


def test_the_json_holds_what_the_text_shows(alignkit, root):
    (found,) = json.loads(alignkit("data", "stats", root, "--json").out)["sets"]
    assert found["classes"] == {"dark": 4, "light": 4}
    assert found["whole_set"] == {"mean": [0.5] * 3, "std": [0.5] * 3}
    assert found["per_image"]["std"] == [0.0] * 3
    assert found["width"] == {"least": 12, "median": 12, "greatest": 12}


def test_an_experiment_shows_what_it_normalises_with(alignkit, file):
    told = alignkit("data", "stats", file, "--set", "data.train=10")
    assert told.code == 0
    assert "opencv normalises with" in told.out
    assert "0.4850 0.4560 0.4060  0.2290 0.2240 0.2250" in told.out


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


def test_a_division_is_told_class_by_class_and_as_json(alignkit, root, tmp_path):
    told = alignkit("data", "split", root, tmp_path / "one", "--eval", 0.5)
    assert told.out.splitlines()[:4] == [
        "class  train  eval",
        "dark   2      2",
        "light  2      2",
        "all    4      4",
    ]
    document = json.loads(alignkit("data", "split", root, tmp_path / "two", "--json").out)
    assert document["train"] == {"dark": 3, "light": 3}
    assert alignkit("data", "stats", tmp_path / "two").code == 0


def test_a_second_division_into_the_same_folder_is_refused(alignkit, root, tmp_path):
    alignkit("data", "split", root, tmp_path / "new")
    told = alignkit("data", "split", root, tmp_path / "new")
    assert told.code == 2
    assert "exists, and nothing is overwritten" in told.err


def test_a_conversion_is_told_with_the_lines_that_read_it(alignkit, tmp_path):
    root = case.folder(tmp_path / "faces")
    rows = [f"{a} {b} {int(same)}\n" for a, b, same in case.pairs()]
    (root / "pairs.txt").write_text("".join(rows))
    told = alignkit("data", "convert", root, tmp_path / "shards", "--to", "base64", "--shards", 2)
    assert told.code == 0
    size = sum(map(len, case.pictures().values()))
    head, *lines = told.out.replace("\N{NO-BREAK SPACE}", " ").splitlines()
    sides = f"{root} (folder) → {tmp_path / 'shards'} (base64)"
    assert head == f"{sides}: 11 images, 4 identities, {size:,} bytes of images, 20 pairs"
    assert lines == [
        "every image was read back and has the SHA-256 of the source's",
        "",
        "data:",
        "  name: identities",
        f"  root: {tmp_path / 'shards'}",
        f"  pairs: {tmp_path / 'shards' / 'pairs.txt'}",
        "  eval_share: 1",
    ]
    assert [line.split(":")[0] for line in told.err.splitlines()[::2]] == ["hash", "copy", "verify"]
    told = alignkit(
        "data", "convert", tmp_path / "shards", tmp_path / "lfw.bin", "--quiet", "--json"
    )
    assert told.err == ""
    assert json.loads(told.out)["data"] == {"name": "identities", "root": str(tmp_path / "lfw.bin")}


def test_images_that_cannot_be_read_are_named_and_left_out_on_demand(alignkit, tmp_path):
    root = case.folder(tmp_path / "faces")
    for number in range(1, 5):
        file = root / "cy" / f"cy_000{number}.jpg"
        file.unlink()
        file.symlink_to("gone.jpg")
    (root / "cy" / "cy_0005.jpg").write_bytes(b"x")
    words = ("data", "convert", root, tmp_path / "list", "--to", "list", "--quiet")
    told = alignkit(*words)
    assert told.code == 2
    assert "4 of 12 images of" in told.err
    assert "write --leave-out-unreadable" in told.err
    told = alignkit(*words, "--leave-out-unreadable")
    assert told.code == 0
    out = told.out.replace("\N{NO-BREAK SPACE}", " ")
    assert "left out, as they cannot be read: 4 images\n  cy/cy_0001.jpg: a link to gone.jpg" in out
    assert "  and 1 more; use --json to list all" in out


def test_lists_in_the_other_order_and_elsewhere_are_converted(alignkit, tmp_path):
    case.folder(tmp_path / "images")
    lines = [f"{name.split('/')[0]} {name}\n" for name in case.pictures()]
    (tmp_path / "mine").write_text("".join(lines))
    words = ("data", "convert", tmp_path / "mine", tmp_path / "new", "--to", "folder", "--quiet")
    told = alignkit(
        *words, "--from", "list", "--columns", "label,image", "--images", tmp_path / "images"
    )
    assert told.code == 0
    assert (tmp_path / "new" / "bob" / "bob_0002.jpg").read_bytes() == case.picture("bob", 2)
    told = alignkit("data", "convert", tmp_path / "new", tmp_path / "newer")
    assert told.code == 2
    assert told.err.endswith("name its form, --to folder, --to list or --to base64\n")
    assert "Traceback" not in told.err
