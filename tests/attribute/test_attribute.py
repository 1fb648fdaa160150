"""Planted truth: what was changed is blamed, and nothing else."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from alignkit.attribute import attribute
from alignkit.attribute.shares import attributed
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.errors import NothingCompared
from alignkit.predict.decoder import AnswerDecoder
from alignkit.preprocess import Crop, Resize
from alignkit.record import AttributionFacts
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.task_facts import CLASSIFICATION
from alignkit.tasks import ClassMap
from alignkit.tasks.classification import Classification
from tests.stacks import CHANGED, REFERENCE, changed, opencv, samples_of, turned_photos

ATTRIBUTED = [*attributed(CLASSIFICATION)]


class Projection:
    """A fixed classifier that is sensitive to every pixel."""

    decoder = AnswerDecoder(Classification(), ClassMap(("a", "b", "c")))

    def __init__(self, scale: float = 1.0, seed: int = 0) -> None:
        self.weights = np.random.default_rng(seed).normal(size=(3 * 32 * 32, 3))
        self.scale = np.float32(scale)

    def effective(self) -> dict[str, str]:
        return {}

    def predict(self, batch: np.ndarray) -> tuple[np.ndarray]:
        return (self.logits(batch),)

    def logits(self, batch: np.ndarray) -> np.ndarray:
        flat = batch.reshape(len(batch), -1) - batch.mean(axis=(1, 2, 3))[:, None]
        return (flat @ self.weights * self.scale).astype(np.float32)


ONE_RUNTIME = {frozenset(): Projection()}


def share_of(attribution: AttributionFacts) -> dict[str, float]:
    return {share.factor: share.effect.value for share in attribution.shares}


@pytest.mark.parametrize("stage", CHANGED)
def test_the_one_stage_that_changes_pixels_gets_all_the_blame(stage):
    """The other decoder and the crop differ too, in name and not in pixels."""
    candidate = changed(stage)
    if stage != "decode":
        candidate = replace(candidate, decode=OpenCVDecoder())
    reference = replace(REFERENCE, resize=Resize(REFERENCE.resize.resizer, (32, 32)))
    if stage == "resize":
        candidate = replace(candidate, resize=replace(CHANGED["resize"], size=(32, 32)))
    else:
        candidate = replace(candidate, resize=reference.resize)
    candidate = replace(candidate, crop=Crop())
    found = attribute(reference, candidate, turned_photos(), [ONE_RUNTIME], resamples=200)
    for metric in ATTRIBUTED:
        attribution = found[metric]
        shares = share_of(attribution)
        assert set(shares) >= {stage, "crop"}
        assert shares.pop(stage) == pytest.approx(attribution.total.value, abs=1e-12)
        assert set(shares.values()) == {0.0}
        assert attribution.interaction.value == pytest.approx(0.0, abs=1e-12)
    assert found["pixels"].total.value > 0.05
    assert found["logits"].total.value > 0


@pytest.mark.parametrize(
    "stages", [("decode", "resize", "normalise"), ("orient", "quantise", "colour")], ids="+".join
)
def test_without_a_stage_remains_what_a_path_without_it_changes(stages):
    """The mixture is not trusted: the path that keeps the reference's stage is attributed too."""
    photos = turned_photos()
    found = attribute(REFERENCE, changed(*stages), photos, [ONE_RUNTIME], resamples=20)
    for metric in ("pixels", "logits", "churn"):
        whole = found[metric]
        for share in whole.shares:
            others = [stage for stage in stages if stage != share.factor]
            kept = attribute(REFERENCE, changed(*others), photos, [ONE_RUNTIME], resamples=20)
            left = whole.total.value - share.last.value
            assert left == pytest.approx(kept[metric].total.value, abs=1e-9)


