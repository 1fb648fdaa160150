"""What differs and no rule looks at is named; a gate that looks at nothing else is an error."""

import pytest

from alignkit.experiment.gate_option import Gate
from alignkit.judge import judge
from alignkit.record import (
    BaselineFacts,
    BaselineStage,
    ClassDrift,
    Coverage,
    CoverageDiff,
    DataFacts,
    Drift,
    Estimate,
    GroupFacts,
    LogitDistance,
    MatrixEntry,
    Measurements,
    PixelStage,
)

IMAGES = 20


def covered(candidate="b", reference="a", images=IMAGES):
    return CoverageDiff(reference=reference, candidate=candidate, images=images,
                        only_reference=0, only_candidate=0)  # fmt: skip


def stages(candidate="b", bias=(0.1, 0.1, 0.1), p99=1.0, **differing):
    """Every stage of a path, of which those named differ on so many of 20 images."""
    return tuple(
        PixelStage(
            reference="a", candidate=candidate, stage=name, mode=mode, images=IMAGES,
            identical=IMAGES - differing.get(name, 0), max_abs=9.0, mean_abs=0.5, p99=p99,
            bias=bias, share_differing=0.5, psnr=40.0, ssim=0.99,
        )
        for name in ("decode", "resize", "crop", "colour", "normalise")
        for mode in ("isolated", "cumulative")
    )  # fmt: skip


def estimate(value):
    return Estimate(value, value, value, "")


def entry(precision="fp32", served="b", churn=0.1, recalls=(("cat", 0.0),), aligned=False):
    drift = None if aligned else Drift(
        n=100_000, metrics={"recall.macro": estimate(0.0), "top1": estimate(0.0)},
        churn=estimate(churn), right_to_wrong=0, wrong_to_right=0, wrong_to_wrong=0,
        mcnemar_p=None, detectable=None, logits=LogitDistance(1.0, 0.1, 0.9),
        classes=tuple(
            ClassDrift(name, 50_000, estimate(change), estimate(0.0)) for name, change in recalls
        ),
    )  # fmt: skip
    return MatrixEntry(
        trained_with="a", evaluated_with="a" if aligned else served, backend="onnxruntime",
        precision=precision, aligned=aligned, state="measured", drift=drift,
        metrics={"top1": 0.5},
    )  # fmt: skip


ALIGNED = entry(aligned=True)
RESIZE = {"metric": "resize.max_abs", "fail": 200}
DECODE = {"metric": "decode.max_abs", "fail": 200}
CHURN = {"metric": "churn", "fail": 0.5}
KINDS = [
    GroupFacts(
        where={"subsampling": kind},
        images=IMAGES // 2,
        pixels=stages(resize=10),
        coverage=(covered(),),
    )
    for kind in ("4:2:0", "4:4:4")
]
SOME = {**RESIZE, "where": {"subsampling": "4:2:0"}}
OTHER = {**RESIZE, "where": {"subsampling": "4:4:4"}}
DATA = DataFacts(
    name="images", options={}, train=0, eval=IMAGES, classes=(), fingerprint="", version=""
)


def since(**begun):
    return BaselineFacts(
        fingerprint="", new=0, gone=0, coverage=(covered(reference="baseline"),), untapped=(),
        stages=tuple(
            BaselineStage(path="b", stage=name, images=IMAGES, changed=changed, begun=changed)
            for name, changed in begun.items()
        ),
    )  # fmt: skip


def approved(rule):
    return {**rule, "against": "baseline"}


