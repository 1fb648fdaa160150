"""A verdict's lines name the rule that failed, its cause, and a step that this run measured."""

from dataclasses import replace

import pytest

from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.record import (
    AttributionFacts,
    ClassDrift,
    CoverageDiff,
    DataFacts,
    Drift,
    Estimate,
    FactorShare,
    LogitDistance,
    MatrixEntry,
    Measurements,
    MovedImage,
    NoiseFloor,
    NumericDrift,
    PathFacts,
    PixelStage,
    StageFacts,
)
from alignkit.record.blame_facts import LevelMap, PixelMechanism, SpatialFacts
from alignkit.samples import NO_LABELS
from alignkit.text.measured import effect_words
from alignkit.text.outcome import said as words_of
from alignkit.text.task_words import TaskWords
from tests.judge.said import judged as said_of

ZERO = Estimate(0.0, 0.0, 0.0)
LOGITS = LogitDistance(max_abs=1.0, mean_abs=0.1, cosine=0.9, p99=0.5)


def entry(path, precision, changed, flips=None) -> MatrixEntry:
    churn = Estimate(changed / 100, 0.0, 1.0)
    drift = Drift(
        n=100, metrics={"recall.macro": Estimate(-changed / 100, -1.0, 0.0)}, churn=churn,
        right_to_wrong=changed, wrong_to_right=0, wrong_to_wrong=0,
        mcnemar_p=None, detectable=None, logits=LOGITS,
    )  # fmt: skip
    aligned = (path, precision) == ("a", "fp32")
    numeric = None
    if flips is not None:
        numeric = NumericDrift(n=100, flips=flips, non_finite=0, logits=LOGITS)
    return MatrixEntry(
        trained_with="a", evaluated_with=path, backend="torch", precision=precision,
        aligned=aligned, state="measured", seeds=(0,), drift=None if aligned else drift,
        numeric=numeric,
    )  # fmt: skip


def shares(precision_share) -> AttributionFacts:
    return AttributionFacts(
        reference="a", candidate="b", backend="torch", precision="bf16", metric="recall.macro",
        unit="fraction", method="shapley", images=100,
        shares=(
            FactorShare("resize", Estimate(-0.13, -0.2, 0.0), ZERO),
            FactorShare("precision", Estimate(precision_share, -0.2, 0.2, "unknown"), ZERO),
        ),
        interaction=ZERO, total=ZERO,
    )  # fmt: skip


CHURN = Gate(rules=(Rule(metric="churn", fail=0.02),))


def paths(*names):
    def stages(name):
        return tuple(
            StageFacts(
                stage=stage, label=name, options={"of": name}, version="", yaml=f"{{name: {name}}}"
            )
            for stage in ("decode", "resize")
        )

    return tuple(PathFacts(name=name, stages=stages(name)) for name in names)


def judged(*entries, gate=CHURN, **more):
    evidence = Measurements(
        matrix=entries, paths=paths("a", "b", "c"), command="alignkit run x.yaml", **more
    )
    return said_of(gate, evidence, controls=())


@pytest.mark.parametrize(("flips", "share"), [(0, 0.02), (1, 0.0004)])
def test_an_innocent_runtime_is_not_named(flips, share):
    entries = entry("a", "fp32", 0), entry("b", "fp32", 12), entry("b", "bf16", 13, flips)
    said = judged(*entries, attributions=(shares(share),)).sentence
    # its own numbers are not those of the path alone, and the path's are shown
    assert said == "Churn 12.00 %, 2 % allowed: trained with a, served with b."


@pytest.mark.parametrize("share", [-0.02, None])
def test_a_runtime_with_a_share_or_an_unknown_one_is_named(share):
    entries = entry("a", "fp32", 0), entry("b", "fp32", 12), entry("b", "bf16", 13, 1)
    said = judged(*entries, attributions=(shares(share),)).sentence
    assert said == "Churn 13.00 %, 2 % allowed: trained with a, served with b in torch bf16."


def test_a_runtime_that_alone_differs_is_the_cause_and_the_baselines_is_advised():
    verdict = judged(entry("a", "fp32", 0), entry("a", "bf16", 5, 5))
    assert "served with a in torch bf16" in verdict.sentence
    assert verdict.cause == "The pixels are the same, so the runtime is the cause."
    assert verdict.actions[0].words == "Serve in torch fp32, the baseline of these models."


def test_models_of_the_reference_come_first_and_a_worse_row_is_named_beside_them():
    worse = entry("a", "fp32", 9).model_copy(
        update={"trained_with": "b", "aligned": False, "drift": entry("b", "fp32", 9).drift}
    )
    own = entry("a", "fp32", 0), entry("b", "fp32", 4)
    said = judged(*own, worse).sentence
    assert said.startswith(
        "Churn 4.00 %, 2 % allowed: trained with a, served with b. Worst of other"
    )
    assert said.endswith("churn 9.00 %, 2 % allowed: trained with b, served with a in torch fp32.")
    # where theirs hold, the worst of all rows is the headline
    alone = judged(entry("a", "fp32", 0), entry("b", "fp32", 1), worse).sentence
    assert alone.startswith("Churn 9.00 %, 2 % allowed: trained with b, served with a")