@pytest.mark.parametrize("stages", [*combinations(CHANGED, 2)], ids="+".join)
def test_two_planted_stages_are_both_named(stages):
    found = attribute(REFERENCE, changed(*stages), turned_photos(), resamples=20)
    shares = share_of(found["pixels"])
    assert tuple(shares) == stages
    assert min(shares.values()) > 0.05
    assert sum(shares.values()) == pytest.approx(found["pixels"].total.value, abs=1e-12)


def test_a_crop_that_begins_a_pixel_later_gets_all_the_blame():
    odd = replace(REFERENCE, resize=replace(REFERENCE.resize, size=(41, 41)))
    down, up = (replace(odd, crop=Crop((32, 32), half)) for half in ("down", "up"))
    pixels = attribute(down, up, turned_photos(), resamples=20)["pixels"]
    assert share_of(pixels) == {"crop": pixels.total.value}
    assert pixels.total.value > 0.05


@pytest.mark.parametrize("stages", [("decode", "resize", "quantise", "colour"), tuple(CHANGED)])
def test_shares_add_up_to_the_whole(stages):
    found = attribute(REFERENCE, changed(*stages), turned_photos(), [ONE_RUNTIME], resamples=200)
    for attribution in found.values():
        whole = sum(share_of(attribution).values())
        if len(stages) > 4:
            assert attribution.method == "one-at-a-time"
            whole += attribution.interaction.value
        assert whole == pytest.approx(attribution.total.value, abs=1e-12)


def test_the_total_is_what_the_two_paths_give_by_themselves():
    samples, candidate = turned_photos(), changed("resize", "quantise")
    found = attribute(REFERENCE, candidate, samples, [ONE_RUNTIME], resamples=200)
    tensors = [
        np.stack([path.normalise(path.taps(samples.read(i)).last) for i in range(len(samples))])
        for path in (REFERENCE, candidate)
    ]
    levels = np.asarray(REFERENCE.normalise.std)[:, None, None] * 255
    expected = np.mean(np.abs(tensors[1] - tensors[0]) * levels)
    assert found["pixels"].total.value == pytest.approx(expected, rel=1e-5)
    logits = [Projection().logits(batch) for batch in tensors]
    changed_class = logits[0].argmax(1) != logits[1].argmax(1)
    assert found["churn"].total.value == pytest.approx(changed_class.mean())
    right = [each.argmax(1) == np.asarray(samples.labels) for each in logits]
    expected_top1 = right[1].mean() - right[0].mean()
    assert found["top1"].total.value == pytest.approx(expected_top1)


def test_macro_metrics_agree_with_scikit_learn():
    from sklearn.metrics import precision_score, recall_score

    samples, candidate = turned_photos(), changed("colour")
    found = attribute(REFERENCE, candidate, samples, [ONE_RUNTIME], resamples=200)
    for name, score in (("recall", recall_score), ("precision", precision_score)):
        values = []
        for path in (REFERENCE, candidate):
            tensors = [path.normalise(path.taps(samples.read(i)).last) for i in range(12)]
            predicted = Projection().logits(np.stack(tensors)).argmax(1)
            values.append(
                score(samples.labels, predicted, average="macro", labels=[0, 1, 2],
                      zero_division=np.nan)
            )  # fmt: skip
        total = found[f"{name}.macro"].total.value
        assert total == pytest.approx(values[1] - values[0])


def test_a_runtime_that_changes_logits_is_a_factor_and_leaves_pixels_alone():
    model = {frozenset(): Projection(), frozenset({"precision"}): Projection(seed=1)}
    found = attribute(REFERENCE, changed("resize"), turned_photos(), [model], resamples=200)
    assert share_of(found["pixels"])["precision"] == 0.0
    assert share_of(found["logits"])["precision"] > 0
    assert tuple(share_of(found["churn"])) == ("resize", "precision")


def test_equal_paths_in_two_runtimes_blame_the_runtime():
    model = {frozenset(): Projection(), frozenset({"precision"}): Projection(1.5)}
    other = replace(REFERENCE, name="other")
    found = attribute(REFERENCE, other, turned_photos(), [model], resamples=200)
    assert share_of(found["pixels"]) == {"precision": 0.0}
    assert share_of(found["churn"]) == {"precision": 0.0}
    assert share_of(found["logits"])["precision"] > 0


