"""Advice on what to change so that serving costs a model less, which the run then checks.

For each serving path, the configurations of this machine are searched on training images for the
nearest one. It becomes another path of the plan, so that models are trained and evaluated with it
as with any other. Evaluation images that the search never saw confirm the promise of the advice;
see `alignkit.runner.mitigation`.

A path whose decoder cuts off the fraction of colours, as nvJPEG does, is also served half a level
brighter. No search promises a gain of that; the evaluation images keep or refute it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.errors import AlignkitError, DataError, WorkspaceError
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.run_options import ADVISED, AdviseOption
from alignkit.plan import CHANGED, Plan, make_plan
from alignkit.record import AdviceFacts
from alignkit.version import ADVICE_LAYERS, code_version
from alignkit.workspace import Context

if TYPE_CHECKING:
    from alignkit.plan.work import Training
    from alignkit.preprocess import Preprocess
    from alignkit.progress import Progress
    from alignkit.samples import Samples
    from alignkit.search.configurations import Configuration
    from alignkit.search.match_result import Match
    from alignkit.search.target import Target

_HALF_LEVEL = "-half-level"
"""End of the name of a path that is served half a level brighter."""


def advise(plan: Plan, context: Context) -> tuple[AdviceFacts, ...]:
    """Give one advice for each path that it is asked for, or the reason why there is none."""
    import numpy as np

    option = plan.experiment.advise
    if option is None:
        return ()
    training = plan.samples("train")
    # a fixed draw: a data set may list its images class by class
    shuffled = np.random.default_rng(0).permutation(len(training))
    samples = training.take(sorted(shuffled[: option.images].tolist()))
    served = [
        preprocess
        for preprocess in plan.experiment.paths[1:]
        if preprocess.name in option.served_by or not option.served_by
    ]
    return tuple(
        advice
        for each in served
        for advice in (
            _advice(each, plan.experiment.reference, samples, option, context),
            *([_half_level(each)] if _gains_half_level(each, served) else []),
        )
    )


def _gains_half_level(path: Preprocess, served: Sequence[Preprocess]) -> bool:
    """Tell whether a path runs here and cuts off colours, and its advice's name is free."""
    taken = any(each.name == f"{path.name}{_HALF_LEVEL}" for each in served)
    return not taken and _cuts_off_colours(path) and not path.missing()


def _cuts_off_colours(served: Preprocess) -> bool:
    # nvJPEG up to 12.8 does; the decoders of a GPU are nvJPEG 13 with the CUDA that torch brings
    return getattr(served.decode, "colour", "") == "truncate"


def _half_level(served: Preprocess) -> AdviceFacts:
    """Advise to serve the path with half a level added before normalisation."""
    from alignkit.search.match_text import yaml_block

    name = f"{ADVISED}{served.name}{_HALF_LEVEL}"
    # (x + 0.5) / 255 - mean = x / 255 - (mean - 0.5 / 255)
    red, green, blue = (mean - 0.5 / 255 for mean in served.normalise.mean)
    brighter = replace(served, normalise=replace(served.normalise, mean=(red, green, blue)))
    return AdviceFacts(
        served=served.name,
        change="serving",
        advised=name,
        label="half a level added before normalisation",
        yaml=yaml_block(brighter, name),
    )


def advised_plan(plan: Plan, advice: Sequence[AdviceFacts]) -> Plan:
    """Add every advised path to the plan: served and, if training is to change, trained with.

    The key stays that of the plan without them: a run is found by its experiment.
    """
    import yaml

    options = {
        each.advised: PreprocessOption.model_validate(yaml.safe_load(each.yaml)[each.advised])
        for each in advice
        if each.advised
    }
    # half a level more is still the stack that the served path imitates
    options |= {
        each.advised: options[each.advised].imitating(plan.experiment.entries[each.served])
        for each in advice
        if each.advised.endswith(_HALF_LEVEL)
    }
    if not options:
        return plan
    # planned like a file that names these paths, so that they get the same checks
    whole = make_plan(plan.experiment.with_paths(options), ranks=plan.ranks)
    if whole.images != plan.images:
        raise DataError(CHANGED)
    served_only = {each.advised for each in advice if each.change == "serving"}

    def kept(training: Training) -> bool:
        return training.preprocess.name not in served_only

    return replace(
        whole,
        key=plan.key,
        trainings=tuple(each for each in whole.trainings if kept(each)),
        evaluations=tuple(each for each in whole.evaluations if kept(each.training)),
    )


def _advice(
    served: Preprocess,
    reference: Preprocess,
    samples: Samples,
    option: AdviseOption,
    context: Context,
) -> AdviceFacts:
    """Read the stored result of this search, or search."""
    parts = {
        "samples": samples.fingerprint,
        "paths": [[path.identity(), path.versions()] for path in (reference, served)],
        "served": served.name,
        "option": option.model_dump(mode="json", exclude={"served_by"}),
        "code": code_version(ADVICE_LAYERS),
    }

    def search(folder: Path) -> None:
        facts = _search(served, reference, samples, option, context.progress)
        (folder / "advice.json").write_text(facts.model_dump_json())

    label = f"advise for {served.name}"
    try:
        return context.workspace.keep("comparisons", parts, label, search, _read)
    except WorkspaceError:
        raise
    except AlignkitError as error:  # another run may find more: this is not stored
        return AdviceFacts(served=served.name, change=option.change, reason=str(error))


def _read(folder: Path) -> AdviceFacts:
    return AdviceFacts.model_validate_json((folder / "advice.json").read_text())


def _search(
    served: Preprocess,
    reference: Preprocess,
    samples: Samples,
    option: AdviseOption,
    progress: Progress,
) -> AdviceFacts:
    from alignkit.progress import advancing
    from alignkit.search import match
    from alignkit.search.target import preprocess_target

    target = preprocess_target(served if option.change == "training" else reference)
    names, chosen = _choices(target, option)
    detail = f"{len(chosen)} configurations for {served.title}"
    with progress.stage("advise", len(samples), detail) as stage:
        found = match(target, samples, range(len(samples)), chosen, progress=advancing(stage))
    nearest = (
        each.preprocess(target.geometry, target.normalise) for each in found.winner.configurations
    )
    if option.change == "training" and any(
        path.identity() == reference.identity() for path in nearest
    ):
        reason = "the models are already trained with the nearest configuration"
        return AdviceFacts(served=served.name, change=option.change, reason=reason)
    return _facts(served, option, found, names)


def _choices(
    target: Target, option: AdviseOption
) -> tuple[Mapping[Configuration, str], Sequence[Configuration]]:
    """Return the names of serving options, if those are searched, and the configurations to try."""
    from alignkit.search.configurations import configurations, serving_options

    if option.change == "serving" and not (option.decoders or option.resizers):
        names = serving_options()
        return names, list(names)
    only = {"decoders": option.decoders, "resizers": option.resizers}
    return {}, configurations(target.geometry, **only)


def _facts(
    served: Preprocess, option: AdviseOption, found: Match, names: Mapping[Configuration, str]
) -> AdviceFacts:
    from alignkit.search.match_text import label, yaml_block

    name, winner = f"{ADVISED}{served.name}", found.winner
    first = winner.configurations[0]
    return AdviceFacts(
        served=served.name,
        change=option.change,
        advised=name,
        label=names.get(first, label(first)),
        yaml=yaml_block(found.preprocesses[0], name),
        tried=found.tried,
        images=found.images,
        unseen_images=found.unseen,
        distance=winner.mean_abs,
        unseen=winner.unseen,
    )
