"""Trainings, runtimes and evaluations of an experiment, with what their keys depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignkit.backends import BACKENDS, Backend, Builder, EngineBuilder, RemoteBackend
from alignkit.errors import ConfigError
from alignkit.models.onnx_header import one_size
from alignkit.place import FULL
from alignkit.plan.work import Evaluation, MatchedPair, Runtime, Training
from alignkit.plugins import UNPROVEN, Plugin, did_you_mean, name_of
from alignkit.prepare import pixel_identity
from alignkit.preprocess import Preprocess, stage_identity
from alignkit.tasks import TASKS, usual_task
from alignkit.version import LOGIT_LAYERS, WEIGHT_LAYERS, code_version

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.experiment.run_options import Evaluate
    from alignkit.experiment.train_option import Recipe
    from alignkit.models.user_model import UserModel

_OF_EMBEDDINGS = {"loss", "embedding", "margin", "scale", "sample", "shard"}
_NOT_IN_KEYS = {"seeds", "fractions", "mix", "pretrained"} | _OF_EMBEDDINGS
"""Fields of a recipe that the key of a training replaces by its own share of them."""


def path_trainings(experiment: Experiment, fingerprint: str, ranks: int) -> tuple[Training, ...]:
    """Train along each path and on the mix, for every seed and fraction of the recipe."""
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


def given_trainings(experiment: Experiment) -> tuple[Training, ...]:
    """Take the user's own models in place of trainings, one row each."""
    by_name = {path.name: path for path in experiment.paths}
    given = [(by_name[model.preprocess], model) for model in experiment.models]
    return tuple(Training(path, 0, each.parts_for(path.size), given=each) for path, each in given)


def matched_pairs(trainings: tuple[Training, ...]) -> tuple[MatchedPair, ...]:
    """Pair the first path's training with the others of the same seed and fraction."""
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
    if loss := recipe.identities:
        pairs = Plugin("", distributions=("pytorch-metric-learning",))
        library = {} if loss.classifies else {"library": pairs.version()}
        parts["embedding"] = {**loss.parts(ranks), **library}
    if others:
        parts["mix"] = [[pixel_identity(each), stage_identity(each.normalise)] for each in others]
    reasons = [each.missing() for each in paths]
    skipped = next(filter(None, reasons), "") or missing_device(recipe.device)
    return Training(path, seed, parts, skipped, fraction, paths if others else ())


def runtimes_of(evaluate: Evaluate, trainings: tuple[Training, ...]) -> list[Runtime]:
    """List every backend of ``evaluate`` in every precision, with the reason if it cannot run here.

    Raises `ConfigError` if all of them preprocess by themselves, or an endpoint does not say which
    of ``trainings`` it serves.
    """
    runtimes = []
    for name, option in zip(evaluate.titles(), evaluate.backends, strict=True):
        plugin = BACKENDS.find(option.name)
        backend = option.backend
        for precision in option.precision:
            missing = plugin.missing()
            reason = missing or backend.impossible(precision)
            buildable = (
                bool(reason)
                and not missing
                and isinstance(backend, EngineBuilder)
                and not backend.cannot_build(precision)
            )
            # the user should know that the fix may not be enough
            if reason and plugin.unproven:
                reason += f" ({option.name} is {UNPROVEN})"
            version, held = plugin.version(), served_training(backend, trainings)
            runtimes.append(
                Runtime(name, backend, precision, version, reason, buildable, option.builds, held)
            )
    first = next((each for each in runtimes if not each.backend.own_path), None)
    if first and first.simulation:
        raise ConfigError(
            f"evaluate.backends: {first.name} {first.precision} is a simulation, and the first "
            "backend is the reference; put one first that computes, e.g. torch"
        )
    if all(each.backend.own_path for each in runtimes):
        raise ConfigError(
            "evaluate.backends: each of these preprocesses by itself, which leaves nothing to "
            "compare with; put one first that receives the paths' images, e.g. torch"
        )
    return runtimes


