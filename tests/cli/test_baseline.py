"""Baselines on the command line: record → change → CI red → review → approve → green."""

import json

import pytest

from alignkit.baseline.snapshot import take_snapshot
from alignkit.preprocess import STAGES
from tests.gate_case import ONE_PATH, make_case

RULE = "{preset: strict, against: baseline}"
AREA = "preprocess.serving.resize.interpolation=area"


@pytest.fixture
def case(tmp_path):
    return make_case(tmp_path)


@pytest.fixture
def file(case):
    return case.write(RULE, paths=ONE_PATH)


@pytest.fixture
def ak(alignkit, case):
    def call(*words, **variables):
        more = ("-q", "--no-html") if words[0] == "gate" else ()
        return alignkit(*words, "--reports", case.reports, *more)

    return call


@pytest.fixture
def recorded(ak, file):
    assert ak("baseline", "record", file).code == 0
    return file


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_baselines_and_reviews_call_a_surrogate_so(ak, alignkit, case):
    stages = "preset: torchpipe-gpu-surrogate, size: 32, orient: exif"
    gpu = f"  serving: {{{stages}}}\n"
    file = case.write(RULE, paths=gpu)
    done = ak("baseline", "record", file)
    assert done.code == 0
    assert "serving: surrogate of torchpipe-gpu with another orient" in done.out
    told = alignkit("baseline", "show", file).out
    label = "serving: surrogate of torchpipe-gpu with another orient, decode verified"
    assert "  serving (surrogate)  " in told
    assert label in told
    (head,) = json.loads(alignkit("baseline", "show", file, "--json").out)
    assert head["surrogates"]["serving"].startswith(
        "surrogate of torchpipe-gpu with another orient"
    )
    ak("gate", file, "--set", "preprocess.serving.resize.align_corners=false")
    waiting = ak(
        "baseline", "review", file, "--set", "preprocess.serving.resize.align_corners=false"
    ).out
    assert "# serving (surrogate) resize: " in waiting
    assert "# serving: surrogate of torchpipe-gpu with another orient and resize" in waiting

    # the label is that of what was recorded, whatever the file says today
    case.write(RULE, paths=ONE_PATH)
    assert label in alignkit("baseline", "show", file).out
    assert "surrogate" not in ak("baseline", "record", file).out
    (head,) = json.loads(alignkit("baseline", "show", file, "--json").out)
    assert head["surrogates"]["serving"].startswith("surrogate of torchpipe-gpu with another")
    assert "# serving: surrogate" not in ak("baseline", "review", file).out
    assert ak("baseline", "approve", file, "--reason", "serve on the CPU").code == 0
    assert "surrogate" not in alignkit("baseline", "show", file).out
    # an earlier head has no labels: the file's, where it still runs what was recorded
    assert ak("baseline", "record", case.write(RULE, paths=gpu)).code == 0
    assert ak("baseline", "approve", file, "--reason", "imitate the GPU").code == 0
    (stored,) = case.baselines.glob("*.jsonl")
    first, _, rest = stored.read_text().partition("\n")
    old = {name: value for name, value in json.loads(first).items() if name != "surrogates"}
    stored.write_text(json.dumps(old, sort_keys=True) + "\n" + rest)
    assert label in alignkit("baseline", "show", file).out
    case.write(RULE, paths=ONE_PATH)
    assert "surrogate" not in alignkit("baseline", "show", file).out


