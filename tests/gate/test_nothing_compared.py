"""Ways to make a gate pass without a comparison: each ends with the exit code of its reason.

Where that is 0, the comment above says what was compared.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.cli.conftest import Told, alignkit  # noqa: F401 - the fixture `ak` calls it
from tests.gate_case import ONE_PATH, PATHS, GateCase, make_case

SIZE = "resize: {name: opencv, size: 32}"
SAME = f"  a: {{decode: pillow, {SIZE}}}\n  b: {{decode: pillow, {SIZE}}}\n"
THREE = SAME + f"  c: {{decode: opencv, {SIZE}}}\n"
RESIZES = f"""\
  a: {{decode: pillow, {SIZE}}}
  b: {{decode: pillow, resize: {{name: opencv, size: 32, interpolation: area}}}}
"""
PRESET = "  a: {preset: pillow-train, size: 32}\n  b: {preset: pillow-train, size: 32}\n"
SPELT = """\
  a: {preset: pillow-train, size: 32}
  b: {decode: {name: pillow}, resize: {name: pillow, filter: bilinear, size: 32}, orient: none}
"""
GPU = f"  a: {{decode: pillow, {SIZE}}}\n  gpu: {{preset: dali-gpu, size: 32}}\n"
BOTH = GPU + f"  c: {{decode: opencv, {SIZE}}}\n"
REFERENCE_GPU = f"  gpu: {{preset: dali-gpu, size: 32}}\n  a: {{decode: pillow, {SIZE}}}\n"
STRICT = "{preset: strict, against: baseline}"
DECODE = "{preset: decode}"
ANY = "allow_missing: true"
FLOWER = ("flower.jpg", "decode")


@dataclass
class Desk:
    """A gate on disk, and the command line."""

    case: GateCase
    call: Callable[..., Told]

    def gate(self, *rules: str, paths: str = PATHS, also: str = "", more: tuple = ()) -> Told:
        file = self.case.write(*rules, paths=paths, also=also)
        return self.again(file, *more)

    def again(self, file, *more) -> Told:
        return self.call("gate", file, "-q", "--no-html", "--reports", self.case.reports, *more)

    def recorded(self, *rules: str, paths: str = ONE_PATH):
        file = self.case.write(*(rules or (STRICT,)), paths=paths)
        told = self.call("baseline", "record", file, "--reports", self.case.reports)
        assert told.code == 0, told
        return file

    @property
    def lines(self):
        (path,) = self.case.baselines.glob("*.jsonl")
        return path

    def edit(self, change) -> None:
        """Rewrite every line of the baseline by hand."""
        head, *rows = (json.loads(line) for line in self.lines.read_text().splitlines())
        kept = [row for row in map(change, rows) if row]
        head["lines"] = len(kept)
        self.lines.write_text("".join(json.dumps(row) + "\n" for row in (head, *kept)))

    def forget(self, place: tuple[str, ...]) -> None:
        """Delete an image's lines, or that of a stage, from the approval by hand."""
        (approval,) = (self.case.baselines / "approvals").glob("*.json")
        stored = json.loads(approval.read_text())
        stored["lines"] = [
            line
            for line in stored["lines"]
            if (line["image"], line["stage"])[: len(place)] != place
        ]
        approval.write_text(json.dumps(stored))

    def broken(self, keep: int = 0) -> None:
        for image in sorted(self.case.images.iterdir())[keep:]:
            image.write_bytes(b"no image")


@pytest.fixture
def desk(tmp_path, alignkit):  # noqa: F811 - the imported fixture
    return Desk(make_case(tmp_path), alignkit)


WAYS: dict[str, tuple[int, str, Callable[[Desk], Told]]] = {}
"""Name → exit code, words that the output holds, and what is done."""


def way(code: int, said: str) -> Callable[[Callable[[Desk], Told]], None]:
    def add(attempt: Callable[[Desk], Told]) -> None:
        WAYS[attempt.__name__] = code, said, attempt

    return add


@way(5, "write 'same: true' in preprocess.b")
def the_same_stages_under_two_names(desk):
    return desk.gate(DECODE, paths=SAME)


@way(5, "write 'same: true' in preprocess.b")
def one_preset_under_two_names(desk):
    return desk.gate(paths=PRESET)


@way(5, "write 'same: true' in preprocess.b")
def a_preset_and_its_stages_spelt_out(desk):
    return desk.gate(paths=SPELT)


@way(5, '"evaluated_with": "c"')
def one_of_two_candidates_is_the_reference(desk):
    return desk.gate("{metric: decode.max_abs, fail: 200}", paths=THREE, more=("--json",))


