"""Parts of an experiment file that contradict each other, each with its place in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic_core import InitErrorDetails

from alignkit.decoders import DECODERS
from alignkit.errors import ConfigError
from alignkit.experiment.metric_option import not_of_task
from alignkit.experiment.option import no_such, wrong
from alignkit.experiment.rule_option import Rule, beyond_normalised
from alignkit.experiment.run_options import ADVISED, AdviseOption
from alignkit.plugins import did_you_mean, name_of
from alignkit.preprocess import Preprocess
from alignkit.resizers import RESIZERS
from alignkit.samples import NO_LABELS, Truth
from alignkit.task_facts import TaskFacts
from alignkit.tasks import TASKS, OutputShape, Task
from alignkit.text.numbers import listed

if TYPE_CHECKING:
    from alignkit.datasets import Dataset
    from alignkit.experiment.experiment import ExperimentFile


def misfits(file: ExperimentFile) -> Iterator[InitErrorDetails]:
    """Yield one line for each part of a file that does not fit another."""
    stacks = [option.build(name) for name, option in file.preprocess.items()]
    trains = "train" in file.model_fields_set
    yield from _of_task(file, trains=trains)
    yield from _of_training(file, stacks)
    yield from _of_models(file, trains=trains)
    if not file.labelled:
        yield from _of_labels(file, trains=trains)
    if file.advise is not None:
        yield from _of_advice(file, file.advise)
    yield from _of_gate(file, stacks)


def training_truth(data: Dataset) -> Truth:
    """Return the truth of the training images; a plugin that extends no `Dataset` has one truth."""
    return getattr(data, "training_truth", data.truth)


def _of_task(file: ExperimentFile, *, trains: bool) -> Iterator[InitErrorDetails]:
    if reason := file.task.refuses(file.data.truth):
        yield wrong("task", reason, "task")
    trained = training_truth(file.data)
    if trains and file.labelled and trained != "class":
        message = (
            f"trains classifiers, from one class an image, and this data has {trained}; give "
            "models that are trained as 'models:'"
        )
        yield wrong("task", message, "train")


def _of_training(file: ExperimentFile, stacks: Sequence[Preprocess]) -> Iterator[InitErrorDetails]:
    for name in file.train.mix:
        if name not in file.preprocess:
            yield wrong("mix", no_such("path", name, file.preprocess), "train", "mix")
    if file.models:
        return
    if file.predicts and (message := _mistaught(file.task, file.train.embedding, file.data)):
        yield wrong("embedding", message, "train", "embedding")
    for path in stacks:
        if path.varies and file.labelled:
            message = (
                "gives images of varying sizes, and a training takes one; give the trained model "
                "under 'models:', or leave 'auto' out"
            )
            yield wrong("auto", message, "preprocess", path.name, "resize", "auto")


def _mistaught(task: Task, embedding: int | None, data: Dataset) -> str:
    """Say why a training does not give what the task reads; empty if it does."""
    name = name_of(task, TASKS)
    if embedding is not None and not _reads_vectors(task, embedding):
        return f"gives a vector, and {name} reads a score for each class; write 'task: embedding'"
    if embedding is None and task.keeps_vectors:
        return "is missing: the task reads vectors; set train.embedding, say to 128"
    if embedding is None and getattr(data, "held_out", False):
        return (
            "is missing: the data's identities of evaluation are not those of training, so that no "
            "classifier knows them; write 'task: embedding' and set train.embedding, say to 128"
        )
    return ""


def _reads_vectors(task: Task, length: int) -> bool:
    """Tell whether a task reads a vector an image, and no score for each class."""
    try:
        scores = task.counted([OutputShape("embedding", (None, length))])
    except ConfigError:
        return False
    return scores == 0


def _of_models(file: ExperimentFile, *, trains: bool) -> Iterator[InitErrorDetails]:
    models = file.models
    if models and trains:
        yield wrong("models", "stands in place of 'train'; remove one", "models")
    names = [model.name for model in models]
    for index, model in enumerate(models):
        if model.preprocess not in file.preprocess:
            message = no_such("path", model.preprocess, file.preprocess)
            yield wrong("models", message, "models", index, "preprocess")
        if model.name in names[:index]:
            yield wrong("models", "each name may stand once", "models", index, "name")
    used = models and (file.evaluate.calibrates or file.advise)
    if file.calibration is not None and not used:
        message = (
            "nothing takes its scales from them: no precision of 'evaluate' is calibrated, as int8 "
            "is"
            if models
            else "is for the user's own models; those of 'train' are calibrated with training "
            "images"
        )
        yield wrong("calibration", message, "calibration", given=file.calibration)


def _of_labels(file: ExperimentFile, *, trains: bool) -> Iterator[InitErrorDetails]:
    """Yield one line for each part that needs labels, of images that have none."""
    if trains:
        message = f"{NO_LABELS} to train with; use data: {{name: folder}}, or give 'models'"
        yield wrong("labels", message, "train")
    if file.models and file.evaluate.calibrates and file.calibration is None:
        message = (
            f"int8 takes its scales from training images, and {NO_LABELS} nor a part to train "
            "with; name images that calibrate: calibration: {root: DIR}, with or without labels"
        )
        yield wrong("labels", message, "evaluate", "backends")


def _of_advice(file: ExperimentFile, advise: AdviseOption) -> Iterator[InitErrorDetails]:
    if file.data.truth not in ("class", "none"):
        has = f"one class an image, and this data has {file.data.truth}; remove it"
        yield wrong("task", f"advise is for data with {has}", "advise")
        return
    if not file.labelled:
        yield wrong("advise", "needs labelled images: its effect is a model's", "advise")
    if file.models and advise.change == "training":
        message = "models: are trained already; with change: serving, their serving can be advised"
        yield wrong("advise", message, "advise", "change", given=advise.change)
    # the reference is the path that the others should come near
    reference, *others = file.preprocess
    for name in advise.served_by:
        if name not in others:
            what = "is the reference" if name == reference else "is no path"
            message = f"{name!r} {what}{did_you_mean(name, others)}"
            yield wrong("advise", message, "advise", "served_by", given=name)
    for name in file.preprocess:
        if name.startswith(ADVISED):
            message = f"a name with {ADVISED!r} before it is kept for advice"
            yield wrong("paths", message, "preprocess", name)
    searched = [(DECODERS, name) for name in advise.decoders]
    searched += [(RESIZERS, name) for name in advise.resizers]
    for table, name in searched:
        if name not in table:
            message = no_such(table.kind, name, table)
            yield wrong("advise", message, "advise", table.family, given=name)


def _of_gate(file: ExperimentFile, stacks: Sequence[Preprocess]) -> Iterator[InitErrorDetails]:
    """Yield one line for each rule that this file can never measure, or never fail."""
    gate, paths = file.gate, [*file.preprocess]
    rules = gate.rules or ()
    # one path has nothing to be compared with
    alone = all(rule.against == "baseline" for rule in rules) if rules else bool(gate.taps)
    if len(paths) == 1 and len(_precisions(file)) < 2 and not alone:
        message = (
            "needs two paths or more; the first is the reference (one is enough where models run "
            "in two runtimes or precisions, or every rule is against the baseline)"
        )
        yield wrong("paths", message, "preprocess", given=paths[0])
    for index, rule in enumerate(rules):
        for key, message in _of_rule(rule, file):
            given = getattr(rule, key)
            yield wrong("rule", message, "gate", "rules", index, key, given=given)
        if message := beyond_normalised(rule, stacks):
            yield wrong("rule", message, "gate", "rules", index, given=rule)
    for index, waiver in enumerate(gate.waive):
        if waiver.path is not None and waiver.path not in paths:
            message, loc = no_such("path", waiver.path, paths), ("gate", "waive", index, "path")
            yield wrong("waiver", message, *loc, given=waiver.path)


def _precisions(file: ExperimentFile) -> list[str]:
    """List the precision of each runtime in which models predict."""
    backends = file.evaluate.backends if file.predicts else ()
    return [each for backend in backends for each in backend.precision]


def _of_rule(rule: Rule, file: ExperimentFile) -> Iterator[tuple[str, str]]:
    """Yield the key and the reason of each option of a rule that the file does not fit."""
    metrics, task = [each.measured for each in rule.expanded()], file.task.facts()
    kinds = {each.kind for each in metrics}
    key = "preset" if rule.preset else "metric"
    unmeasured = [each.name for each in metrics if each.needs_labels]
    if not file.predicts and kinds & {"model", "class"}:
        yield key, "needs a model, and these images have no labels to train one with; give 'models'"
    elif foreign := next(filter(None, (not_of_task(each, task) for each in metrics)), ""):
        yield key, foreign
    elif not file.labelled and unmeasured:
        others = f"{NO_LABELS}; {_unlabelled(task)} need none"
        yield key, f"{', '.join(unmeasured)} needs labels, and {others}"
    paths, backends = [*file.preprocess], [each.name for each in file.evaluate.backends]
    compared = rule.against == "reference" and kinds & {"pixel", "coverage"}
    if len(paths) == 1 and compared:
        yield key, "compares the pixels of two paths, and 'preprocess' has one"
    if rule.path is not None and rule.path not in paths:
        yield "path", no_such("path", rule.path, paths)
    if rule.path == paths[0] and compared:
        yield "path", f"{rule.path!r} is the reference itself; name one of the others"
    if rule.backend is not None and rule.backend not in backends:
        yield "backend", no_such("backend", rule.backend, backends)
    precisions = _precisions(file)
    if rule.precision is not None and precisions and rule.precision not in precisions:
        yield "precision", no_such("precision", rule.precision, sorted({*precisions}))


def _unlabelled(task: TaskFacts) -> str:
    """List the metrics of predictions that need no labels."""
    logits = ["logits.*"] if task.class_scores else []
    return listed(["churn", *logits, *(each.name for each in task.measures)])
