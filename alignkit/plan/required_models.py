"""Faults of models and doubts about them that are known before anything is prepared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from alignkit.datasets import DATASETS
from alignkit.errors import AlignkitError, BackendError, ConfigError, DataError, MissingDependency
from alignkit.experiment import Mistakes, source_of
from alignkit.experiment.yaml_source import Key, Problem, dotted
from alignkit.extras import require_libraries
from alignkit.plan.planned_units import fixed_size
from alignkit.plugins import name_of
from alignkit.tasks import TASKS

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.experiment.experiment import Experiment
    from alignkit.models.user_model import UserModel
    from alignkit.plan import Plan


def require_models(experiment: Experiment) -> None:
    """Raise one `ConfigError` with every reason why a model cannot run, each at its place.

    A model to train must take inputs of the paths' size; a given one must fit the data's classes
    too, as far as its file and the images are on this machine. Only headers are read, and no image.
    Raise `MissingDependency` if a library is not installed without which nothing of the experiment
    can be measured.
    """
    require_libraries(*libraries(experiment))
    if not experiment.predicts:
        return
    missing: list[MissingDependency] = []
    found = [*(_faults_of_given if experiment.content.models else _faults)(experiment, missing)]
    if found:
        source = source_of(experiment)
        problems = (
            Problem(source.place(key, of_key=False), dotted(key), message) for key, message in found
        )
        raise Mistakes(problems)
    for error in missing:  # the model may fit, and the fix is another
        raise error


def script_file(experiment: Experiment, model: UserModel) -> Path:
    """Return the script of ``made_by``, which lies beside the experiment's file."""
    return experiment.file.parent / model.made_by.split()[0]


def to_make(experiment: Experiment) -> dict[str, str]:
    """Say of each model that a script makes that a run does it first."""
    return {each.name: each.described() for each in experiment.content.models if each.made_by}


def unseen(experiment: Experiment) -> list[str]:
    """Name models' files and the data that are not on this machine, so that no model is checked."""
    given = experiment.content.models
    absent = [str(file) for each in given for file in each.files if not file.is_file()]
    # images without labels name no classes that a model must have
    named = not experiment.labelled or experiment.data.class_names()
    return absent + ["the data"] * bool(given and not named)


def recognised(experiment: Experiment) -> dict[str, str]:
    """Say of each given model that is on this machine how its task reads which of its outputs.

    Raise as `UserModel.recognised` does, where `require_models` was not asked before.
    """
    classes = experiment.data.class_names()
    return {each.name: each.recognised(classes) for each in experiment.models if each.is_known}


def skipped_sizes(experiment: Experiment) -> dict[str, list[str]]:
    """Say of given models along which paths they cannot run, as the size of the images varies.

    Models that run along all paths are left out, and so are those that are not on this machine.
    """
    evaluate = experiment.content.evaluate
    runtimes = [*zip(evaluate.titles(), (e.backend for e in evaluate.backends), strict=True)]
    found: dict[str, list[str]] = {}
    for given in experiment.models:
        for path in experiment.paths if given.is_known else ():
            reasons = {name: fixed_size(given, path, name, each) for name, each in runtimes}
            for reason in dict.fromkeys(filter(None, reasons.values())):
                names = ", ".join(name for name, own in reasons.items() if own == reason)
                line = f"along {path.name} it is skipped in {names}: {reason}"
                found.setdefault(given.name, []).append(line)
    return found


def _faults(experiment: Experiment, missing: list[MissingDependency]) -> Iterator[tuple[Key, str]]:
    from alignkit.models.model_fit import require_input

    try:
        require_input(experiment.content.train.model, *experiment.reference.size)
    except ConfigError as error:
        yield ("train", "model"), str(error)
    except MissingDependency as error:
        missing.append(error)