def test_the_story(ak, alignkit, case, recorded, monkeypatch):
    monkeypatch.setenv("CI", "true")
    before = files(case.baselines)
    red = ak("gate", recorded, "--set", AREA)
    assert red.code == 1
    assert "resizer.interpolation: linear → area" in red.out
    options = f"--set {AREA} --reports {case.reports}"
    assert f"review     alignkit baseline review {recorded} {options}\n" in red.out
    assert f"again      alignkit gate {recorded} {options}\n" in red.out
    assert not list(case.reports.glob("small/pending*"))
    refused = ak("baseline", "approve", recorded, "--set", AREA, "--reason", "on purpose")
    assert (refused.code, files(case.baselines)) == (2, before)

    monkeypatch.delenv("CI")
    assert ak("gate", recorded, "--set", AREA).code == 1
    review = ak("baseline", "review", recorded, "--set", AREA)
    assert review.code == 0
    assert "# serving resize: 5 images changed; resizer.interpolation" in review.out
    assert "alignkit baseline approve" in review.out
    (change,) = json.loads(ak("baseline", "review", recorded, "--set", AREA, "--json").out)[
        "changes"
    ]
    assert (change["path"], change["stage"], len(change["images"])) == ("serving", "resize", 5)
    assert change["approve"] in review.out
    assert change["cause"] in review.out
    assert files(case.baselines) == before
    approve = ("baseline", "approve", recorded, "--set", AREA, "--path", "serving")
    done = ak(*approve, "--stage", "resize", "--reason", "area is what we serve")
    assert done.code == 0, done

    monkeypatch.setenv("CI", "true")
    assert ak("gate", recorded, "--set", AREA).code == 0
    assert ak("gate", recorded).code == 1
    _, second = json.loads(alignkit("baseline", "log", recorded, "--json").out)
    assert second["reason"] == "area is what we serve"
    assert len(second["lines"]) == 10  # resize and normalise of five images
    assert "area is what we serve" in alignkit("baseline", "log", recorded).out


def test_an_approval_of_some_images_leaves_the_others_pending(ak, case, recorded):
    ak("gate", recorded, "--set", AREA)
    ak("baseline", "approve", recorded, "--image", "4*.jpg", "--reason", "only these")
    told = ak("gate", recorded, "--set", AREA)
    assert told.code == 1
    assert "3 images change here first" in told.out
    # the options of a path become the approved ones with its last change
    assert "linear → area" in told.out


def test_what_ci_found_can_be_approved_elsewhere(ak, case, recorded, tmp_path, monkeypatch):
    monkeypatch.setenv("CI", "true")
    artefact = tmp_path / "pending.jsonl"
    ak("gate", recorded, "--set", AREA, "--out", f"pending={artefact}")
    monkeypatch.delenv("CI")
    done = ak("baseline", "approve", recorded, "--from", artefact, "--reason", "as CI saw it")
    assert done.code == 0
    assert ak("gate", recorded, "--set", AREA).code == 0


def test_recording_again_adds_and_never_overwrites(ak, case, recorded):
    before = next(case.baselines.glob("*.jsonl")).read_text()
    (case.images / "new.jpg").write_bytes((case.images / "420.jpg").read_bytes())
    missing = ak("gate", recorded)
    assert missing.code == 6
    assert "images, every path against baseline: 1 without an approved line" in missing.out
    assert "1 without an approved line; add them: " in missing.out
    told = ak("baseline", "record", recorded, "--set", AREA)
    assert told.code == 0
    assert "3 lines added, 15 known" in told.out
    assert "10 lines changed and are pending: alignkit baseline review" in told.out
    after = next(case.baselines.glob("*.jsonl")).read_text()
    assert set(before.splitlines()[1:]) < set(after.splitlines()[1:])


def test_images_that_are_gone_fail_and_keep_their_lines(ak, case, recorded):
    (case.images / "420.jpg").unlink()
    told = ak("gate", recorded)
    assert told.code == 1
    assert "1 of 5 approved images are gone: 420.jpg" in told.out
    allowed = (
        "gate.rules=[{metric: resize.changed, fail: 0, against: baseline}, "
        "{metric: coverage, fail: 0.2, against: baseline}]"
    )
    assert ak("gate", recorded, "--set", allowed).code == 0
    ak("baseline", "record", recorded)
    assert '"420.jpg"' in next(case.baselines.glob("*.jsonl")).read_text()


def test_the_log_names_lines_that_no_approval_covers(alignkit, case, recorded):
    assert alignkit("baseline", "log", recorded).err == ""
    (approval,) = (case.baselines / "approvals").glob("*.json")
    stored = json.loads(approval.read_text())
    stored["lines"] = stored["lines"][3:]
    approval.write_text(json.dumps(stored))
    told = alignkit("baseline", "log", recorded)
    assert told.code == 0
    assert "no approval covers 3 of 15 lines: serving 420.jpg decode, serving" in told.err
    assert "recorded" in told.out


