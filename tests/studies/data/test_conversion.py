"""Conversions keep every byte, label and pair, or write nothing; the source is only read."""

import base64
import hashlib
import pickle
import resource
import signal
import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from alignkit.datasets import base64_shards
from alignkit.datasets.identities import Identities
from alignkit.errors import ConfigError, DataError, WorkspaceError
from alignkit.progress import NoProgress
from alignkit.studies.data import conversion
from alignkit.studies.data.conversion import ConversionSource, convert
from alignkit.studies.data.whole_target import appearing_whole
from tests.datasets import identity_case as case

WRITERS = {"folder": case.folder, "list": case.listed, "base64": case.shards}
AWKWARD = {"Zoë": 2, "李小龙": 3, "o'brien,jr": 1, "#7": 1, "-rf": 2, "label": 1}


def converted(root, target, form=None, **options):
    here = {name: options.pop(name) for name in ("form", "images", "pairs", "columns")
            if name in options}  # fmt: skip
    return convert(ConversionSource(root, **here), target, form, progress=NoProgress(), **options)


def tree(root):
    """Hash a tree: names, kinds, bytes and times of change."""
    digest = hashlib.sha256()
    for path in sorted([root, *root.rglob("*")]):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        digest.update(repr((str(path), status.st_mode, status.st_mtime_ns, data)).encode())
    return digest.hexdigest()


def entries(folder):
    return sorted(each.name for each in folder.iterdir())