CASES = {
    # id: evidence, rules, exit code, what was stated (none if all that differs has a rule)
    "the stage that differs has the rule": ({"pixels": stages(resize=20)}, [RESIZE], 0, ()),
    "only a stage that is equal has one": (
        {"pixels": stages(resize=20)}, [DECODE], 5, ("differs", "resize", 20)),
    "one image of twenty": ({"pixels": stages(resize=1)}, [DECODE], 5, ("differs", "resize", 1)),
    "one of two stages": ({"pixels": stages(decode=3, resize=20)}, [DECODE], 0, ("differs", "resize", 20)),
    "normalise": ({"pixels": stages(resize=1, normalise=2)}, [RESIZE], 0, ("differs", "normalise", 2)),
    "colour": ({"pixels": stages(resize=1, colour=20)}, [RESIZE], 0, ("differs", "colour", 20)),
    "all up to the last": (
        {"pixels": stages(decode=3, resize=20)},
        [{"metric": "colour.max_abs", "fail": 200, "mode": "cumulative"}], 0, ()),
    "cumulative, before the stage": (
        {"pixels": stages(decode=3, crop=20)},
        [{**RESIZE, "mode": "cumulative"}], 0, ("differs", "crop", 20)),
    "SSIM is of all up to colour": (
        {"pixels": stages(resize=20)}, [{"metric": "colour.ssim", "fail": 0.5}], 0, ()),
    "nothing differs": ({"pixels": stages()}, [DECODE], 0, ()),
    "another path": (
        {"pixels": stages(resize=20) + stages("c", resize=20)},
        [{**RESIZE, "path": "c"}], 0, ("differs", "resize", 20)),
    "the path that is equal": (
        {"pixels": stages(resize=20) + stages("c")}, [{**RESIZE, "path": "c"}], 5, ("differs", "resize", 20)),
    "a part of the images": (
        {"pixels": stages(resize=20), "groups": KINDS, "data": DATA}, [SOME], 0, ("differs", "resize", 20, "all of ")),
    "each part": (
        {"pixels": stages(resize=20), "groups": KINDS, "data": DATA}, [SOME, OTHER], 0, ()),
    "the answers": (
        {"pixels": stages(resize=20), "matrix": (ALIGNED, entry())}, [CHURN], 0, ()),
    "pixels and not the answers": (
        {"pixels": stages(resize=20), "matrix": (ALIGNED, entry())}, [RESIZE], 0,
        ("answers", 0.1)),
    "one runtime of two": (
        {"matrix": (ALIGNED, entry(), entry("int8", "a"))},
        [{**CHURN, "precision": "fp32"}], 0, ("answers", 0.1)),
    "only the runtime that changes nothing": (
        {"matrix": (ALIGNED, entry(churn=0.0), entry("int8", "a"))},
        [{**CHURN, "precision": "fp32"}], 5, ("answers", 0.1)),
    "one class of three": (
        {"matrix": (ALIGNED, entry(recalls=(("cat", -0.1), ("dog", -0.3), ("eel", 0.0))))},
        [{"metric": "recall[cat]", "fail": 0.9}], 0, ("class", "dog", 0.3, 0)),
    "only the class that does not change": (
        {"matrix": (ALIGNED, entry(recalls=(("cat", 0.0), ("dog", -0.3), ("eel", 0.1))))},
        [{"metric": "recall[cat]", "fail": 0.9}], 5, ("class", "dog", 0.3, 1)),
    "a class and the whole": (
        {"matrix": (ALIGNED, entry(recalls=(("cat", -0.1), ("dog", -0.3))))},
        [{"metric": "recall[cat]", "fail": 0.9}, CHURN], 0, ()),
    "a bias that differs in both directions": (
        {"pixels": stages(resize=20)}, [{"metric": "resize.bias", "fail": 1}], 0,
        ("blind", "resize", 20, "resize.bias")),
    "a bias that is most of it": (
        {"pixels": stages(resize=20, bias=(0.4, 0.4, 0.4))},
        [{"metric": "resize.bias", "fail": 1}], 0, ()),
    "a bias beside a greatest difference": (
        {"pixels": stages(resize=20)}, [{"metric": "resize.bias", "fail": 1}, RESIZE], 0, ()),
    "a percentile of what few values have": (
        {"pixels": stages(resize=2, p99=0.0)}, [{"metric": "resize.p99", "fail": 1}], 0,
        ("blind", "resize", 2, "resize.p99")),
    "a percentile that shows it": (
        {"pixels": stages(resize=2)}, [{"metric": "resize.p99", "fail": 1}], 0, ()),
    "a mean that one image of twenty is far beyond": (
        {"pixels": stages(resize=1)}, [{"metric": "resize.mean_abs", "fail": 1}], 0,
        ("blind", "resize", 1, "resize.mean_abs")),
    "a mean that no image is beyond": (
        {"pixels": stages(resize=20)}, [{"metric": "resize.mean_abs", "fail": 1}], 0, ()),
    "as approved, and beside it only what is equal": (
        {"pixels": stages(resize=20), "baseline": since(decode=0, resize=0)},
        [DECODE, approved({"metric": "resize.changed", "fail": 0})], 0, ("differs", "resize", 20)),
    "changed since it was approved, where no rule looks": (
        {"baseline": since(decode=0, resize=20)},
        [approved({"metric": "decode.changed", "fail": 0})], 5,
        ("since approval", "resize", 20)),
    "changed at a stage before the rule's": (
        {"baseline": since(decode=2, crop=0)},
        [approved({"metric": "crop.changed", "fail": 0.5})], 0, ()),
}  # fmt: skip