def test_a_distance_needs_golden_tensors_or_is_not_measured(ak, case):
    file = case.write("{metric: decode.mean_abs, fail: 0.4, against: baseline}", paths=ONE_PATH)
    chroma = ("--set", "preprocess.serving.decode={name: simplejpeg, chroma: nearest}")
    ak("baseline", "record", file)
    assert ak("gate", file).code == 0  # equal hashes are a distance of zero
    unknown = ak("gate", file, *chroma)
    assert unknown.code == 6
    assert "have no golden tensor" in unknown.out
    ak("baseline", "record", file, "--golden", "decode")
    known = ak("gate", file, *chroma)
    assert known.code == 1
    assert "grey levels" in known.out
    assert "golden tensor" not in known.out


def test_a_lower_bound_above_the_limit_fails_without_golden_tensors(ak, case):
    file = case.write("{metric: decode.max_abs, fail: 0, against: baseline}", paths=ONE_PATH)
    ak("baseline", "record", file)
    told = ak("gate", file, "--set", "preprocess.serving.decode={name: simplejpeg, dct: ifast}")
    assert told.code == 1
    assert "at least" in told.out


def test_a_damaged_a_newer_and_a_foreign_baseline_end_with_6(ak, case, recorded):
    path = next(case.baselines.glob("*.jsonl"))
    whole = path.read_text()
    for text, said in (
        (whole[:-40], "is damaged"),
        (whole.replace('"format": 1', '"format": 9', 1), "update alignkit"),
    ):
        path.write_text(text)
        told = ak("gate", recorded, "--exit-zero")
        assert told.code == 6
        assert said in told.out
    path.unlink()
    foreign = path.with_name("linux-aarch64-000000000000.jsonl")
    foreign.write_text(whole.replace('"machine": "x86_64"', '"machine": "aarch64"', 1))
    told = ak("gate", recorded)
    assert told.code == 6
    assert f"the nearest, {foreign.name}, differs in machine: aarch64 there" in told.out


def test_recording_and_review_are_refused_in_ci(ak, case, file, monkeypatch):
    monkeypatch.setenv("CI", "1")
    for words in (("baseline", "record", file), ("baseline", "review", file)):
        told = ak(*words)
        assert told.code == 2
        assert "refused in CI" in told.err
    assert not case.baselines.exists()


TWO = ONE_PATH + "  other: {decode: opencv, resize: {name: opencv, size: 32}}\n"
CHANGED = ("--set", AREA, "--set", "preprocess.other.resize.interpolation=cubic")


def test_what_is_left_is_not_settled_by_what_is_approved(ak, case):
    file = case.write(RULE, paths=TWO)
    ak("baseline", "record", file)
    ak("gate", file, *CHANGED)
    ok = ak("baseline", "approve", file, *CHANGED, "--path", "other", "--reason", "only this")
    assert ok.code == 0
    left = ak("baseline", "review", file, *CHANGED).out
    assert "# serving resize: 5 images changed" in left
    assert "other" not in left
    for words in ((), ("--changed-only",)):
        told = ak("gate", file, *CHANGED, *words)
        assert told.code == 1
        assert "linear → area" in told.out


def test_an_approval_that_is_refused_decides_nothing(ak, case):
    file = case.write(RULE, paths=TWO)
    ak("baseline", "record", file)
    ak("gate", file, *CHANGED)
    before = files(case.folder)
    refused = ak("baseline", "approve", file, *CHANGED, "--path", "other", "--reason", " ")
    assert (refused.code, "needs a reason" in refused.err) == (2, True)
    assert files(case.folder) == before


def test_approving_nothing_is_a_mistake_that_says_what_there_is(ak, recorded):
    told = ak("baseline", "approve", recorded, "--reason", "why not")
    assert told.code == 2
    assert "nothing is pending" in told.err
    ak("gate", recorded, "--set", AREA)
    told = ak("baseline", "approve", recorded, "--stage", "decode", "--reason", "why not")
    assert told.code == 2
    assert "there are: --path serving --stage resize" in told.err