def attributed(*factors):
    found = tuple(
        FactorShare(name, Estimate(v, None, None), Estimate(v, None, None)) for name, v in factors
    )
    total = Estimate(sum(v for _, v in factors), None, None)
    return AttributionFacts(
        reference="a", candidate="b", backend="torch", precision="fp32", metric="churn",
        unit="fraction", method="shapley", images=100, shares=found, interaction=ZERO, total=total,
    )  # fmt: skip


def located(stage, *mechanisms):
    return SpatialFacts(
        reference="a", candidate="b", stage=stage, images=16, drawn=16,
        map=LevelMap(rows=1, columns=1, greatest=9.0, cells="ff"), before=4.0, after=0.4,
        mechanisms=mechanisms,
    )  # fmt: skip


ANTIALIAS = PixelMechanism(name="antialias", by="candidate", measured=Estimate(1.0, 0.9, 1.1))
FILTERS = ": b filters when it shrinks an image (antialias), a does not"


@pytest.mark.parametrize(
    ("spatial", "words"),
    [
        (located("resize", ANTIALIAS), FILTERS),
        (located("resize"), ""),  # its pixels show no mechanism
        (located("decode", ANTIALIAS), ""),  # it acts in a stage that changes no prediction
    ],
)
def test_a_mechanism_is_named_only_where_the_pixels_of_the_stage_that_costs_show_it(spatial, words):
    verdict = judged(
        entry("a", "fp32", 0), entry("b", "fp32", 12),
        attributions=(attributed(("resize", 0.12), ("decode", 0.0)),), spatial=(spatial,),
    )  # fmt: skip
    assert verdict.cause == f"All of it from resize{words}; decode adds nothing."


def test_the_stage_that_costs_is_swapped_and_what_remains_is_called_measured():
    both = entry("a", "fp32", 0), entry("b", "fp32", 12)
    two = attributed(("resize", 0.10), ("decode", 0.02))
    (first,) = judged(*both, attributions=(two,)).actions
    assert first.words == "Serve b with the resize of a: +2.0 pp of churn remains."
    assert first.measured
    assert first.command == "alignkit run x.yaml --set 'preprocess.b.resize={name: a}'"
    # of three factors the rest was never measured together
    three = attributed(("resize", 0.10), ("decode", 0.01), ("orient", 0.01))
    (first,) = judged(*both, attributions=(three,)).actions
    assert first.measured is False


def test_the_path_that_serves_is_advised_for_training_where_that_was_measured():
    trained = entry("a", "fp32", 0).model_copy(
        update={"trained_with": "b", "evaluated_with": "b", "metrics": {"recall.macro": 0.9}}
    )
    served = entry("b", "fp32", 12).model_copy(update={"metrics": {"recall.macro": 0.8}})
    (first,) = judged(entry("a", "fp32", 0), served, trained).actions
    assert first.words == (
        "Train with b, as it serves: macro recall 90.00\N{NO-BREAK SPACE}% instead of "
        "80.00\N{NO-BREAK SPACE}%."
    )
    assert first.measured
    # another runtime of those models was not measured
    int8 = served.model_copy(update={"precision": "int8"})
    assert judged(entry("a", "fp32", 0), int8, trained).actions == ()


def test_a_swap_that_makes_two_paths_one_says_that_this_is_meant():
    a, b, _ = paths("a", "b", "c")
    b = b.model_copy(update={"stages": (a.stages[0], b.stages[1])})
    evidence = Measurements(
        matrix=(entry("a", "fp32", 0), entry("b", "fp32", 12)), paths=(a, b),
        command="alignkit gate x.yaml", attributions=(attributed(("resize", 0.12)),),
    )  # fmt: skip
    (first,) = said_of(CHURN, evidence, controls=()).actions
    swap = "--set 'preprocess.b.resize={name: a}' --set preprocess.b.same=true"
    assert first.command == f"alignkit gate x.yaml {swap}"


def test_an_unknown_share_is_not_called_nothing():
    unknown = FactorShare("decode", Estimate(None, None, None, "no class is defined"), ZERO)
    found = attributed(("resize", 0.12))
    found = found.model_copy(update={"shares": (*found.shares, unknown)})
    both = entry("a", "fp32", 0), entry("b", "fp32", 12)
    cause = judged(*both, attributions=(found,)).cause
    assert cause == "Most of it from resize (+12.0 pp of +12.0 pp churn); decode unknown."
    alone = found.model_copy(update={"shares": (unknown,)})
    assert judged(*both, attributions=(alone,)).cause == "The share of decode is unknown."


