"""Check advice: compare the drift expected after a change with the drift measured after it.

If training is to change, the expected drift is that of the models trained with the reference,
between the advised path and the serving one; models trained with the advised path confirm it. If
serving is to change, the expected drift is the attributed one without the shares of the stages that
change; serving the same models as advised confirms it. A change that no search proposed promises
nothing: it is kept or refuted by the paired change of churn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignkit.attribute.shares import model_metrics
from alignkit.compare import drift, drift_change
from alignkit.compare.bootstrap import SharedDraws
from alignkit.findings.matrix import predictions_of
from alignkit.place import Column, Row, first_of
from alignkit.preprocess.stage_mixtures import differing_stages
from alignkit.record import (
    AdviceFacts,
    AttributionFacts,
    Drift,
    Estimate,
    MatrixEntry,
    MitigationFacts,
)
from alignkit.text.names import Names
from alignkit.text.numbers import estimated
from alignkit.text.shares import remaining
from alignkit.text.task_words import TaskWords

if TYPE_CHECKING:
    from alignkit.compare.answers import Answers
    from alignkit.plan import Plan
    from alignkit.predict.predict_cells import Predicted


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Results of a run that its advice is checked with."""

    plan: Plan
    """With the advised paths."""
    predicted: Sequence[Predicted]
    matrix: Sequence[MatrixEntry]
    attributions: Sequence[AttributionFacts]
    names: Names
    """The paths by name, surrogates called so."""

    @property
    def reference(self) -> str:
        """Name of the reference path."""
        return self.plan.experiment.reference.name

    @property
    def row(self) -> Row:
        """The first row of the reference's models: several given ones may have it."""
        rows = (each.evaluation.training.row for each in self.predicted)
        first = first_of(rows, self.reference)
        assert first is not None  # advice needs such models
        return first

    @property
    def models(self) -> str:
        """The name of these models."""
        return self.names.short(str(self.row))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what is measured of predictions; churn is the first."""
        task = self.predicted[0].evaluation.task.facts()
        return tuple(each.name for each in model_metrics(task))

    def changed(self, share: Estimate) -> str:
        """Say of how many images the answer changes."""
        words = TaskWords(self.predicted[0].evaluation.task.facts())
        return words.changed_share(_share(share), "their predictions")

    def runtime(self) -> tuple[str, str]:
        """Return name and precision of the reference runtime."""
        first = next(each.evaluation for each in self.predicted if each.evaluation.aligned)
        return first.runtime.name, first.runtime.precision

    def drift(self, trained: str, served: str) -> Drift | None:
        """Find the drift of models trained with one path and served with another, if measured."""
        for each in self.matrix:
            if each.row.is_only(trained) and each.column == Column(served, *self.runtime()):
                return each.drift
        return None

    def predictions(self, served: str) -> dict[int, Answers]:
        """Return the predictions of the reference's models along a path, by seed."""
        found: dict[int, Answers] = {}
        for each in self.predicted:
            evaluation, made = each.evaluation, predictions_of(each)
            runtime = evaluation.runtime.name, evaluation.runtime.precision
            own = evaluation.training.row == self.row
            same = (evaluation.preprocess.name, runtime) == (served, self.runtime())
            if own and same and made is not None:
                found.setdefault(each.seed, made)
        return found


def check_advice(advice: AdviceFacts, outcomes: Outcomes, *, draws: SharedDraws) -> AdviceFacts:
    """Add the drift before, expected and confirmed to an advice, in the reference runtime."""
    if not advice.advised:
        return advice
    before = outcomes.drift(outcomes.reference, advice.served)
    if advice.change == "training":
        expected = _expected_of_training(advice, outcomes, draws)
        confirmed = outcomes.drift(advice.advised, advice.served)
    elif not advice.tried:
        expected = dict.fromkeys(outcomes.metrics, _unknown("no search, so nothing is promised"))
        confirmed = outcomes.drift(outcomes.reference, advice.advised)
    else:
        expected = _expected_of_serving(advice, outcomes)
        confirmed = outcomes.drift(outcomes.reference, advice.advised)
    # a failed cell has its own reason; this one says why there is no verdict
    if before is None or confirmed is None:
        return advice.model_copy(update={"reason": "a cell it is checked with did not run"})
    rows = tuple(
        MitigationFacts(
            metric=metric,
            before=before.of(metric),
            expected=expected[metric],
            confirmed=confirmed.of(metric),
        )
        for metric in outcomes.metrics
    )
    if advice.tried:
        kept = promise_kept(rows[0])
        words = _sentence(advice, outcomes, rows[0], kept=kept)
    else:
        change = _change_of_churn(advice, outcomes, draws)
        kept = churn_falls(change)
        words = _measured(advice, outcomes, rows[0], change, kept=kept)
    return advice.model_copy(update={"drift": rows, "kept": kept, "sentence": words})


