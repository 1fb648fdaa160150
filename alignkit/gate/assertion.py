"""`assert_preprocess_aligned`: the gate as one call, for notebooks and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError

from alignkit.errors import ConfigError, MissingDependency, NothingCompared
from alignkit.experiment.gate_option import Gate, beyond_normalised
from alignkit.experiment.rule_option import Rule
from alignkit.judge import judge
from alignkit.judge.evidence import Evidence
from alignkit.preprocess import Preprocess, StageName, same_as
from alignkit.record import CoverageDiff, Verdict
from alignkit.samples import Samples

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Function: TypeAlias = Callable[[bytes], Any]
"""Encoded image → (h, w, 3) in 0..255, or a normalised (3, h, w) or (1, 3, h, w) tensor."""
Stack: TypeAlias = Preprocess | Mapping[str, Any] | Function
ImageSource: TypeAlias = str | Path | Iterable[str | Path | bytes] | Samples


class PreprocessDriftError(AssertionError):
    """Drift between two stacks that breaks a rule; ``verdict`` holds every check."""

    def __init__(self, verdict: Verdict) -> None:
        failed = [each for each in verdict.rules if each.state in ("fail", "error", "inconclusive")]
        lines = [f"  {each.state} {each.metric}: {each.observed} ({each.limit})" for each in failed]
        super().__init__("\n".join([verdict.sentence, *lines]))
        self.verdict = verdict


def assert_preprocess_aligned(
    reference: Stack,
    candidate: Stack,
    images: ImageSource,
    *,
    rules: Sequence[str | Mapping[str, Any] | Rule] = ("strict",),
) -> Verdict:
    """Return the verdict; raise `PreprocessDriftError` unless every rule holds.

    A stack is a `Preprocess`, a mapping as under ``preprocess:`` in an experiment file, or a
    function of the encoded bytes, which is compared by its result alone. ``rules`` are those of a
    gate: names of presets or mappings, e.g. ``{"metric": "resize.max_abs", "fail": 2}``. The result
    of a function counts as the stage ``colour``, or as ``normalise`` if it is a tensor; ``strict``
    then requires that stage to be equal bit for bit. Raises `ConfigError` for a rule that cannot be
    measured and `NothingCompared` if there is no image, or if both stacks are the same: a mapping
    says ``"same": True`` if that is meant.

    >>> one = {"decode": "pillow", "resize": {"name": "opencv", "size": 224}}
    >>> other = {**one, "decode": "opencv"}
    >>> assert_preprocess_aligned(one, other, "images/")  # doctest: +SKIP
    """
    samples = _samples(images)
    if not len(samples):
        raise NothingCompared("there are no images; nothing was compared")
    sides = _side(reference, "reference"), _side(candidate, "candidate")
    repeated = _repeated(*sides)
    meant = isinstance(candidate, Mapping) and candidate.get("same") is True
    if meant and not repeated:
        raise ConfigError("candidate: same is not true: the reference has other stages or options")
    if repeated and not meant:
        raise NothingCompared(
            "both stacks have the same stages and options, so that nothing would be compared; "
            "if that is meant, give the candidate as a mapping with 'same': True"
        )
    if all(isinstance(side, Preprocess) for side in sides):
        gate = _gate(rules)
        verdict = _of_paths(*sides, samples, gate, same=meant)  # type: ignore[arg-type]  # both are
    else:
        verdict = _of_results(*sides, samples, rules)
    if verdict.exit_code:
        raise PreprocessDriftError(verdict)
    return verdict


def _side(stack: Stack, name: str) -> Preprocess | Function:
    if isinstance(stack, Mapping):
        from alignkit.experiment.preprocess_option import PreprocessOption

        try:
            return PreprocessOption.model_validate(dict(stack)).build(name)
        except ValidationError as error:
            raise ConfigError(f"{name}: {_first(error)}") from None
    return replace(stack, name=name) if isinstance(stack, Preprocess) else stack


def _repeated(a: Preprocess | Function, b: Preprocess | Function) -> bool:
    if isinstance(a, Preprocess) and isinstance(b, Preprocess):
        return bool(same_as((a, b)))
    return a is b


def _gate(rules: Sequence[str | Mapping[str, Any] | Rule]) -> Gate:
    options = [{"preset": rule} if isinstance(rule, str) else rule for rule in rules]
    try:
        return Gate.model_validate({"rules": options})
    except ValidationError as error:
        raise ConfigError(f"rules: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    line = error.errors(include_url=False)[0]
    return ".".join(str(part) for part in line["loc"]) + f": {line['msg']}"


def _samples(images: ImageSource) -> Samples:
    if isinstance(images, Samples):
        return images
    listed = [images] if isinstance(images, str | Path) else list(images)
    files = tuple(Path(each) for each in listed if not isinstance(each, bytes))
    # folders are searched, and files read on demand; a list that holds bytes is in memory anyway
    if files and len(files) == len(listed):
        from alignkit.datasets.unlabelled_images import Images

        return Images(files).evaluation()
    encoded = [each if isinstance(each, bytes) else Path(each).read_bytes() for each in listed]
    names = tuple(f"image {index}" for index in range(len(encoded)))
    return Samples(names, (), (), encoded.__getitem__, fingerprint="")


def _of_paths(a: Preprocess, b: Preprocess, samples: Samples, gate: Gate, *, same: bool) -> Verdict:
    from alignkit.compare.compare_pixels import compare_preprocess, coverage_diff, pixel_stages
    from alignkit.controls.planted_faults import check_pixels
    from alignkit.findings.provenance import path_facts

    for rule in gate.expanded:
        if reason := beyond_normalised(rule, (a, b)):
            raise ConfigError(f"rules: {reason}")
    for preprocess in (a, b):
        if reason := preprocess.missing():
            raise MissingDependency(f"{preprocess.name}: {reason}")
    diffs = compare_preprocess(a, b, samples)
    return judge(
        gate,
        Evidence(
            pixels=pixel_stages(diffs),
            coverage_diffs=(coverage_diff(diffs),),
            paths=(path_facts(a), path_facts(b).model_copy(update={"same": same})),
        ),
        controls=check_pixels(a, samples),
    )


def _of_results(
    a: Preprocess | Function,
    b: Preprocess | Function,
    samples: Samples,
    rules: Sequence[str | Mapping[str, Any] | Rule],
) -> Verdict:
    from alignkit.compare.compare_pixels import pixel_stage
    from alignkit.compare.pixel_diff import PixelDiff
    from alignkit.compare.pixel_sums import pixel_sums

    # a function gives one kind of array, so that the first image tells which
    tensors = any(_called(side, samples.read(0)).shape[0] == 3
                  for side in (a, b) if not isinstance(side, Preprocess))  # fmt: skip
    stage: StageName = "normalise" if tensors else "colour"
    total = PixelDiff(stage, "isolated")
    both = (_results(side, samples, tensor=tensors) for side in (a, b))
    for left, right in zip(*both, strict=True):
        if left.shape != right.shape:
            total += PixelDiff(stage, "isolated", None, 1)
        else:
            sums = pixel_sums(left, right, channels="first" if tensors else "last")
            total += PixelDiff(stage, "isolated", sums)
    own = [{"metric": f"{stage}.changed", "fail": 0.0} if r == "strict" else r for r in rules]
    facts = pixel_stage(total, reference="reference", candidate="candidate")
    covered = CoverageDiff(reference="reference", candidate="candidate", images=len(samples),
                           only_reference=0, only_candidate=0)  # fmt: skip
    return judge(_gate(own), Evidence(pixels=(facts,), coverage_diffs=(covered,)), controls=())


def _results(
    side: Preprocess | Function, samples: Samples, *, tensor: bool
) -> Iterator[npt.NDArray[Any]]:
    """Yield a stack's result for each image: (h, w, 3), or (3, h, w) of a tensor."""
    from alignkit.preprocess.image_taps import encoded_images, take_pixels

    if not isinstance(side, Preprocess):
        yield from (_called(side, samples.read(index)) for index in range(len(samples)))
        return
    for (taken,) in take_pixels([side], encoded_images(samples)):
        # no coverage is counted here, so a failed image must not pass unseen
        if taken.pixels is None:
            raise NothingCompared(f"{side.name} cannot decode an image: {taken.reason}")
        yield side.normalise(taken.pixels) if tensor else taken.pixels