def _faults_of_given(
    experiment: Experiment, missing: list[MissingDependency]
) -> Iterator[tuple[Key, str]]:
    from alignkit.models.model_fit import faults_of
    from alignkit.models.onnx_header import one_size

    classes = experiment.data.class_names()
    by_name = {path.name: path for path in experiment.paths}
    for index, given in enumerate(experiment.models):
        if given.made_by and not (script := script_file(experiment, given)).is_file():
            message = f"no script {script}; it lies beside the experiment's file"
            yield ("models", index, "made_by"), message
        if not given.is_known:
            continue
        try:
            faults = faults_of(given, classes, experiment.reference.size)
            for fault in faults:
                yield ("models", index, fault.key), fault.message
            bytes_wanted = () if faults else map(given.unlike_bytes, experiment.paths)
            for message in filter(None, bytes_wanted):
                yield ("models", index, "onnx"), message
            varies = given.format == "onnx" and by_name[given.preprocess].varies
            if varies and not faults and (fixed := one_size(given.file)):
                message = f"the size of {given.preprocess}'s images varies, and {fixed}"
                yield ("models", index, "onnx"), message
        except MissingDependency as error:
            missing.append(error)


def libraries(experiment: Experiment) -> list[str]:
    """List the libraries that the data and every model need, by their import names.

    Those of a backend or a path are not among them: its cells are skipped, and the others run.
    """
    content = experiment.content
    needed = [plugin.module] if (plugin := DATASETS.get(experiment.data_name)) else []
    if not experiment.predicts:
        return [*filter(None, needed)]
    if plugin := TASKS.get(name_of(content.task, TASKS)):
        needed += [plugin.module, *plugin.needs]
    formats = {each.format for each in content.models}
    if formats != {"onnx"}:
        needed += ["torch", "torchvision"]
    if "onnx" in formats:
        needed += ["onnx"]
    if not formats and (loss := content.train.identities) and not loss.classifies:
        needed += ["pytorch_metric_learning"]
    return [*dict.fromkeys(filter(None, needed)), "scipy"]


def seen_identities(experiment: Experiment) -> Iterator[str]:
    """Yield a warning if a training of embeddings takes identities that are evaluated too.

    It is another one where that cannot be known before a run, or at all.
    """
    content = experiment.content
    if content.models or not experiment.predicts or not experiment.task.keeps_vectors:
        return
    data = experiment.data
    held_out = getattr(data, "held_out", False)  # of a plugin that extends no `Dataset`
    evaluated = data.class_names()
    trained = {*(data.trained_names() if held_out else evaluated)}
    both = [name for name in evaluated if name in trained]
    if not both and held_out and (why := data.unnamed()):
        yield f"it is not known here whether identities of evaluation are trained on too: {why}"
    if not both and (held_out or evaluated):
        return
    count = f"{len(both):,} of {len(evaluated):,}" if evaluated else "all"
    some = f", such as {both[0]}," if both else ""
    if held_out:
        way = "name other ones under root and train_root, or leave train_root out"
    else:
        way = "for new ones use 'name: identities', which divides a folder by identities"
    yield (
        f"{count} identities of evaluation{some} are trained on too, so that figures of "
        f"verification and search do not hold for new identities; {way}"
    )


def assumed(plan: Plan) -> dict[str, str]:
    """Say of each given model whose reading no label and no file shows how it is read."""
    from alignkit.models.model_fit import given_checkpoint, outputs_of

    classes = plan.experiment.data.class_names() if plan.experiment.labelled else ()
    found = {}
    for given in (each.given for each in plan.trainings if each.given is not None):
        if not given.is_known:
            continue
        checkpoint = given_checkpoint(given, classes, plan.experiment.reference.size)
        # a model that cannot be read fails its own cells, which say why; the others run
        with suppress(ConfigError, DataError, BackendError):
            outputs = outputs_of(given, checkpoint)
            if given.assumes(outputs, classes):
                found[given.name] = given.reads(outputs, classes)
    return found


def require_own_models(plan: Plan) -> None:
    """Run each given model of a plan that is code on one image; count outputs that no label names.

    Raise one `ConfigError` that says of each why it does not run.
    """
    from alignkit.models.model_fit import output_names, require_own_code

    classes, lines = plan.experiment.data.class_names(), []
    for given in (each.given for each in plan.trainings if each.given is not None):
        try:
            if not given.is_known:
                continue
            size = plan.experiment.reference.size
            named = classes if plan.experiment.labelled else output_names(given, size)
            if named or not plan.experiment.labelled:
                require_own_code(given, named, size)
        except MissingDependency:
            raise  # the model may fit, and the fix is another
        except AlignkitError as error:
            lines.append(f"models: {given.name}: {error}")
    if lines:
        raise ConfigError("\n".join(lines))
