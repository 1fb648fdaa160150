"""Names of paths: a surrogate is called so, shortly where it heads something, in full once."""

import pytest

from alignkit.record import PathFacts, RuleOutcome
from alignkit.text.names import Names, place_in_words, surrogate_lines, surrogate_note

CALIBRATION = (
    "decode verified for 4:2:0 (CUDA 12.8): 0 of 9 differ; resize equal (against x on a CPU)"
)


@pytest.mark.parametrize(
    ("calibration", "brief"),
    [
        (CALIBRATION, "decode verified for 4:2:0; resize equal (against x on a CPU)"),
        ("decode unverified (a hypothesis): none", "decode unverified"),
        ("", "not yet calibrated"),
        ("resize within 0.01 levels (against x)", "resize within 0.01 levels (against x)"),
    ],
)
def test_a_heading_names_the_state_of_each_stage_and_no_details(calibration, brief):
    gpu = PathFacts(name="gpu", stages=(), surrogate_of="x (y)", calibration=calibration)
    assert surrogate_note(gpu, brief=True) == f"surrogate of x (y), {brief}"
    assert surrogate_note(gpu) == f"surrogate of x (y), {calibration or 'not yet calibrated'}"


def test_a_mix_has_the_notes_of_its_paths():
    cpu = PathFacts(name="cpu", stages=())
    gpu = PathFacts(name="gpu", stages=(), surrogate_of="x", calibration=CALIBRATION)
    names = Names((cpu, gpu))
    assert names.of("cpu").note == names.of("cpu").evidence == ""
    mix = names.of("cpu+gpu (mix)")
    assert (
        mix.note == "surrogate of x, decode verified for 4:2:0; resize equal (against x on a CPU)"
    )
    assert mix.evidence == f"surrogate of x, {CALIBRATION}"
    assert mix.short == "cpu+gpu (mix, surrogate)"


def test_the_surrogates_with_the_least_evidence_come_first_and_the_rest_is_counted():
    evidence = {"a": CALIBRATION, "b": "resize not yet calibrated", "c": CALIBRATION,
                "d": "decode unverified (a hypothesis)"}  # fmt: skip
    paths = [PathFacts(name=name, stages=(), surrogate_of="x", calibration=words)
             for name, words in evidence.items()]  # fmt: skip
    cpu = PathFacts(name="cpu", stages=())
    told = surrogate_lines([cpu, *paths])
    assert [line[0] for line in told] == ["d", "b", "a", "c"]
    short = surrogate_lines([cpu, *paths], most=3)
    assert short[:3] == told[:3]
    assert short[3:] == ["… and 1\N{NO-BREAK SPACE}more surrogate; see the report"]
    assert surrogate_lines(paths, most=4) == told


def test_a_name_that_says_surrogate_has_no_second_label():
    own = PathFacts(name="x-surrogate", stages=(), surrogate_of="x", calibration=CALIBRATION)
    names = Names((PathFacts(name="cpu", stages=()), own))
    assert names.short("x-surrogate") == "x-surrogate"
    assert names.short("x-surrogate (5 %)") == "x-surrogate (5 %)"
    assert names.short("cpu+x-surrogate (mix)") == "cpu+x-surrogate (mix, surrogate)"


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        (("simulated", "int8"), "trained with cpu, served with gpu (surrogate) in simulated int8"),
        (("", ""), "gpu (surrogate) against cpu"),
    ],
)
def test_a_place_in_words_calls_a_surrogate_so(runtime, words):
    gpu = PathFacts(name="gpu", stages=(), surrogate_of="x")
    backend, precision = runtime
    entry = RuleOutcome(
        metric="churn", state="pass", trained_with="cpu",
        evaluated_with="gpu", backend=backend, precision=precision,
    )  # fmt: skip
    assert place_in_words(entry, Names((gpu,))) == words
