"""Plan of an experiment: every unit of work, its runtime and key, and whether it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from alignkit.errors import DataError
from alignkit.experiment.experiment import Experiment
from alignkit.plan.planned_units import (
    given_trainings,
    matched_pairs,
    path_trainings,
    row_evaluations,
    runtimes_of,
)
from alignkit.plan.required_models import require_models
from alignkit.plan.work import Evaluation, PixelComparison, Training
from alignkit.prepare import Preparation
from alignkit.samples import Samples, Split
from alignkit.version import ALL_LAYERS, code_version
from alignkit.workspace import content_key

CHANGED = "the images changed after they were listed; run the same command again"


@dataclass(frozen=True, slots=True)
class Plan:
    """All the work of a run, in order."""

    experiment: Experiment
    key: str
    """Content hash of everything the run's record depends on, as first planned: images left out
    later change the keys of trainings and cells but not this one."""
    images: Mapping[Split, str]
    """Fingerprint of each split, as it was listed for the plan."""
    trainings: tuple[Training, ...]
    """Seed by seed, reference path first."""
    evaluations: tuple[Evaluation, ...]
    ranks: int = 1
    """Processes that train together."""
    cells: tuple[str, ...] = ()
    """The cells it was narrowed to; empty if it is whole."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the data set."""
        return data_fingerprint(self.images)

    @property
    def comparisons(self) -> tuple[PixelComparison, ...]:
        """The pixels of the reference path and of each other path."""
        reference, *candidates = self.experiment.paths
        return tuple(PixelComparison(reference, each, self.images["eval"]) for each in candidates)

    @property
    def trains(self) -> bool:
        """Whether models are trained, and not the user's own or only pixels compared."""
        return any(each.given is None for each in self.trainings)

    def samples(self, split: Split) -> Samples:
        """List the images of a split; raise `DataError` if they are not those of the plan."""
        if split not in self.images:  # images without labels are evaluated only
            return self.experiment.data.evaluation().take(())
        data = self.experiment.data
        samples = data.training() if split == "train" else data.evaluation()
        if samples.fingerprint != self.images[split]:
            # its keys would name other images than those they are computed from
            raise DataError(CHANGED)
        return samples


def make_plan(experiment: Experiment, *, ranks: int = 1) -> Plan:
    """Decide every training and evaluation; imports no runtime and reads no image twice.

    ``ranks`` processes train together. Their number is part of a training's key: it changes sums
    and statistics of batch normalisation, and a matched pair must not differ in it.
    """
    # first: a model that cannot run is known at once, and hashing the images may take minutes
    require_models(experiment)
    images = images_of(experiment)
    fingerprint = data_fingerprint(images)
    trainings: tuple[Training, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    if experiment.predicts:  # otherwise a pixel gate
        given = bool(experiment.content.models)
        trainings = (
            given_trainings(experiment) if given else path_trainings(experiment, fingerprint, ranks)
        )
        matched_pairs(trainings)  # a pair that differs in more than its path is refused here
        runtimes = runtimes_of(experiment.content.evaluate, trainings)
        evaluations = tuple(
            evaluation
            for training in trainings
            for evaluation in row_evaluations(training, runtimes, experiment, fingerprint)
        )
    key = run_key(experiment, evaluations)
    return Plan(experiment, key, images, trainings, evaluations, ranks)


def counted(experiment: Experiment) -> str:
    """Count the trainings and cells of an experiment in words; reads no data and no model."""
    content, paths = experiment.content, len(experiment.paths)
    if not content.predicts:
        return f"{paths - 1} pixel comparisons" if paths != 2 else "1 pixel comparison"
    recipe = content.train
    trainings = len(recipe.seeds) * len(recipe.fractions) * (paths + bool(recipe.mix))
    rows = len(content.models) or trainings
    columns = sum(
        len(each.precision) * (1 if each.backend.own_path else paths)
        for each in content.evaluate.backends
    )
    trained = ("given model" if content.models else "training") + "s" * (rows > 1)
    remark = missing_labels(experiment)
    remark = f"; {remark}" if remark else ""
    return f"{rows} {trained}, {rows * columns} cells{remark}"


def missing_labels(experiment: Experiment) -> str:
    """Say which metrics have no value for want of labels; empty if none."""
    task = experiment.task.facts()
    lacking = task.needs_labels and not experiment.labelled
    if not lacking:
        return ""
    from alignkit.text.task_words import TaskWords, unlabelled

    return unlabelled(TaskWords(task))


def images_of(
    experiment: Experiment, listed: Mapping[Split, str] = MappingProxyType({})
) -> dict[Split, str]:
    """Return the fingerprint of each split that the experiment reads.

    ``listed`` has those that are known, as another listing could find other images.
    """
    both = experiment.labelled or experiment.content.calibration
    splits: tuple[Split, ...] = get_args(Split) if both else ("eval",)
    return {split: listed.get(split) or experiment.data.fingerprint(split) for split in splits}


def data_fingerprint(images: Mapping[Split, str]) -> str:
    """Return the fingerprint of a data set from those of its splits, ``train`` first."""
    # that of unlabelled images is that of their only split
    return content_key([*images.values()]) if len(images) > 1 else images["eval"]


def run_key(experiment: Experiment, evaluations: Sequence[Evaluation]) -> str:
    """Hash everything that the record of a run depends on."""
    content = experiment.content
    return content_key(
        {
            # a given model's name and path are in no cell's key, and decide its row and reference
            "evaluations": [[each.key, str(each.place), each.aligned] for each in evaluations],
            "names": [path.name for path in experiment.paths],
            "gate": content.gate.model_dump(mode="json"),
            "same": experiment.same,
            "evaluate": content.evaluate.resamples,
            "builds": [evaluation.runtime.builds for evaluation in evaluations],
            "report": content.report.model_dump(mode="json"),
            "attribute": content.attribute.model_dump(mode="json"),
            "advise": content.advise and content.advise.model_dump(mode="json"),
            # a first look is never the record of the whole, however small that is
            **({"quick": list(experiment.quick)} if experiment.quick else {}),
            # comparing again is quick; a stale record is not worth it
            "code": code_version(ALL_LAYERS),
        }
    )


def preparations(plan: Plan) -> tuple[Preparation, ...]:
    """List the preparations of a plan's pixels; without training images if nothing is trained."""
    if not plan.evaluations:
        return ()
    splits: tuple[Split, ...] = get_args(Split) if plan.trains else ("eval",)
    return tuple(
        Preparation(preprocess, split, plan.images[split])
        for preprocess in plan.experiment.paths
        for split in splits
    )