def _called(side: Function, encoded: bytes) -> npt.NDArray[Any]:
    """Return a function's result for one image: (h, w, 3), or (3, h, w) of a tensor."""
    import numpy as np

    array: npt.NDArray[np.generic] = np.asarray(side(encoded))
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != 3 or 3 not in (array.shape[0], array.shape[2]):
        raise ConfigError(
            f"the function gives an array of shape {array.shape}; it must be (h, w, 3), or "
            "(3, h, w) for a tensor"
        )
    # bytes are compared in exact integers
    return array if array.dtype == np.uint8 else array.astype(np.float32)


def compare_or_approve(
    folder: Path,
    name: str,
    stack: Preprocess | Mapping[str, Any],
    images: ImageSource,
    *,
    reason: str | None,
) -> str:
    """Compare a stack with its baseline in ``folder``, or approve it for a reason.

    Returns the differences in words; empty if there is none, or if they were approved.
    """
    from alignkit.baseline import baseline_environment, baseline_file, find_baseline, read_baseline
    from alignkit.baseline.approval import approve, changes
    from alignkit.baseline.baseline_diff import compare_with_baseline
    from alignkit.baseline.snapshot import take_snapshot
    from alignkit.baseline.unapproved import refuse_unapproved
    from alignkit.errors import BaselineError

    preprocess = _side(stack, name)
    assert isinstance(preprocess, Preprocess)
    samples = _samples(images)
    environment = baseline_environment([preprocess])
    if reason is not None:
        file = baseline_file(folder, environment)
        known = read_baseline(file) if file.exists() else None
        now = take_snapshot(name, [preprocess], samples, approved=known)
        if found := changes(known, now.as_baseline()):
            approve(folder, now.as_baseline(), found, reason=reason)
        return ""
    try:
        approved = find_baseline(folder, environment)
        refuse_unapproved(folder, approved)
    except BaselineError as error:
        return str(error)
    now = take_snapshot(name, [preprocess], samples, approved=approved)
    facts = compare_with_baseline(approved, now)
    verdict = judge(
        Gate(rules=(Rule(preset="strict", against="baseline"),)),
        Evidence(baseline=facts),
        controls=(),
    )
    return verdict.sentence if verdict.exit_code else ""