FIELDS = {
    "differs": ("stage", "images", "part"), "blind": ("stage", "images", "rules"),
    "answers": ("share",), "class": ("name", "share", "more"),
    "since approval": ("stage", "images"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_difference_that_no_rule_looks_at_is_named(name):
    facts, rules, code, stated = CASES[name]
    evidence = Measurements(coverage_diffs=(covered(), covered("c")), **facts)
    verdict = judge(Gate.model_validate({"rules": rules}), evidence, controls=())
    found = [each for each in verdict.rules if each.rule == "unchecked"]
    assert [each.state for each in found] == ([] if not stated else ["error" if code else "warn"])
    assert verdict.exit_code == code, verdict
    whats = [
        (each.kind, *(each.values[field] for field in FIELDS[each.kind]))
        for outcome in found
        for each in outcome.observed
    ]
    kind, *values = stated or ("",)
    if kind == "blind":
        values[-1] = (values[-1],)
    if kind == "differs" and len(values) == 2:
        values.append("")
    assert whats == [(kind, *values)] * bool(stated)


OTHERS = {
    # id: stages, and those of each path that are said to differ
    "one stage": (stages(resize=20), {"b": ["resize"]}),
    "the last stages alone": (stages(crop=1, normalise=3), {"b": ["crop", "normalise"]}),
    "all of them": (
        stages(decode=2, resize=20, crop=5, colour=1, normalise=20),
        {"b": ["decode", "resize", "crop", "colour", "normalise"]}),
    "two paths": (
        stages(decode=2, resize=20) + stages("c", resize=1, colour=1),
        {"b": ["decode", "resize"], "c": ["resize", "colour"]}),
    "one path of two": (stages() + stages("c", decode=1), {"c": ["decode"]}),
    "none": (stages(), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_a_baseline_alone_says_in_which_stages_the_paths_were_not_compared(name):
    pixels, differing = OTHERS[name]
    rule = approved({"metric": "resize.changed", "fail": 0})
    evidence = Measurements(pixels=pixels, baseline=since(decode=0, resize=0))
    verdict = judge(Gate.model_validate({"rules": [rule]}), evidence, controls=())
    assert (verdict.state, verdict.exit_code) == ("pass", 0)
    alone = [each for each in verdict.sentence if each.kind == "baseline alone"]
    assert {each.values["path"]: each.names("stages") for each in alone} == differing


@pytest.mark.parametrize(
    ("rules", "lost", "state"),
    [
        ([CHURN], {"only_reference": 1}, "fail"),  # 1 of 10; predictions leave it out
        ([CHURN], {"only_candidate": 1}, "fail"),
        ([CHURN], {"images": 100, "only_reference": 2, "neither": 2}, "warn"),
        ([CHURN], {"images": 100, "only_reference": 3, "neither": 3}, "fail"),
        ([CHURN, {"metric": "coverage", "fail": 0.5}], {"only_reference": 1}, None),
        ([CHURN, {"metric": "coverage", "fail": 0.5}], {"only_reference": 1, "neither": 1}, "warn"),
        ([CHURN], {}, None),
    ],
)
def test_images_that_are_in_no_comparison_are_counted_where_no_rule_does(rules, lost, state):
    names = {"reference_examples": ("x",), "neither_examples": ("y",)} if lost else {}
    coverage = covered(images=10).model_copy(update={**lost, **names})
    facts = {"matrix": (ALIGNED, entry()), "coverage_diffs": (coverage,), "pixels": stages()}
    verdict = judge(Gate.model_validate({"rules": rules}), Measurements(**facts), controls=())
    assert [e.state for e in verdict.rules if e.rule == "decoded"] == [state] * bool(state)
    assert verdict.exit_code == (state == "fail")


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"failed": 1}, "warn"), ({"unsupported": 3}, "fail"), ({"corrupt": 20}, None), ({}, None),
    ],
)  # fmt: skip
def test_a_path_that_is_compared_with_no_other_counts_its_own(counts, state):
    """One path in two runtimes: images that were decoded with a warning have pixels."""
    known = {"ok": 40 - sum(counts.values()), "corrupt": 0, "failed": 0, "unsupported": 0}
    own = Coverage(preprocess="a", split="eval", **{**known, **counts})
    evidence = Measurements(matrix=(ALIGNED, entry("int8", "a")), coverage=(own,))
    verdict = judge(Gate.model_validate({"rules": [CHURN]}), evidence, controls=())
    assert [e.state for e in verdict.rules if e.rule == "decoded"] == [state] * bool(state)