# 0: the file says that the paths are the same
@way(0, "b against a (the same on purpose)")
def an_a_a_comparison_on_purpose(desk):
    return desk.gate(DECODE, paths=SAME.replace("b: {", "b: {same: true, "))


@way(2, "is not true")
def same_of_a_path_that_is_another(desk):
    return desk.gate(DECODE, paths=PATHS.replace("opencv: {", "opencv: {same: true, "))


@way(5, "no candidate")
def every_candidate_may_be_missing_and_is(desk):
    return desk.gate(DECODE, paths=GPU, also=ANY)


@way(5, "no candidate")
def the_reference_may_be_missing_and_is(desk):
    return desk.gate(DECODE, paths=REFERENCE_GPU, also=ANY)


@way(5, "no candidate")
def a_candidate_may_lack_the_gpu_and_does(desk):
    return desk.gate(DECODE, paths=GPU, more=("--allow-missing", "gpu"))


# 0: the other candidate was compared, and the verdict names what was not
@way(0, "Not run: gpu: needs an NVIDIA GPU")
def one_of_two_candidates_may_be_missing(desk):
    return desk.gate("{metric: decode.max_abs, fail: 200}", paths=BOTH, also=ANY)


@way(6, "no approval covers")
def a_baseline_without_approvals(desk):
    file = desk.recorded()
    shutil.rmtree(desk.case.baselines / "approvals")
    return desk.again(file)


@way(6, "no approval covers")
def a_baseline_edited_by_hand(desk):
    file = desk.recorded()
    change = "preprocess.serving.resize.interpolation=area"
    red = desk.again(file, "--set", change, "--out", f"pending={desk.case.folder / 'p.jsonl'}")
    assert red.code == 1
    rows = (desk.case.folder / "p.jsonl").read_text().splitlines()[1:]
    pending = {(r["image"], r["stage"]): r for r in map(json.loads, rows)}
    desk.edit(lambda row: pending.get((row["image"], row["stage"]), row))
    return desk.again(file, "--set", change)


@way(6, "no approval covers")
def an_approval_of_everything_by_pattern(desk):
    file = desk.recorded()
    (approval,) = (desk.case.baselines / "approvals").glob("*.json")
    stored = json.loads(approval.read_text())
    stored["lines"] = [{**stored["lines"][0], "path": "*", "image": "*", "stage": "*"}]
    approval.write_text(json.dumps(stored))
    return desk.again(file)


@way(6, "no longer has")
def a_baseline_without_a_line(desk):
    file = desk.recorded()
    desk.edit(lambda row: None)
    return desk.again(file)


@way(5, "applies to nothing that was run")
def a_baseline_without_a_line_and_without_approvals(desk):
    file = desk.recorded()
    desk.edit(lambda row: None)
    shutil.rmtree(desk.case.baselines / "approvals")
    return desk.again(file, "--changed-only")


@way(6, "no longer has 1 approved lines, the first serving flower.jpg decode: restore")
def a_line_of_a_changed_image_is_deleted(desk):
    file = desk.recorded("{metric: decode.changed, fail: 0, against: baseline}")
    shutil.copy(desk.case.images / "420.jpg", desk.case.images / "flower.jpg")
    assert desk.again(file).code == 1
    desk.edit(lambda row: row if (row["image"], row["stage"]) != FLOWER else None)
    return desk.again(file)


@way(6, "1 without an approved line")
def a_line_of_a_changed_image_and_its_approval_are_deleted(desk):
    file = desk.recorded("{metric: decode.changed, fail: 0, against: baseline}")
    shutil.copy(desk.case.images / "420.jpg", desk.case.images / "flower.jpg")
    desk.edit(lambda row: row if (row["image"], row["stage"]) != FLOWER else None)
    desk.forget(FLOWER)
    return desk.again(file)


# 0: the file was removed and recorded again, without an image that is gone
@way(0, "Aligned")
def a_baseline_that_was_begun_again(desk):
    file = desk.recorded()
    min(desk.case.images.iterdir()).unlink()
    desk.lines.unlink()
    desk.call("baseline", "record", file, "--reports", desk.case.reports)
    return desk.again(file)


@way(6, "of the experiment 'other'")
def a_baseline_of_another_experiment(desk):
    file = desk.recorded()
    file.write_text(file.read_text().replace("name: small", "name: other"))
    told = desk.call("baseline", "record", file, "--reports", desk.case.reports)
    assert told.code == 0
    shutil.rmtree(desk.case.baselines)
    shutil.copytree(desk.case.baselines.parent / "other", desk.case.baselines)
    file.write_text(file.read_text().replace("name: other", "name: small"))
    return desk.again(file)