def _change_of_churn(advice: AdviceFacts, outcomes: Outcomes, draws: SharedDraws) -> Estimate:
    """Subtract the churn before the change from that after it, paired by image and seed."""
    names = outcomes.reference, advice.served, advice.advised
    own, before, after = (outcomes.predictions(name) for name in names)
    seeds = [seed for seed in own if seed in before and seed in after]
    if not seeds:
        return _unknown("no seed ran on all three")
    models, was, now = ([each[seed] for seed in seeds] for each in (own, before, after))
    changes = drift_change((models, was), (models, now), ("churn",), draws=draws)
    return changes["churn"].change


def churn_falls(change: Estimate) -> bool | None:
    """Return true if churn surely fell, false if it surely rose; ``None`` if neither is sure."""
    if change.low is None or change.high is None or change.low <= 0 <= change.high:
        return None
    return change.high < 0


def _measured(
    advice: AdviceFacts,
    outcomes: Outcomes,
    churn: MitigationFacts,
    change: Estimate,
    *,
    kept: bool | None,
) -> str:
    short = outcomes.names.short
    outcome = {
        True: "it reduces the drift",
        False: "it increases the drift",
        None: "too few images or seeds to tell",
    }
    return (
        f"Models trained with {outcomes.models} and served with {short(advice.served)} "
        f"change {outcomes.changed(churn.before)}; served with {advice.label} "
        f"({short(advice.advised)}), {_share(churn.confirmed)} change, a paired difference "
        f"of {estimated(change, 1, unit=' pp')}: {outcome[kept]}."
    )


def _expected_of_training(
    advice: AdviceFacts, outcomes: Outcomes, draws: SharedDraws
) -> dict[str, Estimate]:
    """Compute the drift of the reference's models between the advised path and the serving one."""
    near, far = (outcomes.predictions(name) for name in (advice.advised, advice.served))
    seeds = [seed for seed in near if seed in far]
    if not seeds:
        return dict.fromkeys(outcomes.metrics, _unknown("no model predicted along both paths"))
    both = [near[seed] for seed in seeds], [far[seed] for seed in seeds]
    found = drift(*both, draws=draws)
    return {metric: found.of(metric) for metric in outcomes.metrics}


def _expected_of_serving(advice: AdviceFacts, outcomes: Outcomes) -> dict[str, Estimate]:
    """Subtract the shares of the changed stages from the drift: their cost is assumed to go."""
    paths = {each.name: each for each in outcomes.plan.experiment.paths}
    changed: set[str] = {*differing_stages(paths[advice.served], paths[advice.advised])}
    place = (outcomes.reference, advice.served, *outcomes.runtime())
    found: dict[str, AttributionFacts] = {
        each.metric: each
        for each in outcomes.attributions
        if (each.reference, each.candidate, each.backend, each.precision) == place
    }
    measured = outcomes.drift(outcomes.reference, advice.served)
    return {
        metric: _without(found, metric, changed, measured.of(metric).value if measured else None)
        for metric in outcomes.metrics
    }


def _without(
    found: Mapping[str, AttributionFacts], metric: str, changed: set[str], whole: float | None
) -> Estimate:
    """Subtract the changed stages' shares; from the drift of all images if some were drawn.

    For a single factor use the measured remainder; its share may differ from it, as other factors
    can cancel part of it.
    """
    attribution = found.get(metric)
    if attribution is None or attribution.total.value is None:
        no_shares = "nothing was attributed for this path"
        return _unknown(attribution.total.reason if attribution else no_shares)
    gone = [
        share
        for share in attribution.shares
        # stages that only fit together are one factor, joined by +
        if {*share.factor.split("+")} & changed
    ]
    total = attribution.total.value
    taken = sum(share.effect.value or 0.0 for share in gone)
    if len(gone) == 1 and (left := remaining(gone[0], attribution)) is not None:
        taken = total - left
    if attribution.drawn_from and whole is not None:
        total = whole
    return Estimate(value=total - taken, low=None, high=None)


def _unknown(reason: str) -> Estimate:
    return Estimate(value=None, low=None, high=None, reason=reason)


def promise_kept(churn: MitigationFacts) -> bool | None:
    """Return false if the drift is surely above the expected one, true if surely below that before.

    ``None`` if the interval does not decide.
    """
    before, expected, confirmed = churn.before.value, churn.expected.value, churn.confirmed
    if expected is None or before is None or confirmed.low is None or confirmed.high is None:
        return None
    # only an interval that lies wholly on one side decides
    if confirmed.low > expected:
        return False
    return True if confirmed.high < before else None


def _sentence(
    advice: AdviceFacts, outcomes: Outcomes, churn: MitigationFacts, *, kept: bool | None
) -> str:
    done = "trained" if advice.change == "training" else "served"
    short = outcomes.names.short
    outcome = {
        True: "the promise was kept",
        False: "the promise was not kept",
        None: "too few images or seeds to tell",
    }
    return (
        f"Models trained with {outcomes.models} and served with {short(advice.served)} "
        f"change {outcomes.changed(churn.before)}; {done} with {advice.label} instead "
        f"({short(advice.advised)}), "
        f"{_share(churn.expected)} was expected to remain and {_share(churn.confirmed)} "
        f"remains: {outcome[kept]}."
    )


def _share(share: Estimate) -> str:
    if share.value is None:
        return f"an unknown share ({share.reason})"
    return estimated(share, 1, share=True)
