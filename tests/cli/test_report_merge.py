"""A gate in shards is the gate in one."""

import json

import pytest

from alignkit.stored_file import sealed
from tests.gate_case import PATHS, make_case

NEAREST = PATHS.replace(
    "opencv: {decode: opencv", "opencv: {decode: {name: simplejpeg, chroma: nearest}"
)
RULES = ("{preset: decode}", "{metric: decode.p99, fail: 1}", "{metric: resize.psnr, fail: 10}")


@pytest.fixture
def case(tmp_path):
    return make_case(tmp_path)


@pytest.fixture
def ak(alignkit, case):
    return lambda *words: alignkit(*words, "--reports", case.reports)


@pytest.fixture
def shards(ak, case):
    def make(file, count, *more):
        paths = [case.folder / f"part-{index}.json" for index in range(1, count + 1)]
        codes = []
        for index, path in enumerate(paths, 1):
            told = ak("gate", file, "-q", "--no-html", "--shard", f"{index}/{count}",
                      "--out", f"shard={path}", *more)  # fmt: skip
            codes.append(told.code)
        return paths, codes

    return make


def results(path):
    document = json.loads(path.read_text())
    for own in ("command", "started", "seconds", "report", "key", "controls", "environment"):
        document.pop(own, None)
    return document


def test_what_is_merged_is_what_one_run_gives(ak, case, shards, tmp_path):
    file = case.write(*RULES, paths=NEAREST)
    one, merged = tmp_path / "one.json", tmp_path / "merged.json"
    whole = ak("gate", file, "-q", "--no-html", "--out", f"json={one}")
    paths, codes = shards(file, 3)
    assert set(codes) <= {0, 1}
    told = ak("report", "merge", file, *paths, "--no-html", "--out", f"json={merged}")
    assert told.code == whole.code == 1
    first, second = results(one), results(merged)
    assert second == first
    assert "images     5" in told.out
    assert "9 of 9 controls hold" in told.out


def test_baselines_are_merged_too(ak, case, shards):
    one = "  serving: {decode: pillow, resize: {name: opencv, size: 32}}\n"
    file = case.write("{metric: resize.mean_abs, fail: 0.1, against: baseline}", paths=one)
    ak("baseline", "record", file, "--golden", "resize")
    change = ("--set", "preprocess.serving.resize.interpolation=area")
    whole = ak("gate", file, "-q", "--no-html", *change)
    paths, _ = shards(file, 2, *change)
    told = ak("report", "merge", file, *paths, "--no-html", *change)
    assert told.code == whole.code == 1
    assert told.out.splitlines()[1] == whole.out.splitlines()[1]
    assert "5 images change here first" in told.out


def test_the_merged_report_is_rendered(ak, case, shards):
    file = case.write(*RULES)
    paths, _ = shards(file, 2)
    told = ak("report", "merge", file, *paths)
    assert told.code == 0
    names = " ".join(map(str, paths))
    assert f" alignkit report merge {file} {names} --reports {case.reports}\n" in told.out
    assert list(case.reports.glob("small/*/index.html"))


@pytest.mark.parametrize(
    ("keep", "said"),
    [([0], "shards 2, 3 of 3 are missing"), ([0, 1, 2, 2], "given twice")],
)
def test_missing_and_repeated_shards_are_refused(ak, case, shards, keep, said):
    file = case.write(*RULES)
    paths, _ = shards(file, 3)
    told = ak("report", "merge", file, *(paths[index] for index in keep), "--exit-zero")
    assert told.code == 2
    assert said in told.out