@way(1, "4 of 5 approved images are gone")
def all_approved_images_but_one_are_deleted(desk):
    file = desk.recorded()
    for image in sorted(desk.case.images.iterdir())[1:]:
        image.unlink()
    return desk.again(file)


# 0: the file allows as many to be missing, and the last one was compared
@way(0, "Aligned")
def as_many_images_are_deleted_as_coverage_allows(desk):
    allowed = "{metric: coverage, fail: 0.8, against: baseline}"
    file = desk.recorded(
        STRICT.replace("preset: strict", "metric: resize.changed, fail: 0"), allowed
    )
    for image in sorted(desk.case.images.iterdir())[1:]:
        image.unlink()
    return desk.again(file)


@way(5, "5 without an approved line")
def images_that_the_baseline_does_not_know(desk):
    file = desk.recorded()
    for image in desk.case.images.iterdir():
        image.rename(image.with_name(f"new-{image.name}"))
    return desk.again(file)


@way(5, "neither")
def images_that_neither_the_baseline_nor_today_decodes(desk):
    file = desk.recorded("{metric: coverage, fail: 0, against: baseline}")
    desk.broken()
    desk.again(file)
    words = ("baseline", "approve", file, "--reason", "all are broken now")
    assert desk.call(*words, "--reports", desk.case.reports).code == 0
    return desk.again(file)


@way(4, "needs an NVIDIA GPU")
def a_path_that_cannot_run_beside_one_that_is_as_approved(desk):
    file = desk.recorded()
    file.write_text(file.read_text().replace("gate:", f"{GPU.splitlines()[1]}\ngate:"))
    return desk.again(file, "--set", f"gate.environment={desk.lines.stem}")


# 0: images, options, versions and code are compared with the approved ones, and equal
@way(0, "Nothing was looked at: all 8 checks stand as they were approved")
def changed_only_where_nothing_changed(desk):
    return desk.again(desk.recorded(), "--changed-only")


@way(1, "Resize images that are not bit-identical 100")
def changed_only_with_an_edited_head(desk):
    """The head says that today's options were approved."""
    file = desk.recorded()
    change = "preprocess.serving.resize.interpolation=area"
    head, *rows = desk.lines.read_text().splitlines()
    stored = json.loads(head)
    stored["paths"]["serving"]["resize"]["resizer"]["interpolation"] = "area"
    desk.lines.write_text("\n".join([json.dumps(stored), *rows]) + "\n")
    return desk.again(file, "--set", change, "--changed-only")


@way(6, "no longer has")
def changed_only_with_an_emptied_baseline(desk):
    file = desk.recorded()
    desk.edit(lambda row: None)
    return desk.again(file, "--changed-only")


@way(6, "1 without an approved line")
def changed_only_with_an_image_that_nobody_approved(desk):
    file = desk.recorded()
    desk.edit(lambda row: row if row["image"] != FLOWER[0] else None)
    desk.forget(FLOWER[:1])
    return desk.again(file, "--changed-only")


@way(1, "approved images are gone")
def changed_only_after_images_were_deleted(desk):
    file = desk.recorded()
    min(desk.case.images.iterdir()).unlink()
    return desk.again(file, "--changed-only")


@way(5, "no images")
def an_empty_folder(desk):
    shutil.rmtree(desk.case.images)
    desk.case.images.mkdir()
    return desk.gate(DECODE)


@way(5, "none of 5 images was decoded by both")
def images_that_no_side_decodes(desk):
    desk.broken()
    return desk.gate("{metric: coverage, fail: 0}")


@way(5, "none of 5 images was decoded by both")
def images_that_only_the_candidate_decodes(desk):
    return desk.gate(
        "{metric: coverage, warn: 0}", more=("--set", "preprocess.pillow.max_pixels=1")
    )


@way(2, "needs an entry")
def an_empty_list_of_rules(desk):
    return desk.gate(more=("--set", "gate.rules=[]"))


ONE_RULE = {
    "a stage that does not exist": (2, "no metric 'blur.max_abs'", "metric: blur.max_abs, fail: 1"),
    "a metric that does not exist": (2, "no metric 'decode.median'", "metric: decode.median, fail: 1"),
    "a path that does not exist": (2, "no path 'gpu'", "metric: decode.max_abs, fail: 1, path: gpu"),
    "a subgroup without an image":
        (5, "no image is", "metric: decode.max_abs, fail: 1, where: {format: PNG}"),
    "a rule without a limit": (2, "needs 'warn', 'fail' or 'margin'", "metric: decode.max_abs"),
    "a limit that nothing exceeds": (2, "can never fire", "metric: normalise.max_abs, fail: 1e300"),
    "a stage that no path has":
        (5, "no rule looks at a stage in which the paths differ", "metric: crop.max_abs, fail: 1"),
}  # fmt: skip
"""Ways that one rule is enough for."""
WAYS |= {
    name: (code, said, lambda desk, rule=rule: desk.gate(f"{{{rule}}}"))
    for name, (code, said, rule) in ONE_RULE.items()
}


