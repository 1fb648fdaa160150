"""Latency of preprocessing and inference, measured so that two sides can be compared.

All sides take turns, round by round, on the same images and in one thread, so that a slowdown of
the machine slows all of them. A side is compared with the reference within each round. The value
is the median over rounds; its interval is that of the sign test: the median lies between the
third least and the third greatest of twelve rounds with 96 % confidence, whatever the distribution
of the noise (David and Nagaraja, Order Statistics, 7.1). A first round warms up and is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alignkit.backends import Session
from alignkit.experiment.experiment import Experiment
from alignkit.findings.provenance import state_of
from alignkit.plan import Plan
from alignkit.plan.plan_keys import keyed_plan
from alignkit.plan.work import Evaluation
from alignkit.predict import model_file, open_session
from alignkit.prepare.prepared_sets import Sets, prepare_sets
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.progress import Progress
from alignkit.record import LatencyFacts
from alignkit.serve.rounds import ROUNDS
from alignkit.serve.serving_options import SIMULATED_TIME, SURROGATE_TIME
from alignkit.train import train_models
from alignkit.workspace import Context, Workspace

_IMAGES = 32
"""Most images timed in each round."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One side that is timed on each of the images."""

    facts: LatencyFacts
    once: Callable[[int], object]


def measure_latency(experiment: Experiment, context: Context) -> tuple[LatencyFacts, ...]:
    """Time the parts that rules need; nothing if none does."""
    measured = [rule.measured for rule in experiment.gate.expanded]
    parts = {each.field.split(".")[0] for each in measured if each.kind == "latency"}
    latencies: tuple[LatencyFacts, ...] = ()
    if "preprocess" in parts:
        latencies += _of_paths(experiment, context.progress)
    if "inference" in parts:
        latencies += _of_runtimes(experiment, context)
    return latencies


def _of_paths(experiment: Experiment, progress: Progress) -> tuple[LatencyFacts, ...]:
    samples = experiment.data.evaluation()
    missing = {
        each: each.missing() or SURROGATE_TIME * bool(each.surrogate_of)
        for each in experiment.paths
    }
    present = [each for each, reason in missing.items() if not reason]
    images = list(encoded_images(samples, range(min(_IMAGES, len(samples)))))
    # clocks run in this process, so an image that could end it is found in a worker first; and the
    # time to refuse an image is no time to prepare one
    encoded = [
        image.data
        for image, results in zip(images, take_pixels(present, images), strict=True)
        if all(result.pixels is not None for result in results)
    ]

    def once(preprocess: Preprocess) -> Callable[[int], object]:
        def prepare(index: int) -> object:
            last = preprocess.taps(encoded[index]).last
            return None if last is None else preprocess.normalise(last)

        return prepare

    def facts(preprocess: Preprocess, reason: str = "") -> LatencyFacts:
        reference = preprocess.name == experiment.reference.name
        return LatencyFacts(
            part="preprocess", path=preprocess.name, reference=reference, reason=reason
        )

    sides = [_Side(facts(each), once(each)) for each in present]
    untimed = [facts(each, reason) for each, reason in missing.items() if reason]
    return (*_timed(sides, len(encoded), progress), *untimed)


def _of_runtimes(experiment: Experiment, context: Context) -> tuple[LatencyFacts, ...]:
    """Time the first model in every runtime, on the path it was trained with."""
    plan = keyed_plan(experiment, context.workspace)
    train, evaluated = plan.samples("train"), plan.samples("eval")
    sets = prepare_sets(plan.preprocesses, train, evaluated, context, trains=plan.trains)
    first = _first_only(plan)
    model: Any = next(train_models(first, sets, context))
    state, why, _ = state_of(model.ended)
    untrained = "" if state == "measured" else why
    sides: list[_Side] = []
    absent: list[LatencyFacts] = []
    with ExitStack() as opened:
        for evaluation in first.evaluations:
            runtime = evaluation.runtime
            facts = LatencyFacts(
                part="inference", path=evaluation.preprocess.name, backend=runtime.name,
                precision=runtime.precision, reference=evaluation.aligned,
            )  # fmt: skip
            reason = evaluation.skipped or untrained
            if runtime.simulation:
                reason = reason or SIMULATED_TIME
            if runtime.backend.own_path:
                reason = reason or "it is sent files; only runtimes that receive tensors are timed"
            if reason:
                absent.append(facts.model_copy(update={"reason": reason}))
                continue
            session, batches = _opened(
                opened, evaluation, model.ended.value, sets, context.workspace
            )
            sides.append(_Side(facts, lambda index, s=session, b=batches: s.predict(b[index])))  # type: ignore[misc]  # bound at once
        images = len(batches) if sides else 0
        return (*_timed(sides, images, context.progress), *absent)


def _first_only(plan: Plan) -> Plan:
    """Narrow the plan to the first training, on its own path, where its kind of model runs."""
    first = plan.trainings[0]
    own = tuple(
        each
        for each in plan.evaluations
        if each.training.key == first.key
        and each.preprocess.name == first.preprocess.name
        and not each.unsuited
    )
    return replace(plan, trainings=(first,), evaluations=own, pairs=())


def _opened(
    opened: ExitStack,
    evaluation: Evaluation,
    checkpoint: Any,
    sets: Sets,
    workspace: Workspace,
) -> tuple[Session, list[Any]]:
    """Open a session that ``opened`` closes; return it with batches of one image each."""
    file = model_file(evaluation, checkpoint, sets, workspace)
    session = opened.enter_context(open_session(evaluation.runtime, checkpoint, file))
    prepared = sets.evaluated(evaluation.preprocess.name)
    rows = prepared.decoded[:_IMAGES]
    normalise = evaluation.preprocess.normalise
    return session, [prepared.batch(rows[i : i + 1], normalise) for i in range(len(rows))]


def _timed(sides: Sequence[_Side], images: int, progress: Progress) -> tuple[LatencyFacts, ...]:
    # milliseconds; the first round warms up
    taken = np.zeros((len(sides), ROUNDS + 1, images))
    detail = f"{len(sides)} sides in turn"
    with progress.stage("latency", ROUNDS + 1, detail) as stage:
        for turn in range(ROUNDS + 1):
            # image by image, and who begins changes, so that none profits from a warm cache
            for index in range(images):
                for step in range(len(sides)):
                    place = (turn + index + step) % len(sides)
                    begun = time.perf_counter_ns()
                    sides[place].once(index)
                    taken[place, turn, index] = (time.perf_counter_ns() - begun) / 1e6
            stage.advance()
    if not images:
        return tuple(
            each.facts.model_copy(update={"reason": "there is no image that every path decodes"})
            for each in sides
        )
    p50, p95 = np.quantile(taken[:, 1:], (0.5, 0.95), axis=2)
    return tuple(
        each.facts.model_copy(
            update={
                "images": images,
                "p50": tuple(p50[place].tolist()),
                "p95": tuple(p95[place].tolist()),
            }
        )
        for place, each in enumerate(sides)
    )
