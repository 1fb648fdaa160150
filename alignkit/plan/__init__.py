"""Plan of an experiment: every unit of work, its runtime and key, and a forecast of its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from alignkit.backends import Builder
from alignkit.datasets import Dataset
from alignkit.errors import DataError
from alignkit.experiment.experiment import Experiment
from alignkit.experiment.gate_option import Gate
from alignkit.experiment.report_option import AdviseOption, Published
from alignkit.experiment.train_option import Recipe
from alignkit.place import FULL
from alignkit.plan.planned_runtime import Runtime, not_served, runtimes_of
from alignkit.plan.required_models import require_models
from alignkit.plan.work import Evaluation, MatchedPair, PixelComparison, Training
from alignkit.prepare import Preparation, pixel_identity
from alignkit.preprocess import Preprocess, stage_identity
from alignkit.samples import UNLABELLED, Samples, Split
from alignkit.version import ALL_LAYERS, LOGIT_LAYERS, WEIGHT_LAYERS, code_version
from alignkit.workspace import content_key

CHANGED = "the images changed after they were listed; run the same command again"

_NOT_IN_KEYS = {"seeds", "fractions", "mix", "pretrained"}
"""Fields of a recipe that the key of a training replaces by its own share of them."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All the work of a run, in order."""

    experiment: Experiment
    key: str
    """Content hash of everything the run's record depends on, as first planned: images left out
    later change the keys of trainings and cells but not this one."""
    preprocesses: tuple[Preprocess, ...]
    """Reference first."""
    data: Dataset
    images: Mapping[Split, str]
    """Fingerprint of each split, as it was listed for the plan."""
    recipe: Recipe
    batch_size: int
    """Images of a batch that a model predicts."""
    resamples: int
    """Bootstrap resamples behind each interval."""
    gate: Gate
    worst: int
    """Images shown for each candidate path."""
    published: Published | None
    advise: AdviseOption | None
    trainings: tuple[Training, ...]
    """Seed by seed, reference path first."""
    evaluations: tuple[Evaluation, ...]
    pairs: tuple[MatchedPair, ...]
    comparisons: tuple[PixelComparison, ...]
    ranks: int = 1
    """Processes that train together."""
    cells: tuple[str, ...] = ()
    """The cells it was narrowed to; empty if it is whole."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the data set."""
        return data_fingerprint(self.images)

    @property
    def reference(self) -> Preprocess:
        """The preprocess that the others are compared with."""
        return self.preprocesses[0]

    @property
    def trains(self) -> bool:
        """Whether models are trained, and not the user's own or only pixels compared."""
        return any(each.given is None for each in self.trainings)

    def samples(self, split: Split) -> Samples:
        """List the images of a split; raise `DataError` if they are not those of the plan."""
        if split not in self.images:  # images without labels are evaluated only
            return self.data.evaluation().take(())
        samples = self.data.training() if split == "train" else self.data.evaluation()
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
    content = experiment.content
    data = experiment.data
    images = images_of(experiment)
    fingerprint = data_fingerprint(images)
    reference, *candidates = experiment.paths
    trainings: tuple[Training, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    if content.predicts:  # otherwise a pixel gate
        given = bool(content.models)
        trainings = _given(experiment) if given else _trainings(experiment, fingerprint, ranks)
        runtimes = runtimes_of(content.evaluate, trainings)
        evaluations = tuple(
            evaluation
            for training in trainings
            for evaluation in _row_evaluations(training, runtimes, experiment, fingerprint)
        )
    return Plan(
        experiment,
        run_key(experiment, evaluations),
        preprocesses=experiment.paths,
        data=data,
        images=images,
        recipe=content.train,
        batch_size=content.evaluate.batch_size,
        resamples=content.evaluate.resamples,
        gate=content.gate,
        worst=content.report.worst,
        published=content.published,
        advise=content.advise,
        trainings=trainings,
        evaluations=evaluations,
        pairs=_pairs(trainings),
        comparisons=tuple(PixelComparison(reference, each, images["eval"]) for each in candidates),
        ranks=ranks,
    )


def counted(experiment: Experiment) -> str:
    """Count the trainings and cells of an experiment in words; reads no data and no model."""
    content, paths = experiment.content, len(experiment.paths)
    if not content.predicts:
        return f"{paths - 1} pixel comparisons" if paths != 2 else "1 pixel comparison"
    recipe = content.train
    trainings = len(recipe.seeds) * len(recipe.fractions) * (paths + bool(recipe.mix))
    rows = len(content.models) or trainings
    columns = sum(
        len(each.precision) * (1 if each.build().own_path else paths)
        for each in content.evaluate.backends
    )
    trained = ("given model" if content.models else "training") + "s" * (rows > 1)
    remark = "" if content.labelled else f"; {UNLABELLED}"
    return f"{rows} {trained}, {rows * columns} cells{remark}"


def images_of(
    experiment: Experiment, listed: Mapping[Split, str] = MappingProxyType({})
) -> dict[Split, str]:
    """Return the fingerprint of each split that the experiment reads.

    ``listed`` has those that are known, as another listing could find other images.
    """
    splits: tuple[Split, ...] = get_args(Split) if experiment.labelled else ("eval",)
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
            "report": content.report.worst,
            "attribute": content.attribute.model_dump(mode="json"),
            "published": content.published and content.published.model_dump(mode="json"),
            "advise": content.advise and content.advise.model_dump(mode="json"),
            # a first look is never the record of the whole, however small that is
            **({"quick": list(experiment.quick)} if experiment.quick else {}),
            # comparing again is quick; a stale record is not worth it
            "code": code_version(ALL_LAYERS),
        }
    )