def images_of(root):
    """Read the labels and bytes of a form without alignkit's readers, in order."""
    if (root / "file_list.txt").exists():
        lines = [
            line.split(b"\t")
            for name in (root / "file_list.txt").read_text().split()
            for line in (root / name).read_bytes().splitlines()
        ]
        return [(label.decode(), base64.b64decode(data)) for data, label in lines]
    if (root / "label.txt").exists():
        lines = (root / "label.txt").read_text(encoding="utf-8").splitlines()
        rows = [line.rsplit(" ", 1) for line in lines]
        return [(label, (root / name).read_bytes()) for name, label in rows]
    return [
        (str(path.relative_to(root)).split("/")[0], path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.parent != root
    ]


def pairs_of(samples):
    found = samples.pairs
    rows = zip(found.first, found.second, found.same, found.fold, strict=True)
    return [(samples.read(a), samples.read(b), bool(same), int(fold)) for a, b, same, fold in rows]


def paired(root, form, people=case.PEOPLE):
    """Write a form and its pairs, with folds that are not in order."""
    WRITERS[form](root, people)
    names = Identities(root=root, eval_share=1).whole().names
    at = {data: name for name, (_, data) in zip(names, images_of(root), strict=True)}
    data = case.pictures(people)
    count = len(case.pairs(people))
    lines = [
        f"{at[data[a]]}\t{at[data[b]]}\t{int(same)}\t{(index * 7) % 10}\n"
        for index, (a, b, same) in enumerate(case.pairs(people))
    ]
    assert count % 10 == 0
    (root / "pairs.txt").write_text("".join(lines), encoding="utf-8")
    return root


@pytest.mark.parametrize("to", WRITERS)
@pytest.mark.parametrize("form", WRITERS)
def test_every_form_becomes_every_other_and_the_same_again(tmp_path, form, to):
    source = paired(tmp_path / "source", form)
    before, wanted = tree(source), images_of(source)
    made = converted(source, tmp_path / "there", to)
    back = converted(tmp_path / "there", tmp_path / "back", form)
    assert tree(source) == before
    assert (made.images, made.identities, made.pairs) == (11, 4, 20)
    assert made.bytes == sum(len(data) for _, data in wanted)
    for root in (tmp_path / "there", tmp_path / "back"):
        assert sorted(images_of(root)) == sorted(wanted)
        if "folder" not in (form, to):
            assert images_of(root) == wanted
    given = Identities(root=source, pairs=source / "pairs.txt", eval_share=1).evaluation()
    for each in (made, back):
        options = {**each.data}
        assert options.pop("name") == "identities"
        found = Identities(**{name: Path(value) if name != "eval_share" else value
                              for name, value in options.items()})  # fmt: skip
        assert pairs_of(found.evaluation()) == pairs_of(given)
    assert entries(tmp_path) == ["back", "source", "there"]


@pytest.mark.parametrize("order", [["list", "base64"], ["base64", "folder"], ["folder", "list"]])
def test_awkward_names_survive(tmp_path, order):
    root = tmp_path / "mine: ä"
    wanted = []
    for label, count in AWKWARD.items():
        for index in range(count):
            data = case.picture(label, index)
            wanted.append((label, data))
            below = "deeper/and deeper" if index else "."
            path = root / label / below / f"my photo ü{index}.JPG"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    for at, form in enumerate([*order, "folder"]):
        converted(root, tmp_path / f"{at} ß", form)
        root = tmp_path / f"{at} ß"
        assert sorted(images_of(root)) == sorted(wanted)
    kept = {path.name for path in root.rglob("*.JPG")}
    assert kept == (
        set() if "base64" in order else {"my photo ü0.JPG", "my photo ü1.JPG", "my photo ü2.JPG"}
    )


def test_files_of_a_folder_keep_their_paths_through_a_list(tmp_path):
    root = case.folder(tmp_path / "a")
    (root / "ann" / "2020").mkdir()
    (root / "ann" / "2020" / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    converted(root, tmp_path / "b", "list")
    converted(tmp_path / "b", tmp_path / "c", "folder")
    names = [sorted(str(path.relative_to(each)) for path in each.rglob("*"))
             for each in (root, tmp_path / "c")]  # fmt: skip
    assert names[0] == names[1]
    converted(root, tmp_path / "d", "base64", shards=3)
    converted(tmp_path / "d", tmp_path / "e", "folder")
    assert (tmp_path / "e" / "ann" / "ann_0001.png").is_file()  # numbered as in LFW
    assert (tmp_path / "e" / "bob" / "bob_0002.jpg").read_bytes() == case.picture("bob", 2)


def test_images_of_a_list_that_lie_elsewhere_or_share_a_name_are_told_apart(tmp_path):
    case.folder(tmp_path / "images", {"a": 1, "b": 1})
    (tmp_path / "images" / "b" / "a_0001.jpg").write_bytes(b"other")
    far = tmp_path / "images" / "a" / "a_0001.jpg"
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "label.txt").write_text(
        f"{far} 0\n../images/b/a_0001.jpg 0\n../images/b/b_0001.jpg 1\n"
    )
    converted(tmp_path / "lists", tmp_path / "folder", "folder")
    found = {
        str(path.relative_to(tmp_path / "folder")) for path in (tmp_path / "folder").rglob("*.jpg")
    }
    assert found == {"0/a/a_0001.jpg", "0/b/a_0001.jpg", "1/b/b_0001.jpg"}
    converted(tmp_path / "lists", tmp_path / "list", "list")
    assert images_of(tmp_path / "list") == images_of(tmp_path / "lists")
    # POSIX lets //a be another place than /a
    (tmp_path / "lists" / "label.txt").write_text(f"/{far} 0\n../images/b/b_0001.jpg 1\n")
    converted(tmp_path / "lists", tmp_path / "slashes", "list")
    assert images_of(tmp_path / "slashes") == images_of(tmp_path / "lists")


def test_a_file_that_a_list_names_in_two_ways_is_refused_by_its_names(tmp_path):
    case.folder(tmp_path / "images", {"a": 1, "b": 1})
    (tmp_path / "lists").mkdir()
    far = tmp_path / "images" / "a" / "a_0001.jpg"
    (tmp_path / "lists" / "label.txt").write_text(f"{far} 0\n../images/a/a_0001.jpg 1\n")
    with pytest.raises(DataError, match=r"lists, \.\./images/a/a_0001\.jpg: .* is there twice"):
        converted(tmp_path / "lists", tmp_path / "t", "list")
    assert entries(tmp_path) == ["images", "lists"]


@pytest.mark.parametrize("form", WRITERS)
def test_a_bin_file_is_that_of_the_standard_library(tmp_path, form):
    source = paired(tmp_path / "source", form)
    before = tree(source)
    made = converted(source, tmp_path / "lfw.bin")
    images, same = pickle.loads((tmp_path / "lfw.bin").read_bytes())
    lines = [line.split("\t") for line in (source / "pairs.txt").read_text().splitlines()]
    ordered = sorted(lines, key=lambda line: int(line[3]))
    assert same == [line[2] == "1" for line in ordered]
    assert [type(each) for each in (images, same)] == [list, list]
    known = dict(zip(Identities(root=source, eval_share=1).whole().names,
                     [data for _, data in images_of(source)], strict=True))  # fmt: skip
    assert images == [known[name] for line in ordered for name in line[:2]]
    assert made.identities is None
    again = converted(tmp_path / "lfw.bin", tmp_path / "again", "bin")
    assert again.data == {"name": "identities", "root": str(tmp_path / "again"), "format": "bin"}
    assert (tmp_path / "again").read_bytes() == (tmp_path / "lfw.bin").read_bytes()
    assert tree(source) == before


def test_images_in_no_pair_are_counted_and_have_no_place_in_a_bin_file(tmp_path):
    source = case.folder(tmp_path / "source")
    names = list(case.pictures())
    rows = [f"{names[0]} {names[1]} 1\n", f"{names[0]} {names[4]} 0\n"] * 5
    (tmp_path / "p").write_text("".join(rows))
    made = converted(source, tmp_path / "x.bin", pairs=tmp_path / "p")
    assert made.images == 3
    assert made.notes[0] == "images that are in no pair, and have no place in a .bin file: 8"
    assert len(pickle.loads((tmp_path / "x.bin").read_bytes())[0]) == 20


def break_list(root):
    (root / "label.txt").write_text("images/ann/ann_0001.jpg\n")


def break_shard(root):
    file = root / "dataset.part0"
    file.write_bytes(file.read_bytes()[:-8])


def break_folder(root):
    (root / "ann" / "ann_0001.jpg").unlink()
    (root / "ann" / "ann_0001.jpg").symlink_to("nowhere.jpg")


def break_bin(file):
    file.write_bytes(file.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("form", "damage", "message"),
    [
        ("folder", break_folder, r"1 of 11 images of .* ann/ann_0001.jpg \(a link to nowhere.jpg"),
        ("list", break_list, "label.txt, line 1: .* is not 'path label'"),
        ("base64", break_shard, "dataset.part0, line 6: "),
        ("bin", break_bin, "is no verification set: "),
    ],
)
def test_damaged_sources_are_named_and_nothing_is_written(tmp_path, form, damage, message):
    root = tmp_path / ("s.bin" if form == "bin" else "s")
    case.verification(root) if form == "bin" else WRITERS[form](root)
    damage(root)
    with pytest.raises(DataError, match=message):
        converted(root, tmp_path / "t", "bin" if form == "bin" else "base64")
    assert entries(tmp_path) == [root.name]


def test_unreadable_images_are_left_out_if_the_user_says_so(tmp_path):
    root = paired(tmp_path / "s", "folder")
    break_folder(root)
    made = converted(root, tmp_path / "t", "list", leave_out=True)
    assert [*made.left_out] == ["ann/ann_0001.jpg"]
    assert made.images == 10
    assert made.pairs == 17
    assert made.notes == ("pairs left out, as an image of each cannot be read: 3",)
    with pytest.raises(DataError, match=r"ten equal folds in order, and these have .* pairs"):
        converted(root, tmp_path / "t.bin", leave_out=True)


def labelled(tmp_path, label, other="b"):
    """Write shards, which hold nearly every label."""
    (tmp_path / "s").write_bytes(
        b"".join(base64.b64encode(case.picture("a", at)) + f"\t{each}\n".encode()
                 for at, each in enumerate((label, other))))  # fmt: skip
    return tmp_path / "s"


@pytest.mark.parametrize(
    ("to", "label", "reason"),
    [
        ("list", "ann lee", "has no space"),
        ("list", "ann\u2003lee", "has no space"),
        ("folder", "a/b", "has no /"),
        ("folder", "..", "hidden folders"),
        ("folder", ".x", "hidden folders"),
        ("folder", "a\\b", r"such as 'a\\\\b': a folder's name has no \\"),
        ("folder", "train", "a meaning of its own"),
        ("folder", "val", "a meaning of its own"),
        ("folder", "label.txt", "a meaning of its own"),
        ("folder", "é" * 128, "at most 255 bytes"),
        ("folder", "b", "from two identities on"),
    ],
)
def test_labels_that_a_form_cannot_hold_are_refused(tmp_path, to, label, reason):
    with pytest.raises(DataError, match=reason):
        converted(labelled(tmp_path, label), tmp_path / "t", to)
    assert entries(tmp_path) == ["s"]


@pytest.mark.parametrize("label", [" a", "a\nb", "a\tb", "x" * 201])
def test_names_of_folders_that_no_line_gives_back_are_refused(tmp_path, label):
    case.folder(tmp_path / "s", {"bob": 1, label: 1})
    with pytest.raises(DataError, match="base64 cannot hold 1 of 2 labels"):
        converted(tmp_path / "s", tmp_path / "t", "base64")


@pytest.mark.parametrize(
    ("name", "data", "to", "message"),
    [
        (
            "a\nb.jpg",
            b"x",
            "list",
            "list cannot hold 1 of the images, such as images/ann/a.x0ab.jpg",
        ),
        ("a\\b.jpg", b"x", "list", "no name with a tab, line feed, backslash"),
        ("empty.jpg", b"", "base64", "the file is empty"),
    ],
)
def test_files_that_a_form_cannot_hold_are_refused(tmp_path, name, data, to, message):
    root = case.folder(tmp_path / "s")
    (root / "ann" / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        converted(root, tmp_path / "t", to)
    assert entries(tmp_path) == ["s"]


def test_a_folder_needs_suffixes(tmp_path):
    (tmp_path / "s").write_bytes(b"".join(
        base64.b64encode(data) + b"\t%d\n" % at for at, data in enumerate((b"\xff\xd8", b"?"))))  # fmt: skip
    with pytest.raises(DataError, match=r"such as 1/1_0001: images are found by their suffix"):
        converted(tmp_path / "s", tmp_path / "t", "folder")
    converted(tmp_path / "s", tmp_path / "t", "list")
    assert images_of(tmp_path / "t") == [("0", b"\xff\xd8"), ("1", b"?")]


def test_a_wrong_place_or_option_is_refused(tmp_path):
    root, bin_file = case.folder(tmp_path / "s"), case.verification(tmp_path / "x.bin")
    before = entries(tmp_path)
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    nobody, long = Path("~nobody-of-that-name/x"), tmp_path / ("x" * 300)
    for source, target, to, options, message in (
        (root, tmp_path / "x.bin", None, {}, "exists, and nothing is overwritten"),
        (root, tmp_path / "link", "list", {}, "exists, and nothing is overwritten"),
        (root, tmp_path / "s" / "." / ".." / "s", "list", {}, "is the source"),
        (root, root / "t", "list", {}, "lies in"),
        (root, tmp_path / "t", None, {}, "name its form, --to folder"),
        (root, tmp_path / "t.bin", None, {}, "there are none; name their file with --pairs"),
        (root, tmp_path / "t", "list", {"shards": 2}, "--shards is for base64"),
        (root, tmp_path / "t", "base64", {"shards": 12}, "--shards 12: 1 to 11"),
        (root, tmp_path / "t", "list", {"images": root}, "--images is for a list"),
        (root, tmp_path / "t", "list", {"columns": ("label", "image")}, "--columns is for"),
        (bin_file, tmp_path / "t", "folder", {}, "holds pairs and no identities"),
        (tmp_path / "gone", tmp_path / "t", "list", {}, "does not exist"),
        (tmp_path / "loop", tmp_path / "t", "list", {}, "Symlink loop"),
        (root, tmp_path / "loop" / "t", "list", {}, "Symlink loop"),
        (nobody, tmp_path / "t", "list", {}, "~nobody-of-that-name/x: Could not determine home"),
        (root, nobody, "list", {}, "~nobody-of-that-name/x: Could not determine home"),
        (root, tmp_path / "t", "list", {"pairs": nobody}, "Could not determine home"),
        (long, tmp_path / "t", "list", {}, "File name too long"),
        (root, long, "list", {}, "File name too long"),
    ):
        with pytest.raises((ConfigError, DataError), match=message):
            converted(source, target, to, **options)
    (tmp_path / "link").unlink(), (tmp_path / "loop").unlink()
    assert entries(tmp_path) == before


@pytest.mark.parametrize("names", [("train", "eval"), ("train",), ("val", "test")])
def test_a_divided_folder_is_converted_split_by_split(tmp_path, names):
    for name in names:
        case.folder(tmp_path / "s" / name)
    with pytest.raises(
        DataError, match=rf"divided into .*convert one at a time, e.g. .*{min(names)}"
    ):
        converted(tmp_path / "s", tmp_path / "t", "list")
    converted(tmp_path / "s" / names[0], tmp_path / "t", "list")


KILLED = """
    import os, signal
    from pathlib import Path
    from alignkit.progress import NoProgress
    from alignkit.studies.data.conversion import ConversionSource, convert

    class Stage:
        done = 0
        def note(self, text): pass
        def advance(self, n=1):
            self.done += n
            if self.name == {stage!r} and self.done == 6:
                os.kill(os.getpid(), signal.{kill})

    class Progress(NoProgress):
        def stage(self, name, total, detail=""):
            from contextlib import nullcontext
            stage = Stage()
            stage.name = name
            return nullcontext(stage)

    convert(ConversionSource(Path("s")), Path("t"), {to!r}, progress=Progress())
"""


@pytest.mark.parametrize(
    ("stage", "to", "kill"),
    [
        ("copy", "folder", "SIGKILL"),
        ("copy", "base64", "SIGKILL"),
        ("verify", "list", "SIGKILL"),
        ("copy", "list", "SIGINT"),
    ],
)
def test_a_killed_conversion_leaves_no_target(tmp_path, stage, to, kill):
    source = paired(tmp_path / "s", "list")
    before = tree(source)
    code = textwrap.dedent(KILLED.format(stage=stage, to=to, kill=kill))
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=False, capture_output=True
    )
    assert ended.returncode == -getattr(signal, kill)
    left = [".t.making", ".t.making.lock"] if kill == "SIGKILL" else []
    assert entries(tmp_path) == [*left, "s"]
    assert tree(source) == before
    converted(source, tmp_path / "t", to)
    assert entries(tmp_path) == ["s", "t"]
    assert sorted(images_of(tmp_path / "t")) == sorted(images_of(source))


def test_a_target_that_appears_meanwhile_is_not_overwritten(tmp_path):
    def slowly():
        with appearing_whole(tmp_path / "t") as slow:
            slow.write_text("slow")
            (tmp_path / "t").write_text("quick")

    with pytest.raises(ConfigError, match="exists, and nothing is overwritten"):
        slowly()
    assert (tmp_path / "t").read_text() == "quick"
    assert entries(tmp_path) == ["t"]


SECOND = """
    from pathlib import Path
    from alignkit.errors import ConfigError
    from alignkit.studies.data.whole_target import appearing_whole

    try:
        with appearing_whole(Path("t")) as whole:
            whole.write_text("second")
    except ConfigError as error:
        print(error)
"""


@pytest.mark.parametrize("fails", [False, True])
def test_a_second_writer_of_one_target_is_refused_until_the_first_ends(tmp_path, fails):
    def second():
        code = [sys.executable, "-c", textwrap.dedent(SECOND)]
        return subprocess.run(code, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    def first():
        with appearing_whole(tmp_path / "t") as whole:
            whole.write_text("first")
            assert second().startswith("another process is writing t; wait for it")
            assert whole.read_text() == "first"
            if fails:
                raise DataError("no")

    if fails:
        with pytest.raises(DataError):
            first()
        assert entries(tmp_path) == []
        assert second() == ""
    else:
        first()
        assert second().startswith("t exists, and nothing is overwritten")
    assert (tmp_path / "t").read_text() == ("second" if fails else "first")
    assert entries(tmp_path) == ["t"]


def test_a_full_disk_is_explained_and_leaves_nothing(tmp_path):
    source = paired(tmp_path / "s", "folder")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for target in ("t", "t.bin"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
        try:
            with pytest.raises(WorkspaceError, match="was not written: File too large; see to it"):
                converted(source, tmp_path / target, "base64" if target == "t" else None)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert entries(tmp_path) == ["s"]


def test_a_source_that_changes_meanwhile_is_noticed(tmp_path, monkeypatch):
    source = case.folder(tmp_path / "s")
    planned = conversion._planned

    def change(*arguments):
        (source / "di" / "di_0002.jpg").write_bytes(b"other")
        return planned(*arguments)

    monkeypatch.setattr(conversion, "_planned", change)
    with pytest.raises(DataError, match=r"di_0002\.jpg: changed after it was listed"):
        converted(source, tmp_path / "t", "base64")
    assert entries(tmp_path) == ["s"]


@pytest.mark.parametrize("fault", ["byte", "label"])
def test_a_target_that_reads_back_otherwise_is_refused(tmp_path, monkeypatch, fault):
    source = case.folder(tmp_path / "s")
    verify = conversion._verify

    def damage(written, *arguments):
        file = written.root / "dataset.part0"
        data = file.read_bytes()
        middle = data[200:201]
        other = b"A" if middle != b"A" else b"B"
        file.write_bytes(data[:200] + other + data[201:] if fault == "byte"
                         else data.replace(b"\tann", b"\tbob", 1))  # fmt: skip
        verify(written, *arguments)

    monkeypatch.setattr(conversion, "_verify", damage)
    with pytest.raises(WorkspaceError, match="are not those of the source"):
        converted(source, tmp_path / "t", "base64")
    assert entries(tmp_path) == ["s"]


@pytest.mark.parametrize("to", ["folder", "base64", "bin"])
def test_memory_does_not_grow_with_the_bytes_of_the_images(tmp_path, to):
    rng = np.random.default_rng(0)
    peaks = []
    for count in (15, 150):
        root = tmp_path / f"{count}"
        root.mkdir()
        with (root / "dataset.part0").open("wb") as file:
            for at in range(count):
                file.write(base64.b64encode(b"\xff\xd8" + rng.bytes(40_000)) + b"\t%d\n" % (at % 2))
        (root / "file_list.txt").write_text("dataset.part0\n")
        lines = [f"dataset.part0:{at}\tdataset.part0:{at + 1}\t0\n" for at in range(1, count, 2)]
        (root / "pairs.txt").write_text("".join(lines))
        base64_shards._known.clear()
        tracemalloc.start()
        converted(root, tmp_path / f"{count}-{to}", to)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 135 images more have 5.4 MB; some wait to be collected, and names and hashes take 4 kB each
    assert peaks[1] - peaks[0] < 135 * 20_000