def test_a_share_of_the_number_format_is_not_called_like_the_metric():
    words = {
        ("precision",): "All of it from int8 precision.",
        ("backend+precision",): "All of it from backend+int8 precision.",
        ("precision", "resize"): "Most of it from int8 precision (+12.0 pp of +16.0 pp churn); "
        "resize +4.0 pp.",
        ("resize", "precision"): "Most of it from resize (+12.0 pp of +16.0 pp churn); "
        "int8 precision +4.0 pp.",
    }
    for factors, expected in words.items():
        found = attributed(*zip(factors, (0.12, 0.04), strict=False))
        found = found.model_copy(update={"precision": "int8"})
        both = entry("a", "fp32", 0), entry("b", "int8", 12)
        assert judged(*both, attributions=(found,)).cause == expected


def test_a_rule_that_only_the_gate_can_judge_is_left_to_it():
    gate = Gate(rules=(Rule(metric="resize.max_abs", fail=2, against="baseline"),))
    verdict = judged(entry("a", "fp32", 0), entry("b", "fp32", 0), gate=gate)
    left = "`alignkit gate` reads the baseline"
    assert verdict.sentence == f"Undecided: resize.max_abs: {left}; coverage: {left}."
    assert [each.words for each in verdict.actions] == ["Let the gate judge it."]
    assert verdict.actions[0].command == "alignkit gate x.yaml"


def test_the_gate_of_a_narrowed_run_is_that_of_its_file():
    verdict = said_of(
        Gate(rules=(Rule(metric="churn", fail=0.2),)),
        Measurements(
            matrix=(entry("a", "fp32", 0), entry("b", "fp32", 12)), paths=paths("a", "b"),
            command="alignkit run x.yaml --cell a/b/torch/fp32 --set train.epochs=2",
        ),
        controls=(),
    )  # fmt: skip
    assert verdict.actions[0].command == "alignkit gate x.yaml --set train.epochs=2"


def test_a_pass_names_the_value_nearest_to_its_limit_and_the_gate_that_keeps_it():
    wide = Gate(rules=(Rule(metric="churn", fail=0.2),))
    verdict = judged(entry("a", "fp32", 0), entry("b", "fp32", 12), gate=wide)
    assert verdict.state == "pass"
    assert verdict.sentence.endswith(
        " hold; nearest to its limit: churn 12.00 %, 20 % allowed: trained with a, served with b."
    )
    assert verdict.actions[0].command == "alignkit gate x.yaml"


def test_a_quick_look_is_to_be_measured_whole():
    verdict = said_of(
        CHURN,
        Measurements(
            matrix=(entry("a", "fp32", 0), entry("b", "fp32", 12)), paths=paths("a", "b"),
            command="alignkit run x.yaml --quick", quick=("train.epochs: 30 → 3",),
        ),
        controls=(),
    )  # fmt: skip
    assert verdict.actions[0].command == "alignkit run x.yaml"


def test_pixels_alone_name_the_stage_and_the_option_that_differ():
    stage = PixelStage(
        reference="a", candidate="b", stage="resize", mode="isolated", images=10, identical=0,
        mean_abs=1.0, max_abs=9.0, share_differing=0.5, psnr=40.0, bias=(0.0, 0.0, 0.0),
    )  # fmt: skip
    gate = Gate(rules=(Rule(metric="resize.max_abs", fail=2),))
    coverage = CoverageDiff(
        reference="a", candidate="b", images=10, only_reference=0, only_candidate=0
    )
    evidence = Measurements(
        pixels=(stage,),
        coverage_diffs=(coverage,),
        paths=paths("a", "b"),
        command="alignkit gate x.yaml",
    )
    verdict = said_of(gate, evidence, controls=())
    assert "Resize greatest difference 9 grey levels, 2 grey levels allowed" in verdict.sentence
    assert verdict.actions[0].measured is False
    assert verdict.actions[0].command.endswith("'preprocess.b.resize={name: a}'")