def test_shards_of_other_files_images_or_options_are_refused(ak, case, shards):
    file = case.write(*RULES)
    (first, second), _ = shards(file, 2)
    told = ak("report", "merge", file, first, second, "--set", "preprocess.opencv.colour=bgr")
    assert (told.code, "other --set" in told.out) == (2, True)
    case.write(*RULES, "{metric: crop.max_abs, fail: 1}")
    told = ak("report", "merge", file, first, second)
    assert (told.code, "another version of it" in told.out) == (2, True)
    case.write(*RULES)
    (case.images / "420.jpg").unlink()
    later = case.folder / "later.json"
    ak("gate", file, "-q", "--no-html", "--shard", "2/2", "--out", f"shard={later}")
    told = ak("report", "merge", file, first, later)
    assert (told.code, "different images" in told.out) == (2, True)
    damaged = case.folder / "damaged.json"
    damaged.write_text(second.read_text()[:-50])
    told = ak("report", "merge", file, first, damaged)
    assert (told.code, "is no shard" in told.out) == (2, True)


def test_the_shard_of_a_gate_that_measured_nothing_is_called_so(ak, case, shards):
    file = case.write(*RULES)
    (first, second), _ = shards(file, 2)
    wrong = ak("gate", case.write("{metric: nosuch, fail: 1}"), "-q", "--no-html", "--shard", "2/2",
               "--out", f"shard={second}")  # fmt: skip
    assert wrong.code == 2
    case.write(*RULES)
    told = ak("report", "merge", file, first, second)
    assert (told.code, "the gate of that shard measured nothing" in told.out) == (2, True)


@pytest.mark.parametrize("text", ["0/3", "4/3", "2", "a/b", "1/0"])
def test_a_shard_is_i_of_n(ak, case, text):
    assert ak("gate", case.write(), "--shard", text).code == 2


def test_a_shard_without_images_compared_nothing(ak, case):
    told = ak("gate", case.write(), "-q", "--shard", "9/9")
    assert told.code == 5
    assert "shard 9 of 9 has none of 5 images" in told.out


def forged(path, **parts):
    """A copy of a shard with other values."""
    copy = path.with_name(f"forged-{len(list(path.parent.iterdir()))}.json")
    document = {**json.loads(path.read_text()), **parts}
    # whoever forges a shard can seal it, too
    document.pop("sha256")
    copy.write_text(sealed(json.dumps(document) + "\n"))
    return copy


def without_an_image(path, **parts):
    """A copy of a shard that hides its last image wherever images are counted."""
    document = json.loads(path.read_text())
    images, record, pairs = (document[key] for key in ("images", "record", "pairs"))
    record["data"]["eval"] -= 1
    for pair in pairs:
        pair["coverage"]["images"] -= 1
    return forged(path, images=images[:-1], record=record, pairs=pairs, **parts)


def test_shards_are_known_by_their_images_whatever_they_say(ak, case, shards):
    file = case.write(*RULES)
    (first, second, third), _ = shards(file, 3)
    renamed = [f"other-{image}" for image in json.loads(first.read_text())["images"]]
    half = json.loads(second.read_text())["images"][:1]
    record = json.loads(third.read_text())["record"]
    fewer = [forged(each, total=4) for each in (first, third)]
    fewer.insert(1, without_an_image(second, total=4))
    pathless = [
        forged(each, record={**json.loads(each.read_text())["record"], "paths": []})
        for each in (first, second, third)
    ]
    for parts, said in (
        ((first, forged(first, shard=[2, 3]), third), "shards 1 and 2 both hold 420.jpg: one was"),
        ((first, second, forged(first, shard=[3, 3], images=renamed)), "hold 6 of 5 images"),
        ((forged(first, shard=[1, 2]), forged(second, shard=[2, 2])), "hold 4 of 5 images"),
        ((first, second, forged(third, images=[])), "is no shard"),
        ((first, forged(second, images=half), third), "shard 2 holds 1 images and counts 2"),
        ((first, second, forged(third, pairs=[])), "compare other paths or stages"),
        ((first, second, forged(third, record={**record, "controls": []})), "holds 0 of 3 control"),
        (pathless, "does not list the paths pillow, opencv"),
        (fewer, "shard 2 is not of 2/3 of 4 images"),
    ):
        told = ak("report", "merge", file, *parts, "--exit-zero")
        assert (told.code, said in told.out) == (2, True), told