@way(5, "no rule looks at a stage in which the paths differ")
def a_stage_that_is_the_same_on_both_sides(desk):
    return desk.gate(DECODE, paths=RESIZES)


# 0: the stages before it differ, and what comes after them is compared
@way(0, "Aligned")
def the_same_stage_with_all_before_it(desk):
    return desk.gate("{metric: crop.max_abs, fail: 200, mode: cumulative}", paths=RESIZES)


# 0: it was compared; whoever writes only `warn` asks not to fail
@way(0, "WARN")
def limits_that_only_warn(desk):
    rule = "{metric: decode.changed, warn: 0}"
    return desk.gate(
        rule, more=("--set", "preprocess.opencv.decode={name: simplejpeg, dct: ifast}")
    )


@way(2, "needs two paths")
def a_single_path(desk):
    return desk.gate(DECODE, paths=ONE_PATH)


@way(5, "has none of the 1 lots of 512 images")
def a_shard_without_an_image(desk):
    return desk.gate(DECODE, more=("--shard", "9/9"))


@way(6, "is this very run")
def a_run_compared_with_itself(desk):
    file = desk.case.write(STRICT)
    desk.call("run", file, "--reports", desk.case.reports, "--no-open", "-q")
    (record,) = desk.case.reports.glob("small/*/record.json")
    return desk.again(file, "--against", record.parent)


@way(6, "is this very run")
def a_run_compared_with_a_copy_of_itself(desk):
    file = desk.case.write(STRICT)
    desk.call("run", file, "--reports", desk.case.reports, "--no-open", "-q")
    (record,) = desk.case.reports.glob("small/*/record.json")
    copy = shutil.copytree(record.parent, desk.case.folder / "copy")
    return desk.again(file, "--against", copy)


# 0: the images were measured again, elsewhere
@way(0, "Aligned")
def a_run_compared_with_one_of_the_same_commit(desk):
    file = desk.case.write(STRICT)
    desk.call("run", file, "--reports", desk.case.folder / "main", "--no-open", "-q")
    (record,) = (desk.case.folder / "main").glob("small/*/record.json")
    return desk.again(file, "--against", record.parent)


@way(2, "evaluate.backends.1: torch device=cpu is torch in fp32: an option at its default")
def a_backend_beside_itself_with_a_default_spelled_out(desk):
    return desk.gate(more=("--set", "evaluate.backends=[torch, {name: torch, device: cpu}]"))


@way(2, "onnxruntime is onnxruntime optimisation=all provider=cpu in fp32")
def an_option_of_a_backend_at_its_default(desk):
    backends = (
        "[{name: onnxruntime, optimisation: all, provider: cpu}, {name: onnxruntime, builds: 2}]"
    )
    return desk.gate(more=("--set", f"evaluate.backends={backends}"))


@way(2, "evaluate.backends.1: torch stands there twice in fp32")
def a_backend_twice(desk):
    return desk.gate(more=("--set", "evaluate.backends=[torch, torch]"))


@way(2, "evaluate.backends.0: torch stands there twice in fp32")
def a_precision_twice(desk):
    twice = "evaluate.backends=[{name: torch, precision: [fp32, fp32]}]"
    return desk.gate(more=("--set", twice))


# only drift and indecision can be pardoned
@way(5, "write 'same: true'")
def an_informational_gate_of_the_same_path(desk):
    return desk.gate(DECODE, paths=SAME, also="informational: true", more=("--exit-zero",))


@way(5, "write 'same: true'")
def a_waiver_of_the_same_path(desk):
    waive = 'waive: [{rule: decode.max_abs, until: 2100-01-01, reason: "all is well"}]'
    return desk.gate("{metric: decode.max_abs, fail: 1}", paths=SAME, also=waive)


# the command line shows it as a line on stderr
@pytest.mark.filterwarnings("ignore::alignkit.errors.ConfigWarning")
@pytest.mark.parametrize("name", WAYS)
def test_a_gate_that_compares_nothing_does_not_pass(desk, name):
    code, said, attempt = WAYS[name]
    told = attempt(desk)
    assert (told.code, said in told.out + told.err) == (code, True), told
