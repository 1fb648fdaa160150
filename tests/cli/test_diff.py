"""`alignkit diff` as a user meets it."""

import html
import json
import os
import re
import subprocess
import sys

import html5lib
import pytest

from alignkit.record.diff_document import read_diff_record
from tests.cli.test_match import linear_model
from tests.photos import encoded, exif, photo

NEAREST = "{name: nearest, preset: opencv-train, decode: {name: simplejpeg, chroma: nearest}}"
PAIR = ("--preprocess", "opencv-train", "--preprocess", NEAREST, "--size", "48")
FILES = {
    "420.jpg": encoded(photo(height=80, width=90), subsampling="4:2:0", quality=90),
    "444.jpg": encoded(photo(height=70, width=60), subsampling="4:4:4", quality=90),
    "turned.jpg": encoded(photo(), subsampling="4:4:4", exif=exif(6)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("images")
    for name, data in FILES.items():
        (path / name).write_bytes(data)
    return path


def test_the_summary_names_coverage_first_then_the_stage(alignkit, folder):
    told = alignkit("diff", folder, *PAIR)
    lines = told.out.splitlines()
    assert told.code == 0
    assert len(lines) <= 40
    assert lines[0] == f"3\N{NO-BREAK SPACE}images of {folder}"
    assert lines[1] == "Every path decoded every image cleanly."
    assert lines[3].startswith("nearest against opencv-train: first diverges at decode (mean ")
    assert any(re.match(r"  4:4:4 +2 +0 +0 +0\s% +0 +0 +0\s%$", line) for line in lines)
    (worst,) = (line for line in lines if line.startswith("  420.jpg"))
    assert worst.split()[1] == "4:2:0"
    assert "compare: 0 of 3" in told.err


def test_a_page_of_images_that_nothing_decodes_says_so(alignkit, tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "cut.jpg").write_bytes(FILES["444.jpg"][:300])
    page = tmp_path / "page"
    told = alignkit("diff", tmp_path / "images", *PAIR, "--out", f"html={page}")
    assert (told.code, "Traceback" in told.err) == (5, False)
    assert "No pixels were compared." in (page / "index.html").read_text()


def test_a_path_against_itself_is_equal_everywhere(alignkit, folder):
    told = alignkit("diff", folder, "--preprocess", "opencv-train", "--preprocess", "opencv-train")
    assert "opencv-train-2 against opencv-train: equal at every stage on all 3" in told.out


def test_names_with_commas_are_several_and_json_is_printed_alone(alignkit, folder):
    told = alignkit("diff", folder, "--preprocess", "opencv-train,pillow-train", "--json", "-q")
    assert [pair["candidate"] for pair in json.loads(told.out)["pairs"]] == ["pillow-train"]


def test_several_outputs_are_written(alignkit, folder, tmp_path):
    out = [f"--out={kind}={tmp_path / name}" for kind, name in (("json", "d.json"), ("html", "h"))]
    told = alignkit("diff", folder, *PAIR, *out, "--stress", "420:q75")
    assert told.code == 0
    assert "4:2:0 q75: first diverges at decode" in told.out
    stored = json.loads((tmp_path / "d.json").read_text())
    assert stored["kind"] == "diff"
    assert stored["command"].startswith("alignkit diff ")
    record = read_diff_record(tmp_path / "h" / "record.json")
    assert [image.id for image in record.shown] == ["420.jpg"]
    for artifact in (record.shown[0].a, record.shown[0].b, record.shown[0].difference):
        assert (tmp_path / "h" / artifact.path).is_file()


def test_the_page_is_valid_and_whole_without_a_script_or_a_network(alignkit, folder, tmp_path):
    alignkit("diff", folder, *PAIR, f"--out=html={tmp_path}", "--stress", "444:q90", "--quiet")
    page = (tmp_path / "index.html").read_text()
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    assert len(list(tree.iter("h1"))) == 1
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for element in tree.iter():
        for name in ("href", "src"):
            target = element.get(name, "")
            assert not re.match(r"(\w+:)?//", target)
            if target.startswith("#"):
                assert target[1:] in ids
            elif target and not target.startswith("data:"):
                assert (tmp_path / target).is_file()
    words = " ".join("".join(tree.itertext()).split())
    for expected in (
        "first diverges at decode",
        "4:4:4 q90, by simplejpeg",
        "420.jpg",
        "decoded every image",
    ):
        assert expected in words
    assert "No prediction flipped" not in words


def test_paths_and_data_come_from_an_experiment(alignkit, folder, tmp_path):
    file = tmp_path / "pixels.yaml"
    file.write_text(
        f"name: pixels\ndata: {{name: images, root: {folder}}}\n"
        "preprocess:\n  ours: {preset: opencv-train, size: 32}\n"
        "  theirs: {preset: pillow-train, size: 32}\n"
    )
    for words in (("--config", file), (file,)):
        told = alignkit("diff", *words, "-q")
        assert "theirs against ours: first diverges at orient" in told.out
    told = alignkit("diff", folder / "444.jpg", "--config", file, "--preprocess", "theirs",
                    "--preprocess", "ours", "-q")  # fmt: skip
    assert "ours against theirs: first diverges at resize" in told.out


def test_exit_codes(alignkit, folder, tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(photo(), "PNG"))
    (tmp_path / "b.jpg").write_bytes(FILES["420.jpg"])
    uneven = alignkit("diff", tmp_path, *PAIR)
    assert uneven.code == 0
    assert re.search(r"^opencv-train and nearest +2 +1 +a\.png +0 +–$", uneven.out, re.MULTILINE)
    assert alignkit("diff", tmp_path, *PAIR, "--fail-on-coverage").code == 1
    assert alignkit("diff", folder, *PAIR, "--fail-on-coverage").code == 0
    assert alignkit("diff", folder, "--preprocess", "opencv-train").code == 2
    assert alignkit("diff", tmp_path / "none", *PAIR).code == 2
    assert alignkit("diff", folder, *PAIR, "--out", "pdf=x").code == 2
    assert alignkit("diff", folder, *PAIR, "--stress", "x").code == 2
    gpu = alignkit("diff", folder, *PAIR, "--preprocess", "torchvision-cuda")
    assert gpu.code == 4
    assert "torchvision-cuda: skipped, needs an NVIDIA GPU" in gpu.out
    assert alignkit("diff", tmp_path / "a.png", *PAIR).code == 5


def test_help_loads_nothing_heavy():
    program = (
        "import sys; sys.argv = ['alignkit', 'diff', '--help']\n"
        "from alignkit.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not {'numpy', 'cv2', 'torch', 'PIL'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_what_is_no_regular_file_is_one_failed_image_in_every_output(alignkit, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    odd = "a\n|\t\"'<b>\u202e\x1b.jpg"
    (images / odd).write_bytes(FILES["420.jpg"])
    os.mkfifo(images / "fifo.jpg")
    (images / "device.jpg").symlink_to("/dev/zero")
    (images / "dangling.jpg").symlink_to("nowhere")
    (images / "loop.jpg").symlink_to("loop.jpg")
    (images / os.fsdecode(b"caf\xe9.jpg")).write_bytes(FILES["444.jpg"])
    out = [f"--out={kind}={tmp_path / name}" for kind, name in (("json", "d.json"), ("html", "h"))]
    told = alignkit("diff", images, *PAIR, *out)
    assert told.code == 0
    assert re.search(r"^nearest +eval +1 +0 +5 +0$", told.out, re.MULTILINE)
    record = read_diff_record(tmp_path / "d.json")
    reasons = {each.id: each.reason for each in record.coverage[0].examples}
    assert reasons == {
        r"caf\xe9.jpg": "its name is not UTF-8; rename it",
        "dangling.jpg": "a link to nowhere, which is not there",
        "device.jpg": "not a regular file: a device",
        "fifo.jpg": "not a regular file: a FIFO",
        "loop.jpg": "a link to itself",
    }
    (worst,) = record.pairs[0].worst
    assert worst.id == r"a\x0a|\x09" + "\"'<b>" + r"\u202e\x1b.jpg"
    assert worst.id in told.out
    page = html.unescape((tmp_path / "h" / "index.html").read_text(encoding="utf-8"))
    assert worst.id in page
    only = alignkit("diff", images, *PAIR, "--only", worst.id)
    assert only.out.startswith("1\N{NO-BREAK SPACE}image of ")


def test_the_last_words_are_cause_mechanism_and_whether_it_matters(alignkit, folder, tmp_path):
    told = alignkit("diff", folder, *PAIR, f"--out=json={tmp_path / 'd.json'}", "-q")
    cause, why, *comparisons, empty, matter = told.out.splitlines()[-6:]
    nbsp = "\N{NO-BREAK SPACE}"
    assert (
        cause
        == f"  1{nbsp}image changes first at decode: OpenCV → SimpleJPEG chroma=nearest dct=islow"
    )
    assert why.startswith("  why: nearest repeats the samples of chroma, opencv-train interpolates")
    assert all(each.startswith("  for comparison, measured: ") for each in comparisons)
    assert "docs/evidence.md" in comparisons[0]
    assert empty == ""
    assert matter.startswith("does it matter: no model was given: add --model FILE.onnx")
    (pair,) = read_diff_record(tmp_path / "d.json").pairs
    assert (pair.causes[0].stage, pair.causes[0].begun) == ("decode", 1)
    assert pair.mechanism.explains_most
    assert len(pair.effects) == len(comparisons)


def test_with_a_model_the_last_words_count_the_predictions_that_change(alignkit, folder, tmp_path):
    linear_model(tmp_path / "model.onnx", 32)
    nearest = "{name: nearest, preset: opencv-train, resize: {interpolation: nearest}}"
    told = alignkit(
        "diff", folder, "-p", "opencv-train", "-p", nearest, "--model", tmp_path / "model.onnx",
        f"--out=html={tmp_path / 'h'}", "-q",
    )  # fmt: skip
    assert told.code == 0
    record = read_diff_record(tmp_path / "h" / "record.json")
    drift = record.pairs[0].predictions
    # the size is the model's own, as no --size was given
    assert record.paths[0].stages[2].options["size"] == [32, 32]
    assert "input: 32x32, which the model's file fixes; mean 0.485/0.456/0.406" in told.out
    assert told.out.count("40 scores of classes; the greatest is the prediction") == 1
    assert f"does it matter: {record.pairs[0].matter[0]}" in told.out
    assert "no model was given" not in told.out
    page = html.unescape((tmp_path / "h" / "index.html").read_text(encoding="utf-8"))
    html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    for words in ("A model's predictions", "resizer.interpolation: linear → nearest"):
        assert words in page
    assert drift.n == len(FILES)


def test_what_was_not_compared_is_no_zero(alignkit, tmp_path):
    for number in range(3):
        image = photo(height=80 + number, width=90)
        (tmp_path / f"{number}.jpg").write_bytes(encoded(image, exif=exif(6)))
    (tmp_path / "upright.jpg").write_bytes(encoded(photo(height=80, width=90)))
    turned = "{name: turned, preset: pillow-train, orient: exif}"
    told = alignkit("diff", tmp_path, "-p", "pillow-train", "-p", turned, "--size", "48",
                    f"--out=html={tmp_path / 'h'}", "-q")  # fmt: skip
    assert re.search(r"^  orient +– \(a\) +– \(a\)", told.out, re.MULTILINE)
    assert re.search(
        r"^  a: 1 of 4\simages compared; the others have another shape", told.out, re.MULTILINE
    )
    page = (tmp_path / "h" / "index.html").read_text(encoding="utf-8")
    assert re.search(r"\b3 of 4\b[^<]* turned|1 of 4[^<]* compared", page)
    assert "stage, in levels" in told.out


def test_a_limit_draws_the_same_images_and_says_so(alignkit, folder):
    first, again = (alignkit("diff", folder, *PAIR, "--limit", "2", "-q") for _ in range(2))
    assert first.out.startswith(
        f"2\N{NO-BREAK SPACE}images of {folder}, drawn from 3, the same ones every time\n"
    )
    assert first.out == again.out
    assert "drawn from" not in alignkit("diff", folder, *PAIR, "--limit", "3", "-q").out


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("torchpipe", "did you mean 'torchpipe-cpu'"),
        ("pil", "did you mean 'pillow-train'?"),
        ("cv2", "did you mean 'opencv-train'?"),
        ("triton", "alignkit match --target http://HOST:PORT/v2/models/NAME finds out which"),
        ("onnx", "a runtime does not preprocess"),
        ("torchpipe-gpu", "none; torchpipe-gpu-surrogate and torchpipe-cpu run here"),
        ("dali-gpu", "dali-gpu-surrogate"),
    ],
)
def test_names_that_cannot_be_used_lead_to_what_runs_here(alignkit, folder, word, said):
    told = alignkit("diff", folder, "-p", "pillow-train", "-p", word)
    assert told.code in (2, 4)
    assert said in told.err


def test_pixels_of_opencv_and_pillow_need_no_torch(folder, tmp_path):
    for name in ("torch", "torchvision", "onnxruntime", "scipy", "sklearn"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} was imported')")
    command = [sys.executable, "-m", "alignkit", "diff", str(folder), "-p", "opencv-train",
               "-p", "pillow-train", "--size", "48", "--progress", "none"]  # fmt: skip
    # the folder comes first in every process, so that an import anywhere fails
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "opencv-train" in done.stdout


def test_a_scheduler_that_does_not_answer_is_one_line_and_exit_4(alignkit, folder, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("alignkit.lots.dask.ANSWER_SECONDS", 0.5)
    shown = alignkit("diff", folder, *PAIR, "--engine", "dask", "--address", "tcp://127.0.0.1:9")
    assert shown.code == 4
    assert shown.out == ""
    assert len(shown.err.strip().splitlines()) == 1
    assert "--engine dask: no scheduler answers at tcp://127.0.0.1:9" in shown.err