@pytest.mark.parametrize(
    ("rule", "stage"),
    [
        ({"metric": "resize.max_abs", "fail": 2}, "resize"),
        ({"metric": "resize.max_abs", "fail": 2, "mode": "isolated"}, "resize"),
        ({"metric": "resize.max_abs", "fail": 2, "mode": "cumulative"}, "decode"),
        ({"metric": "colour.mean_abs", "fail": 0.5, "mode": "cumulative"}, "decode"),
        ({"metric": "colour.ssim", "fail": 0.9}, "decode"),
    ],
)
def test_a_rule_about_a_stage_with_those_before_it_advises_the_one_that_differs_most(rule, stage):
    means = {"decode": 3.0, "resize": 1.0, "colour": 0.0}
    pixels = tuple(
        PixelStage(
            reference="a", candidate="b", stage=name, mode=mode, images=10, identical=0,
            mean_abs=4.0 if mode == "cumulative" else mean, max_abs=9.0, share_differing=0.5,
            psnr=40.0, ssim=0.5, bias=(0.0, 0.0, 0.0),
        )
        for name, mean in means.items()
        for mode in ("isolated", "cumulative")
    )  # fmt: skip
    gate = Gate.model_validate({"rules": [rule]})
    coverage = CoverageDiff(
        reference="a", candidate="b", images=10, only_reference=0, only_candidate=0
    )
    evidence = Measurements(
        pixels=pixels,
        coverage_diffs=(coverage,),
        paths=paths("a", "b"),
        command="alignkit gate x.yaml",
    )
    verdict = said_of(gate, evidence, controls=())
    assert verdict.actions[0].words == f"Run b with the {stage} of a."
    assert verdict.actions[0].command.endswith(f"'preprocess.b.{stage}={{name: a}}'")


def test_an_unknown_churn_is_no_comparison_without_a_change():
    unknown = entry("b", "fp32", 0)
    drift = replace(unknown.drift, churn=Estimate(None, None, None, "no image is in both"))
    assert drift.changed is None
    said = judged(entry("a", "fp32", 0), unknown.model_copy(update={"drift": drift})).sentence
    assert "could not be measured" in said


def unlabelled(path, changed, *moved) -> MatrixEntry:
    plain = entry(path, "fp32", changed)
    none = Estimate(None, None, None, NO_LABELS)
    facts = {"metrics": {"recall.macro": none}, "moved": moved}
    return plain.model_copy(update={"drift": replace(plain.drift, **facts)})


def test_an_image_that_keeps_its_class_is_no_example_of_a_change():
    kept = MovedImage("x.jpg", "output 0", "output 0", 0.5, 1.0, 0.2)
    other = MovedImage("x.jpg", "output 0", "output 1", 0.5, 1.0, 1.2)
    assert "(1 of 100, e.g. output 0 → output 1)" in effect_words(
        unlabelled("b", 1, other), TaskWords()
    )
    assert "(0 of 100)" in effect_words(unlabelled("b", 0, kept), TaskWords())


@pytest.mark.parametrize(("floor", "seeds", "said"), [
    (0.136, (0, 1), "the limit is less than retraining changes (13.6 %)"),
    (0.136, (0,), ""),
    (0.01, (0, 1), ""),
])  # fmt: skip
def test_a_failed_limit_of_churn_below_what_retraining_changes_says_so(floor, seeds, said):
    floors = (NoiseFloor(preprocess="a", seeds=seeds, metrics={}, churn=floor),)
    entries = entry("a", "fp32", 0), entry("b", "fp32", 12)
    outcomes = judged(*entries, noise_floor=floors).rules
    assert [each.state for each in outcomes] == ["fail"]
    assert [words_of(each, "remark") for each in outcomes] == [said]
    assert said in words_of(outcomes[0], "line")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Estimate(-0.3, -0.4, -0.2), "Hardest hit: class 1, precision −30.0 pp [−40.0, −20.0] ("),
        (Estimate(-0.13, -0.2, -0.1), ""),
        (Estimate(0.4, 0.3, 0.5), ""),
    ],
)
def test_a_class_that_loses_far_more_than_the_mean_is_named_in_the_first_line(change, said):
    served = entry("b", "fp32", 12)
    hit = ClassDrift(name="1", support=50, recall=ZERO, precision=change)
    assert served.drift
    metrics = {**served.drift.metrics, "precision.macro": Estimate(-0.1, -0.2, 0.0)}
    drift = replace(served.drift, classes=(hit,), metrics=metrics)
    sentence = judged(entry("a", "fp32", 0), served.model_copy(update={"drift": drift})).sentence
    assert (said or "served with b.") in sentence
    assert ("Hardest hit" in sentence) == bool(said)


@pytest.mark.parametrize("copies", [0, 1, 540])
def test_the_verdict_says_how_many_images_are_copies(copies):
    data = DataFacts(
        name="folder", options={}, train=0, eval=600, classes=(), fingerprint="0" * 64, version="",
        copies={str(each): "first" for each in range(copies)},
    )  # fmt: skip
    evidence = Measurements(matrix=(entry("a", "fp32", 0), entry("b", "fp32", 3)), data=data)
    said = said_of(Gate(), evidence, controls=()).sentence.replace("\N{NO-BREAK SPACE}", " ")
    words = {
        0: "",
        1: "1 of 600 images has the pixels of another: 599 different images",
        540: "540 of 600 images have the pixels of another: 60 different images",
    }
    assert words[copies] in said
    assert ("pixels of another" in said) == bool(copies)