def served_training(backend: Backend, trainings: tuple[Training, ...]) -> Training | None:
    """Find the model that an endpoint serves, the first of its seeds; ``None`` for other backends.

    Raises `ConfigError` if the endpoint does not say which of several rows it is.
    """
    if not isinstance(backend, RemoteBackend):
        return None
    # reversed, so that the first seed of a row stays
    rows = {str(each.row): each for each in reversed(trainings)}
    rows |= {each.given.name: each for each in trainings if each.given}
    if not backend.serves and len({each.row for each in trainings}) == 1:
        return trainings[0]
    if backend.serves not in rows:
        raise ConfigError(
            f"evaluate.backends: an endpoint serves one model; name its row as 'serves'"
            f"{did_you_mean(backend.serves, rows)}"
        )
    return rows[backend.serves]


def not_served(held: Training) -> str:
    """Explain why the endpoint that serves this model cannot evaluate another."""
    seed = "" if held.given else f" of seed {held.seed}"
    return f"the endpoint serves the model of {held.row}{seed}, not this one"


def row_evaluations(
    training: Training, runtimes: list[Runtime], experiment: Experiment, fingerprint: str
) -> list[Evaluation]:
    """Evaluate a model along every path in every runtime; the first suitable one is the reference.

    A runtime that preprocesses by itself is evaluated once, on the images of the row's own path.
    """
    # a runtime with preprocessing of its own cannot be aligned with a path
    handed = [each for each in runtimes if not each.backend.own_path]
    own = training.preprocess
    first = next((each for each in handed if not _unsuitable(training, own, each)), handed[0])
    placed = [(path, each) for path in experiment.paths for each in handed]
    placed += [(own, each) for each in runtimes if each.backend.own_path]
    return [
        _evaluation(training, path, runtime, experiment, fingerprint, first=runtime is first)
        for path, runtime in placed
    ]


def _unsuitable(training: Training, path: Preprocess, runtime: Runtime) -> str:
    """Explain why a model cannot be evaluated here on any machine; empty if it can."""
    if runtime.holds is not None:
        return "" if runtime.holds == training else not_served(runtime.holds)
    reason = ""
    if training.given is not None:
        reason = training.given.unsuitable(runtime.name, needs_onnx=runtime.backend.needs_onnx)
    return reason or _takes_one_size(training, path, runtime)


def _takes_one_size(training: Training, path: Preprocess, runtime: Runtime) -> str:
    """Explain why a model in a runtime takes no images whose size varies; else empty."""
    backend, own = runtime.backend, training.preprocess
    calibrates = isinstance(backend, Builder) and backend.calibration(runtime.precision)
    if calibrates and own.varies:
        return (
            f"{runtime.precision} is calibrated with images of one size, and the size of "
            f"{own.name}'s varies"
        )
    return fixed_size(training.given, path, runtime.name, backend)


def fixed_size(given: UserModel | None, path: Preprocess, name: str, backend: Backend) -> str:
    """Explain why a model takes images of one size in a backend of this name, and the path's vary.

    Empty if it takes them; ``given`` is ``None`` for a model that is trained here.
    """
    if not path.varies or backend.own_path:
        return ""
    varies = f"the size of {path.name}'s images varies"
    # a backend of another package need not have the contract's defaults
    if not getattr(backend, "any_size", False):
        return f"{varies}, and {name} runs here on one size"
    graph = given.graph if given else None
    if not backend.needs_onnx or (graph and not graph.is_file()):
        return ""
    if graph is None:
        return f"{varies}, and a graph that alignkit exports takes one; give the model's 'onnx'"
    fixed = one_size(graph)
    return f"{varies}, and {fixed}" if fixed else ""


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
    task = experiment.task
    if task != usual_task():
        # left out at its default, so that the cells of classifiers keep their keys
        version = TASKS.find(name_of(task, TASKS)).version()
        parts["task"] = [stage_identity(task.predicting()), version]
    unsuitable = _unsuitable(training, path, runtime)
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
        task=task,
    )