def test_show_names_versions_images_and_lines(alignkit, recorded):
    told = alignkit("baseline", "show", recorded)
    assert told.code == 0
    (row,) = told.out.splitlines()[1:]
    assert row.split()[1] == "serving"
    assert row.split()[-2:] == ["5", "15"]
    assert json.loads(alignkit("baseline", "show", recorded, "--json").out)[0]["name"] == "small"


def test_a_machine_without_a_gpu_is_held_against_the_golden_tensors_of_one(ak, case, monkeypatch):
    """The GPU's stack is played by a decoder with nearest chroma upsampling."""
    gpu = {"system": "Linux", "machine": "x86_64", "gpu": "H100, driver 580"}
    served = "  serving: {decode: {name: simplejpeg, chroma: nearest}, resize: {name: opencv, size: 32}}\n"
    rule = "{metric: decode.mean_abs, fail: 0.1, against: baseline}"
    there = case.write(rule, paths=served, name="gpu.yaml")
    with monkeypatch.context() as on_gpu:
        for module in ("baseline.snapshot", "gate.baseline_recording"):
            on_gpu.setattr(f"alignkit.{module}.baseline_environment", lambda _: gpu)
        assert ak("baseline", "record", there, "--golden", "decode").code == 0
    (file,) = case.baselines.glob("*.jsonl")

    here = case.write(rule, paths=ONE_PATH, also=f"environment: {file.stem}")
    told = ak("gate", here)
    assert told.code == 1
    assert "decode.mean_abs" in told.out
    assert "grey levels" in told.out
    assert "review" not in told.out  # another machine's baseline is not this one's to approve
    assert not list(case.reports.glob("small/pending*"))
    surrogate = case.write(rule, paths=served, also=f"environment: {file.stem}")
    assert ak("gate", surrogate).code == 0
    unknown = case.write(rule, paths=served, also="environment: linux-gpu")
    told = ak("gate", unknown)
    assert told.code == 6
    assert f"there are: {file.stem}" in told.out


@pytest.mark.parametrize(
    ("change", "begin", "changed"),
    [
        ("decode={name: simplejpeg, chroma: nearest}", "", ["decode", "resize", "normalise"]),
        ("resize.interpolation=area", "resize", ["resize", "normalise"]),
        ("quantise=round", "quantise", []),
        ("crop=16", "crop", ["crop", "normalise"]),
        ("normalise={mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}", "normalise", ["normalise"]),
    ],
)
def test_changed_only_looks_from_the_first_stage_that_can_have_changed(
    ak, case, recorded, change, begin, changed
):
    words = ("gate", recorded, "--set", f"preprocess.serving.{change}")
    whole = ak(*words)
    pending = [file.read_text() for file in case.reports.glob("small/pending*")]
    found = ak(*words, "--changed-only")
    assert found.code == whole.code == (1 if changed else 0)
    assert [file.read_text() for file in case.reports.glob("small/pending*")] == pending
    assert [stage for stage in STAGES if f'"stage": "{stage}"' in "".join(pending)] == changed
    assert (f"Not run: serving before {begin}: nothing of it changed" in found.out) == bool(begin)


def test_changed_only_looks_at_what_can_have_changed(ak, case, monkeypatch):
    two = ONE_PATH + "  other: {decode: opencv, resize: {name: opencv, size: 32}}\n"
    file = case.write(RULE, paths=two)
    ak("baseline", "record", file)
    unchanged = ak("gate", file, "--changed-only")
    assert unchanged.code == 0
    assert "Not run: serving: nothing of it changed" in unchanged.out

    looked_at = []

    def spy(name, paths, samples, **options):
        looked_at.extend(path.name for path in paths)
        return take_snapshot(name, paths, samples, **options)

    monkeypatch.setattr("alignkit.baseline.snapshot.take_snapshot", spy)
    ak("gate", file, "--changed-only")
    assert looked_at == []
    ak("gate", file, "--changed-only", "--set", AREA)
    assert set(looked_at) == {"serving"}
    monkeypatch.undo()
    assert "Nothing was looked at: all 16 checks stand as they were approved" in unchanged.out

    (case.images / "420.jpg").write_bytes((case.images / "444.jpg").read_bytes())
    told = ak("gate", file, "--changed-only")
    assert told.code == 1
    assert "the files of 1 of these images are others" in told.out