def _trainings(experiment: Experiment, fingerprint: str, ranks: int) -> tuple[Training, ...]:
    recipe = experiment.content.train
    by_name = {path.name: path for path in experiment.paths}
    mix = tuple(by_name[name] for name in recipe.mix)
    # the rows of the matrix: each path alone, and the mix
    rows = [*((path,) for path in experiment.paths), *([mix] if mix else [])]
    return tuple(
        _training(recipe, paths, seed, fraction, fingerprint, ranks)
        for seed in recipe.seeds
        for fraction in recipe.fractions
        for paths in rows
    )


def _given(experiment: Experiment) -> tuple[Training, ...]:
    by_name = {path.name: path for path in experiment.paths}
    given = [(by_name[model.preprocess], model.build()) for model in experiment.content.models]
    return tuple(Training(path, 0, each.parts_for(path.size), given=each) for path, each in given)


def _pairs(trainings: tuple[Training, ...]) -> tuple[MatchedPair, ...]:
    matched: dict[tuple[int, float], list[Training]] = {}
    for training in trainings:
        if not training.mix and training.given is None:
            matched.setdefault((training.seed, training.fraction), []).append(training)
    return tuple(
        MatchedPair(same[0], candidate) for same in matched.values() for candidate in same[1:]
    )


def _training(
    recipe: Recipe,
    paths: tuple[Preprocess, ...],
    seed: int,
    fraction: float,
    fingerprint: str,
    ranks: int,
) -> Training:
    from alignkit.models.architectures import model_version
    from alignkit.models.pretrained import identity
    from alignkit.torch_settings import missing_device

    path, *others = paths
    parts = {
        "data": fingerprint,
        "preprocess": pixel_identity(path),
        "normalise": stage_identity(path.normalise),
        # one seed more must not train the others again
        "recipe": recipe.model_dump(mode="json", exclude=_NOT_IN_KEYS),
        "seed": seed,
        "library": model_version(recipe.model),
        "code": code_version(WEIGHT_LAYERS),
    }
    # each part below is left out at its default, so that trainings without it keep their keys
    if fraction != FULL:
        parts["fraction"] = fraction
    if ranks > 1:
        parts["ranks"] = ranks
    if recipe.pretrained:
        parts["pretrained"] = identity(recipe.pretrained, recipe.model)
    if others:
        parts["mix"] = [[pixel_identity(each), stage_identity(each.normalise)] for each in others]
    reasons = [each.missing() for each in paths]
    skipped = next(filter(None, reasons), "") or missing_device(recipe.device)
    return Training(path, seed, parts, skipped, fraction, paths if others else ())


def _row_evaluations(
    training: Training, runtimes: list[Runtime], experiment: Experiment, fingerprint: str
) -> list[Evaluation]:
    """Evaluate a model along every path in every runtime; the first suitable one is the reference.

    A runtime that preprocesses by itself is evaluated once, on the images of the row's own path.
    """
    # a runtime with preprocessing of its own cannot be aligned with a path
    handed = [each for each in runtimes if not each.backend.own_path]
    first = next((each for each in handed if not _unsuitable(training, each)), handed[0])
    placed = [(path, each) for path in experiment.paths for each in handed]
    placed += [(training.preprocess, each) for each in runtimes if each.backend.own_path]
    return [
        _evaluation(training, path, runtime, experiment, fingerprint, first=runtime is first)
        for path, runtime in placed
    ]


def _unsuitable(training: Training, runtime: Runtime) -> str:
    if runtime.holds is not None:
        return "" if runtime.holds == training else not_served(runtime.holds)
    if training.given is None:
        return ""
    return training.given.unsuitable(runtime.name, needs_onnx=runtime.backend.needs_onnx)


def _evaluation(
    training: Training,
    path: Preprocess,
    runtime: Runtime,
    experiment: Experiment,
    fingerprint: str,
    *,
    first: bool,
) -> Evaluation:
    parts = {
        "training": training.key,
        "preprocess": pixel_identity(path),
        "normalise": stage_identity(path.normalise),
        **runtime.parts,
        "batch_size": experiment.content.evaluate.batch_size,
        "code": code_version(LOGIT_LAYERS),
    }
    if training.given is not None:  # a training's own key has the data's fingerprint
        parts["data"] = fingerprint
    if isinstance(runtime.backend, Builder) and runtime.backend.calibration(runtime.precision):
        # how many images and which are options of the backend, which are in the key already
        own = training.preprocess
        parts["calibration"] = [fingerprint, pixel_identity(own), stage_identity(own.normalise)]
    unsuitable = _unsuitable(training, runtime)
    absent = unsuitable or training.skipped or path.missing()
    return Evaluation(
        training,
        path,
        runtime,
        parts,
        skipped=absent or runtime.skipped,
        builds_engine=runtime.buildable and not absent,
        unsuited=bool(unsuitable),
        aligned=first and path.name == training.preprocess.name,
    )


def preparations(plan: Plan) -> tuple[Preparation, ...]:
    """List the preparations of a plan's pixels; without training images if nothing is trained."""
    if not plan.evaluations:
        return ()
    splits: tuple[Split, ...] = get_args(Split) if plan.trains else ("eval",)
    return tuple(
        Preparation(preprocess, split, plan.images[split])
        for preprocess in plan.preprocesses
        for split in splits
    )
