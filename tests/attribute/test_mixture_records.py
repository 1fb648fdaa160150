"""Reuse of outputs: the shares are those of every mixture of every image, predicted in full."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from alignkit.attribute import attribute
from alignkit.attribute.attribute_paths import attribute_runs
from alignkit.attribute.mixture_records import CellSession, mixture_records
from alignkit.compare.predictions import Predictions
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.preprocess.stage_mixtures import MixedImage, all_mixtures
from tests.attribute.test_attribute import Projection
from tests.attribute.test_attribute_paths import HALF, TORCH
from tests.stacks import REFERENCE, changed, turned_photos

BATCH = 8


class Convolution:
    """A small network of torch, as a session."""

    def __init__(self, seed: int = 0) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            # no linear layer of three outputs: torch's sums depend on the place in a batch there
            self.model = nn.Sequential(
                nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(16, 3, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            ).eval()  # fmt: skip

    def effective(self) -> dict[str, str]:
        return {}

    def predict(self, batch: np.ndarray) -> tuple[np.ndarray]:
        with torch.inference_mode():
            return (self.model(torch.from_numpy(batch)).numpy(),)


class Centred(Projection):
    """A model whose logits of an image depend on the other images of its batch."""

    def logits(self, batch: np.ndarray) -> np.ndarray:
        logits = super().logits(batch)
        return logits - logits.mean(axis=0)


def tensors_of(path, samples):
    """Every image of a path, without any code of attribution."""
    made = [path.normalise(path.taps(samples.read(index)).last) for index in range(len(samples))]
    return np.stack(made)


def in_batches(session, tensors):
    parts = [tensors[start : start + BATCH] for start in range(0, len(tensors), BATCH)]
    return np.concatenate([session.predict(part)[0] for part in parts])


def in_full_batches(session, tensors):
    """The same with a filled last batch, as the size of a batch changes bits of torch."""
    filled = np.concatenate([tensors, tensors[: -len(tensors) % BATCH]])
    return in_batches(session, filled)[: len(tensors)]


def cell(session, path, samples):
    labels = np.asarray(samples.labels, np.int64)
    logits = in_batches(session, tensors_of(path, samples))
    return Predictions(samples.ids, labels, logits, samples.classes)


def with_cells(session, candidate, samples, *, reference=REFERENCE, whole=None, **options):
    """A session with the cells of both paths, for ``samples`` drawn from the ``whole``."""
    cells = [cell(session, path, whole or samples) for path in (reference, candidate)]
    return CellSession(lambda: session, Projection.decoder, {}, *cells, BATCH, **options)


def swapped(reference, candidate, stages):
    return replace(reference, **{stage: getattr(candidate, stage) for stage in stages})


def shapley_in_full(reference, candidate, stages, samples, sessions, value):
    """Shares from the textbook's sum over orders of swapping, every mixture predicted in full."""
    from itertools import permutations

    logits = {
        taken: [
            in_full_batches(each, tensors_of(swapped(reference, candidate, taken), samples))
            for each in sessions
        ]
        for taken in all_mixtures(stages)
    }
    of = {taken: value(logits[frozenset()], found) for taken, found in logits.items()}
    orders = [*permutations(stages)]
    return {
        stage: np.mean([
            of[frozenset(order[: order.index(stage) + 1])]
            - of[frozenset(order[: order.index(stage)])]
            for order in orders
        ])
        for stage in stages
    }  # fmt: skip


def churn(before, after):
    return np.mean(
        [(a.argmax(1) != b.argmax(1)).mean() for a, b in zip(before, after, strict=True)]
    )


def logit_distance(before, after):
    pairs = zip(before, after, strict=True)
    return np.mean([np.abs(b.astype(np.float64) - a).mean() for a, b in pairs])


@pytest.mark.parametrize("kind", [Projection, Convolution])
@pytest.mark.parametrize("stages", [("decode", "resize"), ("decode", "resize", "quantise")])
def test_shares_equal_those_of_every_mixture_of_every_image_in_full(kind, stages):
    samples, candidate = turned_photos(), changed(*stages)
    sessions = [kind(seed=0), kind(seed=1)]
    cells = [{frozenset(): with_cells(each, candidate, samples)} for each in sessions]
    found = attribute(REFERENCE, candidate, samples, cells, resamples=50)
    for metric, value in (("churn", churn), ("logits", logit_distance)):
        expected = shapley_in_full(REFERENCE, candidate, stages, samples, sessions, value)
        shares = {each.factor: each.effect.value for each in found[metric].shares}
        assert shares == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert all(each[frozenset()].exact for each in cells)


def test_rows_are_equal_with_and_without_stored_cells():
    samples, candidate = turned_photos(), changed("decode", "resize", "colour")

    def rows(wrap):
        sessions = {
            runtime: wrap(Projection(seed=seed)) for seed, runtime in enumerate((TORCH, HALF))
        }
        return attribute_runs(REFERENCE, candidate, samples, [sessions], resamples=50)

    assert rows(lambda each: with_cells(each, candidate, samples)) == rows(lambda each: each)


def test_the_paths_own_mixtures_are_not_predicted_and_nothing_is_opened_for_them():
    """The decoders differ in name alone, so that every mixture has the pixels of a path."""
    samples = turned_photos()
    reference = replace(REFERENCE, decode=OpenCVDecoder())
    candidate = replace(changed("resize"), decode=PillowDecoder())
    cells = with_cells(Projection(), candidate, samples, reference=reference, any_size=True)
    cells.open = None
    found = attribute(reference, candidate, samples, [{frozenset(): cells}], resamples=50)
    assert [each.factor for each in found["churn"].shares] == ["decode", "resize"]
    assert found["churn"].shares[0].effect.value == 0.0
    assert found["logits"].total.value > 0


def test_where_other_images_of_a_batch_change_bits_every_mixture_is_predicted_in_full():
    samples, candidate = turned_photos(), changed("resize")
    cells = with_cells(Centred(), candidate, samples)
    wanted = [frozenset(), frozenset({"crop"}), frozenset({"crop", "resize"})]
    rng = np.random.default_rng(0)
    images = [
        MixedImage(
            {taken: rng.normal(size=(3, 32, 32)).astype(np.float32) for taken in wanted},
            dict.fromkeys(wanted),
        )
        for _ in samples.ids
    ]
    found = mixture_records(cells, samples, images, wanted)
    assert not cells.exact
    for taken, logits in zip(wanted, found, strict=True):
        assert (
            logits == Centred().logits(np.stack([image.tensors[taken] for image in images]))
        ).all()


def test_a_candidate_without_a_cell_is_predicted():
    samples, candidate = turned_photos(), changed("resize", "colour")
    cells = with_cells(Projection(), candidate, samples)
    cells.candidate = None
    found = attribute(REFERENCE, candidate, samples, [{frozenset(): cells}], resamples=50)
    alone = attribute(REFERENCE, candidate, samples, [{frozenset(): Projection()}], resamples=50)
    assert found == alone
