"""Golden vectors beside an index: recorded from a run, and encoded again by a gate."""

import base64
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from alignkit.baseline.golden_vectors import cell_vectors, read_vectors, vectors_array
from alignkit.errors import BaselineError, ConfigError, ExitCode
from alignkit.experiment import load_experiment
from alignkit.gate.gate_run import GateRun, run_gate
from alignkit.gate.gate_vectors import golden_vectors, judged_vectors
from alignkit.gate.vectors_recording import record_vectors
from alignkit.progress import progress_for
from alignkit.record.document import read_record
from alignkit.stored_file import sealed
from alignkit.workspace import Context, Workspace

pytest.importorskip("torch", reason="needs the extra train")
from tests.backends.model import trained_model

FILE = """\
name: vectors
data: {{name: digits-on-photos, train: 10, eval: 40, seed: 0}}
preprocess:
  training: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
  pillow: {{preset: pillow-train, size: 32}}
models: [{{name: mine, onnx: {onnx}, preprocess: training}}]
evaluate: {{backends: [{{name: onnxruntime, precision: [fp32]}}], resamples: 200}}
report: {{worst: 1}}
gate: {gate}
"""
VECTORS = "{{vectors: {{file: {file}, {more}}}}}"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A folder with a run's stored work and ``index.json``, the vectors of 12 images."""
    folder = tmp_path_factory.mktemp("recorded")
    file = written(folder, "{informational: true}")
    context = Context(Workspace(folder / "reports"), progress_for("none"))
    vectors = record_vectors(load_experiment(file), context, folder / "index.json", images=12)
    assert (vectors.row, vectors.path) == ("training (model mine)", "training")
    assert (vectors.backend, vectors.precision) == ("onnxruntime", "fp32")
    return folder


def written(folder, gate, name="gate.yaml"):
    file = folder / name
    file.write_text(FILE.format(onnx=trained_model().onnx, gate=gate))
    return file


@pytest.fixture
def judged(recorded, tmp_path):
    """Judge the cells of the run by a copy of the vectors, which a test may change."""
    shutil.copy(recorded / "index.json", tmp_path / "index.json")

    def call(more="path: training"):
        gate = VECTORS.format(file=tmp_path / "index.json", more=more)
        experiment = load_experiment(written(tmp_path, gate))
        run = run_of(recorded)
        rules = judged_vectors(experiment, golden_vectors(experiment), read_record(run), run)
        return {each.outcome.evaluated_with: each for each in rules}

    return call


def run_of(recorded):
    return next((recorded / "reports" / "vectors").iterdir())


def gated(recorded, folder, more="path: training"):
    """Run the whole gate of a file in ``folder`` by the stored work of the run."""
    file = written(folder, VECTORS.format(file=folder / "index.json", more=more))
    run = GateRun(file, (), Workspace(recorded / "reports"), report=False)
    return run_gate(run, progress_for("none"))


def test_a_gate_passes_the_stack_that_recorded_them_and_fails_another(recorded, tmp_path):
    shutil.copy(recorded / "index.json", tmp_path / "index.json")
    result = gated(recorded, tmp_path, "cosine: 0.9999999")
    assert result.exit_code == ExitCode.DRIFT
    own, other = result.record.verdict.rules
    assert (own.evaluated_with, own.state) == ("training", "pass")
    assert own.observed.startswith("least cosine 1.000000 (")
    assert own.observed.endswith("), greatest rank 1 of 12 images")
    assert (other.evaluated_with, other.state) == ("pillow", "fail")
    assert "recorded with the path training" in other.observed
    own_path = gated(recorded, tmp_path)
    assert {each.state for each in own_path.record.verdict.rules} == {"pass"}
    # the models of so few images do not beat chance, which is a control
    assert own_path.exit_code == ExitCode.CRASHED


def test_cosine_and_rank_are_those_of_numpy(judged, recorded):
    folder = run_of(recorded)
    record = read_record(folder)
    cell = next(each for each in record.cells if each.evaluated_with == "pillow")
    answers, rows = cell_vectors(record, folder, cell)
    golden = read_vectors(recorded / "index.json")
    kept = vectors_array(golden).astype(float)
    mine = rows[[answers.ids.index(each.id) for each in golden.images]].astype(float)
    cosine = np.array([
        [a @ b / np.sqrt((a @ a) * (b @ b)) for b in kept] for a in mine
    ])  # fmt: skip
    rank = [1 + sorted(row, reverse=True).index(row[index]) for index, row in enumerate(cosine)]
    found = judged("path: pillow, cosine: -0.99, rank: 12")["pillow"]
    assert found.code == ExitCode.PASS
    assert f"least cosine {cosine.diagonal().min():.6f}" in found.outcome.observed
    assert f"greatest rank {max(rank)}" in found.outcome.observed
    # the rank allowed is 1; which images lie nearest depends on the processor's arithmetic
    expected = ExitCode.DRIFT if max(rank) > 1 else ExitCode.PASS
    assert judged("path: pillow, cosine: -0.99")["pillow"].code == expected


def changed(file, change):
    content = json.loads(read_vectors(file).model_dump_json())
    change(content)
    file.write_text(sealed(json.dumps(content)))


def test_a_vector_of_another_image_fails_by_cosine_and_by_rank(judged, tmp_path):
    def swap(content):
        first, second = content["images"][:2]
        first["vector"], second["vector"] = second["vector"], first["vector"]

    judged()
    changed(tmp_path / "index.json", swap)
    assert judged("path: training, rank: 12")["training"].code == ExitCode.DRIFT
    assert judged("path: training, cosine: -0.9999")["training"].code == ExitCode.DRIFT


