"""Names of paths: a surrogate is called so, shortly where it heads something, in full once."""

import pytest

from alignkit.record import PathFacts
from alignkit.text.names import Names, surrogate_note

CALIBRATION = (
    "decode verified (CUDA 12.8): 0 of 9 samples differ; resize equal (against x on a CPU)"
)


@pytest.mark.parametrize(
    ("calibration", "brief"),
    [
        (CALIBRATION, "decode verified; resize equal"),
        ("decode unverified (a hypothesis): none", "decode unverified"),
        ("", "not yet calibrated"),
        ("resize within 0.01 levels (against x)", "resize within 0.01 levels"),
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
    assert mix.note == "surrogate of x, decode verified; resize equal"
    assert mix.evidence == f"surrogate of x, {CALIBRATION}"