def test_several_seeds_are_averaged():
    models = [{frozenset(): Projection(seed=seed)} for seed in range(3)]
    candidate = changed("colour")
    each = [attribute(REFERENCE, candidate, turned_photos(), [m], resamples=200) for m in models]
    joined = attribute(REFERENCE, candidate, turned_photos(), models, resamples=200)
    for metric in ATTRIBUTED:
        mean = np.mean([one[metric].total.value for one in each])
        assert joined[metric].total.value == pytest.approx(mean)


def test_intervals_hold_the_share_and_copies_of_a_file_do_not_narrow_them():
    samples, candidate = turned_photos(6), changed("resize", "decode")
    few = attribute(REFERENCE, candidate, samples, resamples=500)
    more = attribute(REFERENCE, candidate, samples.take([*range(6)] * 4), resamples=500)
    widths = []
    for found in (few, more):
        effect = found["pixels"].shares[1].effect
        assert effect.low <= effect.value <= effect.high
        widths.append(effect.high - effect.low)
    assert widths[1] == pytest.approx(widths[0])


def test_paths_that_do_not_differ_say_so_and_share_nothing():
    found = attribute(REFERENCE, replace(REFERENCE, name="other"), turned_photos())
    assert found["pixels"].shares == ()
    for attribution in found.values():
        assert attribution.shares == ()
        assert attribution.total.value == 0.0
        assert attribution.reason == "the paths do not differ in any stage"


def test_without_a_model_only_pixels_are_attributed():
    found = attribute(REFERENCE, changed("resize"), turned_photos(), resamples=200)
    assert found["pixels"].reason == ""
    assert found["churn"].total.value is None
    assert found["churn"].reason == "no model was given"


def test_without_labels_recall_has_a_reason_and_churn_a_value():
    samples = replace(turned_photos(), labels=(), classes=())
    model = Projection()
    model.decoder = AnswerDecoder(Classification(), ClassMap((), ("a", "b", "c")))
    found = attribute(REFERENCE, changed("colour"), samples, [{frozenset(): model}], resamples=200)
    assert found["recall.macro"].reason == "the images have no labels"
    assert found["churn"].total.value is not None


def test_an_infinite_logit_leaves_logits_without_a_value():
    class Infinite(Projection):
        def logits(self, batch):
            logits = super().logits(batch)
            logits[0, 0] = np.inf
            return logits

    model = {frozenset(): Infinite()}
    found = attribute(REFERENCE, changed("colour"), turned_photos(), [model], resamples=200)
    assert found["logits"].total.value is None
    assert found["churn"].total.value is not None


def test_stages_that_cannot_be_swapped_apart_are_named_and_the_rest_goes_on():
    cropped = opencv(
        name="cropped",
        resize=Resize(OpenCVResizer(), (40, 40), "shorter"),
        crop=Crop((32, 32)),
        colour=CHANGED["colour"],
    )
    found = attribute(opencv(), cropped, turned_photos(), resamples=200)
    assert set(share_of(found["pixels"])) == {"resize+crop", "colour"}
    assert "swapped together" in found["pixels"].notes[0]


def test_images_only_one_path_decodes_are_left_out():
    files = [turned_photos().read(index) for index in range(6)]
    gif = b"GIF89a\x01\x00\x01\x00\x80\x01\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00"
    samples = samples_of([*files, gif + b"\x01\x00\x00\x02\x02D\x01\x00;"])
    candidate = replace(opencv(), name="turbo", decode=CHANGED["decode"])
    found = attribute(opencv(), candidate, samples, resamples=200)
    assert (found["pixels"].images, found["pixels"].left_out) == (6, 1)
    with pytest.raises(NothingCompared, match="not a JPEG"):
        attribute(opencv(), candidate, samples.take([6]))