def test_vectors_of_another_model_or_other_stages_are_named_as_such(judged, tmp_path):
    changed(tmp_path / "index.json", lambda content: content.update(model="0" * 64))
    assert "recorded with another model" in judged()["training"].outcome.observed
    changed(tmp_path / "index.json", lambda content: content.update(identity="0" * 64))
    assert "other stages of training" in judged()["training"].outcome.observed
    changed(tmp_path / "index.json", lambda content: content.update(precision="fp16"))
    assert "onnxruntime fp16" in judged()["training"].outcome.observed


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_a_vector_of_nan_or_of_zeros_never_passes(judged, tmp_path, value):
    def spoil(content):
        row = np.full(content["dimensions"], value, "<f4")
        content["images"][0]["vector"] = base64.b64encode(row.tobytes()).decode()

    changed(tmp_path / "index.json", spoil)
    assert judged("path: training, cosine: -0.99, rank: 1000")["training"].code == ExitCode.DRIFT


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda c: c["images"][0].update(id="absent.jpg"),
            "absent.jpg of 12 golden images was not",
        ),
        (lambda c: c["images"][0].update(sha256="0" * 64), "is another file than the one"),
        (lambda c: c.update(row="training (model other)"), "no cell of the row"),
        (lambda c: cut(c, 3), "gives 10 values an image, and the golden vectors have 3"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_an_error(judged, tmp_path, change, said):
    changed(tmp_path / "index.json", change)
    (found,) = judged().values()
    assert found.code == ExitCode.NOTHING_COMPARED
    assert said in found.outcome.observed


def cut(content, dimensions):
    content["dimensions"] = dimensions
    for image in content["images"]:
        row = np.frombuffer(base64.b64decode(image["vector"]), "<f4")[:dimensions]
        image["vector"] = base64.b64encode(row.tobytes()).decode()


def test_a_damaged_file_is_one_message_before_any_work(recorded, tmp_path):
    file = tmp_path / "index.json"
    whole = (recorded / "index.json").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for damaged in (whole[:-100], bytes(flipped), b""):
        file.write_bytes(damaged)
        result = gated(tmp_path, tmp_path)  # without stored work
        assert result.exit_code == ExitCode.BASELINE
        assert str(file) in result.verdict.sentence
    file.unlink()
    assert "alignkit baseline vectors FILE --out" in gated(tmp_path, tmp_path).verdict.sentence
    assert not (tmp_path / "reports").exists()


def test_a_vector_of_another_length_or_no_base64_is_an_error_of_the_file(tmp_path, recorded):
    file = tmp_path / "index.json"
    for text, said in (
        ("AAAA", "cannot be read"),
        ("AAAAAA==", "has 1 values, not 10"),
        ("§", "cannot"),
    ):
        shutil.copy(recorded / "index.json", file)
        content = json.loads(read_vectors(file).model_dump_json())
        content["images"][3]["vector"] = text
        file.write_text(sealed(json.dumps(content)))
        with pytest.raises(BaselineError, match=said):
            read_vectors(file)


@pytest.mark.parametrize("more", ["path: absent", "backend: absent", "cosine: 2", "rank: 0"])
def test_options_that_name_nothing_are_refused(tmp_path, more):
    with pytest.raises(ConfigError, match=more.partition(":")[0]):
        load_experiment(written(tmp_path, VECTORS.format(file="index.json", more=more)))


def test_a_file_without_a_model_is_refused(tmp_path, alignkit):
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 40)).save(tmp_path / "photos" / "a.jpg")
    file = tmp_path / "pixels.yaml"
    file.write_text(
        f"name: pixels\ndata: {{name: images, root: {tmp_path / 'photos'}}}\n"
        "preprocess: {a: {preset: opencv-train, size: 32}, b: {preset: pillow-train, size: 32}}\n"
        "gate: {vectors: {file: index.json}}\n"
    )
    done = alignkit("gate", file, "--reports", tmp_path / "reports")
    assert done.code == ExitCode.USAGE
    assert "gate.vectors" in done.out + done.err
    done = alignkit("baseline", "vectors", file, "--out", tmp_path / "x.json")
    assert done.code == ExitCode.USAGE


def test_the_command_records_and_never_overwrites(recorded, tmp_path, alignkit):
    file, out = recorded / "gate.yaml", tmp_path / "served.json"
    words = ("baseline", "vectors", file, "--out", out, "--reports", recorded / "reports", "-q")
    done = alignkit(*words, "--path", "pillow", "--images", 5, "--json")
    assert done.code == 0
    said = json.loads(done.out)
    assert (said["path"], said["images"], said["dimensions"]) == ("pillow", 5, 10)
    assert len(read_vectors(out).images) == 5
    again = alignkit(*words)
    assert again.code == ExitCode.BASELINE
    assert "an index may rely on it" in again.err + again.out
    wrong = alignkit(*words[:4], tmp_path / "y.json", *words[5:], "--path", "pilow")
    assert wrong.code == ExitCode.USAGE
    assert "did you mean 'pillow'" in wrong.err + wrong.out


def test_a_run_leaves_them_to_the_gate(recorded, alignkit, tmp_path):
    file = written(tmp_path, VECTORS.format(file=recorded / "index.json", more="rank: 1"))
    done = alignkit("run", file, "--reports", recorded / "reports", "-q")
    assert "judges rules about vectors" in done.out
