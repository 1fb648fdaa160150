"""Outcomes of rules in words: a limit, a value beside it, and what would settle it."""

import pytest

from alignkit.record import Estimate, RuleOutcome
from alignkit.record.verdict_facts import Needed, RuleLimits, Waived, stated
from alignkit.text.outcome import said

PLACE = {"trained_with": "a", "evaluated_with": "b", "backend": "torch", "precision": "fp32"}
CHURN = RuleLimits("share", fail=0.02, decides=0.02)
POINTS = RuleLimits("points", margin=0.01, signed=True, decides=0.01)
LEVELS = RuleLimits("grey levels", fail=2.0, decides=2.0)
PSNR = RuleLimits("dB", worse="below", fail=40.0, decides=40.0)


def outcome(metric, limits, value, low=None, high=None, reason="", state="fail", **more):
    estimate = None if limits is None else Estimate(value, low, high, reason)
    return RuleOutcome(**PLACE, metric=metric, label=metric, state=state, limits=limits,
                       value=estimate, **more)  # fmt: skip


OUTCOMES = {
    "a share": (
        outcome("churn", CHURN, 0.077, 0.06, 0.1),
        {"rule": "churn: fail above 2 %", "value": "7.70 %", "brief": "churn 7.70 %, 2 % allowed"},
    ),
    "a share that reads like its limit": (
        outcome("churn", CHURN, 0.02004), {"value": "2.004 %"},
    ),
    "a change with its interval": (
        outcome("recall", POINTS, -0.0042, -0.0061, -0.0023, state="inconclusive",
                needed=Needed(1200, 4), observed=(stated("unseen", share=0.001, unit="pp"),)),
        {"rule": "recall: within ±1 pp",
         "value": "−0.42 pp [−0.61, −0.23]; changes not seen are less than ±0.10 pp",
         "brief": "recall −0.42 pp [−0.61, −0.23], ±1 pp allowed",
         "remark": "needs about 1 200 images or 4 seeds to decide"},
    ),
    "seeds alone": (
        outcome("recall", POINTS, 0.0, needed=Needed(None, 9), state="inconclusive"),
        {"remark": "needs about 9 seeds to decide; more images alone do not suffice"},
    ),
    "no sample": (
        outcome("recall", POINTS, 0.0, needed=Needed(None, None), state="inconclusive"),
        {"remark": ""},
    ),
    "levels with their amount": (
        outcome("resize", LEVELS, 9.0, cause=(stated("change", change="a → b"),),
                observed=(stated("amount", mean=0.5, max=9.0, unit="grey levels"),)),
        {"brief": "resize 9 grey levels, mean 0.5, max 9 grey levels, 2 grey levels allowed",
         "line": "9 grey levels, mean 0.5, max 9 grey levels (resize: fail above 2 grey levels); "
         "a → b"},
    ),
    "a lower bound": (
        outcome("resize", LEVELS, None, reason="no golden tensor",
                observed=(stated("at least", value=3.25),)),
        {"value": "at least 3.25 grey levels; no golden tensor",
         "brief": "resize: at least 3.25 grey levels; no golden tensor"},
    ),
    "another shape": (
        outcome("resize", LEVELS, 9.0, observed=(stated("shapes", images=2),)),
        {"value": "2 images have another shape", "brief": "resize: 2 images have another shape"},
    ),
    "low is bad": (
        outcome("psnr", PSNR, 38.5), {"brief": "psnr 38.5 dB, at least 40 dB asked"},
    ),
    "waived": (
        outcome("churn", CHURN, 0.077, state="warn", waived=Waived("2030-01-01", "known")),
        {"remark": "waived until 2030-01-01: known"},
    ),
    "not run": (
        outcome("churn", CHURN, None, reason="needs a GPU", state="warn", not_run=True),
        {"value": "not run: needs a GPU"},
    ),
    "a rule that no file writes": (
        outcome("cells", None, None, state="error").model_copy(update={"label": "", "observed": (
            stated("cells", cells=1, of=7, state="built, not run", reason="it needs a GPU"),)}),
        {"rule": "every cell ran", "value": "1 of 7 cells built, not run: it needs a GPU"},
    ),
    "images without pixels": (
        outcome("coverage", None, None).model_copy(update={"label": "", "observed": (
            stated("undecoded", images=3, of=60, by=("a",), names=("x",), allowed=0.05),)}),
        {"rule": "images without pixels: warn above 0 %, fail above 5 %"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTCOMES)
def test_an_outcome_is_said_in_the_style_that_a_surface_needs(name):
    found, styles = OUTCOMES[name]
    for style, words in styles.items():
        assert said(found, style).replace("\N{NO-BREAK SPACE}", " ") == words, style
