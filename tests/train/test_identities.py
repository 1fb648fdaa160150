"""Embeddings: the losses are their formulas, and a training sees no held-out identity."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pytorch_metric_learning.losses import ArcFaceLoss, CosFaceLoss
from sklearn.metrics import recall_score
from sklearn.neighbors import NearestNeighbors

from alignkit.engines.export import export_onnx
from alignkit.errors import TrainingError
from alignkit.experiment.train_option import IdentityLoss
from alignkit.models.architectures import build_embedder, load_model
from alignkit.rank import ALONE, Rank
from alignkit.train import read_log
from alignkit.train.fit import RankTask, _device
from alignkit.train.identity_head import IdentityHead, with_margin
from alignkit.train.nearest_identity import NOBODY, NearestIdentity, identity_report
from alignkit.train.objective import ComparedPairs, Step
from alignkit.train.training_draws import held_out_identities
from alignkit.train.training_images import TrainingImages
from alignkit.workspace import Workspace
from tests.training_case import SIDE, digits_case

CLASSES, DIMENSIONS = 5, 4
STEP = Step("0:0:0", 8)
ARCFACE = {"loss": "arcface", "embedding": 16, "epochs": 4, "learning_rate": 0.01}


def batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(STEP.images, DIMENSIONS, generator=draws, requires_grad=True)
    return embeddings, torch.randint(CLASSES, (STEP.images,), generator=draws)


def head_of(name: str, margin: float, scale: float = 64.0, **options) -> IdentityHead:
    return IdentityHead(IdentityLoss(name, margin, scale, DIMENSIONS, **options), CLASSES, 3, ALONE)


def test_a_margin_moves_the_cosine_as_its_formula_says():
    cosine = torch.tensor([math.cos(0.3), math.cos(1.2), math.cos(3.0)], dtype=torch.float64)
    assert with_margin(cosine, "softmax", 0.5).equal(cosine)
    assert with_margin(cosine, "cosface", 0.35).tolist() == pytest.approx((cosine - 0.35).tolist())
    # at 3.0 radians the angle and the margin would pass π, and the cosine would rise again
    by_hand = [math.cos(0.8), math.cos(1.7), math.cos(3.0) - 0.5 * math.sin(0.5)]
    assert with_margin(cosine, "arcface", 0.5).tolist() == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("name", "margin", "library"),
    [
        ("arcface", 0.5, ArcFaceLoss(CLASSES, DIMENSIONS, margin=math.degrees(0.5), scale=64)),
        ("cosface", 0.35, CosFaceLoss(CLASSES, DIMENSIONS, margin=0.35, scale=64)),
    ],
)
def test_loss_and_gradients_are_those_of_pytorch_metric_learning(name, margin, library):
    head = head_of(name, margin)
    library.W.data = head.weight.detach().T.clone()
    (mine, labels), (theirs, _) = batch(), batch()
    value, answers = head(mine, labels, STEP)
    value.backward()
    expected = library(theirs, labels)
    expected.backward()
    assert value.item() == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(mine.grad, theirs.grad, atol=1e-5)
    assert torch.allclose(head.weight.grad, library.W.grad.T, rtol=1e-4, atol=1e-3)
    assert answers.equal(library.get_logits(theirs).argmax(1))


def test_the_margin_loss_of_two_identities_is_the_one_by_hand():
    head = IdentityHead(IdentityLoss("arcface", 0.5, 4.0, 2), 2, 0, ALONE)
    head.weight.data = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    angle = 0.4
    embedding = 7 * torch.tensor([[math.cos(angle), math.sin(angle)]])
    value, answers = head(embedding, torch.tensor([0]), Step("", 1))
    own, other = 4 * math.cos(angle + 0.5), 4 * math.sin(angle)
    assert value.item() == pytest.approx(math.log(1 + math.exp(other - own)), rel=1e-5)
    assert answers.tolist() == [0]


def test_softmax_is_the_cross_entropy_of_a_linear_layer():
    head = head_of("softmax", 0.0, 1.0)
    embeddings, labels = batch()
    value, _ = head(embeddings, labels, STEP)
    expected = torch.nn.functional.cross_entropy(embeddings @ head.weight.T, labels)
    assert value.item() == pytest.approx(expected.item(), rel=1e-6)


def test_an_embedding_on_its_identity_has_a_finite_gradient():
    head = head_of("arcface", 0.5)
    embeddings = head.weight.detach().clone().requires_grad_()
    value, _ = head(embeddings, torch.arange(CLASSES), Step("", CLASSES))
    value.backward()
    assert embeddings.grad.isfinite().all()
    assert head.weight.grad.isfinite().all()


def test_circle_loss_is_the_formula_of_the_paper():
    """Sun et al. 2020, equations 6, 8 and 10, image by image."""
    margin, scale = 0.4, 80.0
    embeddings, labels = batch()
    value, answers = ComparedPairs(IdentityLoss("circle", margin, scale, DIMENSIONS), ALONE)(
        embeddings, labels, STEP
    )
    unit = torch.nn.functional.normalize(embeddings.detach().double())
    cosines, losses = (unit @ unit.T).numpy(), []
    for image, own in enumerate(labels.tolist()):
        same = [
            cosines[image, i]
            for i, label in enumerate(labels.tolist())
            if label == own and i != image
        ]
        other = [cosines[image, i] for i, label in enumerate(labels.tolist()) if label != own]
        if same:
            positive = sum(
                math.exp(-scale * max(1 + margin - s, 0) * (s - (1 - margin))) for s in same
            )
            negative = sum(math.exp(scale * max(s + margin, 0) * (s - margin)) for s in other)
            losses.append(math.log1p(positive * negative))
    assert value.item() == pytest.approx(np.mean([each for each in losses if each > 0]), rel=1e-4)
    assert answers is None


def test_a_sample_compares_with_the_batchs_identities_and_a_drawn_share_of_the_others():
    classes = 1000
    loss = IdentityLoss("arcface", 0.5, 64.0, DIMENSIONS, sample=0.1)
    head = IdentityHead(loss, classes, 3, ALONE)
    embeddings, labels = batch()
    value, answers = head(embeddings, labels, STEP)
    assert answers is None
    value.backward()
    compared = head.weight.grad.abs().sum(1).nonzero()[:, 0]
    assert {*labels.tolist()} <= {*compared.tolist()}
    assert 70 < len(compared) < 135
    whole = IdentityHead(replace(loss, sample=1.0), classes, 3, ALONE)
    whole.weight.data = head.weight.data[compared]
    places = torch.searchsorted(compared, labels)
    part = replace(loss, sample=1.0)
    among = IdentityHead(part, len(compared), 3, ALONE)
    among.weight.data = head.weight.data[compared]
    assert among(embeddings, places, STEP)[0].item() == pytest.approx(value.item(), rel=1e-6)
    # drawn by the step: the same again, and others in the next
    assert head(embeddings, labels, STEP)[0].item() == value.item()
    assert head(embeddings, labels, Step("0:0:1", 8))[0].item() != value.item()


def test_initial_identities_follow_from_the_seed_and_not_from_the_ranks_that_hold_them():
    loss = IdentityLoss("arcface", 0.5, 64.0, 2)
    one = IdentityHead(loss, 20_001, 3, ALONE).weight
    three = torch.cat([IdentityHead(loss, 20_001, 3, Rank(n, 3)).weight for n in range(3)])
    assert torch.equal(one, three)
    assert not torch.equal(one, IdentityHead(loss, 20_001, 4, ALONE).weight)
    assert one.std().item() == pytest.approx(0.01, rel=0.02)


def test_the_nearest_identity_is_scikit_learns_and_never_the_image_itself():
    draws = np.random.default_rng(0)
    vectors = draws.normal(size=(60, 8)).astype(np.float32)
    labels = np.concatenate([draws.integers(0, 12, 57), [40, 41, 42]])
    nearest = NearestIdentity.of(vectors, labels)
    search = NearestNeighbors(n_neighbors=2, metric="cosine").fit(vectors)
    found = labels[search.kneighbors(vectors)[1][:, 1]]
    queries = np.array([(labels == label).sum() > 1 for label in labels])
    # an identity with one image has no other image to be found
    assert not queries[57:].any()
    assert np.array_equal(nearest.labels, labels[queries])
    assert np.array_equal(nearest.found, found[queries])
    report = identity_report(nearest.labels, nearest.found)
    assert report["accuracy"] == np.mean(found[queries] == labels[queries])
    expected = recall_score(
        nearest.labels, nearest.found, labels=np.unique(nearest.labels), average="macro"
    )
    assert report["macro avg"]["recall"] == pytest.approx(expected)


def test_a_training_learns_identities_and_keeps_the_model_alone(tmp_path):
    case = digits_case(count=200).with_recipe(**ARCFACE, holdout=0.3)
    checkpoint = case.train(tmp_path)
    log = read_log(checkpoint)
    assert log["epochs"][-1]["loss"] < log["epochs"][0]["loss"]
    assert log["epochs"][-1]["held_out_accuracy"] > 0.5
    assert log["epochs"][-1]["held_out_loss"] is None
    assert (checkpoint.classes, checkpoint.embedding) == (0, 16)
    model = load_model(checkpoint)
    with torch.inference_mode():
        assert model(torch.zeros(3, 3, SIDE, SIDE)).shape == (3, 16)
    drawn = held_out_identities(0.3, seed=0, names=list("0123456789"))
    labels = np.array(case.samples.labels)
    assert log["held_out"] == np.isin(labels, drawn).sum()
    assert log["images"] == 200 - log["held_out"]
    identities = torch.load(checkpoint.weights.with_name("identities.pt"))
    assert identities["names"] == [str(each) for each in range(10) if each not in drawn]
    assert identities["weight"].shape == (7, 16)
    (report, *_) = json.loads(checkpoint.weights.with_name("classification.json").read_text())
    assert report["report"]["identities"] == 3


def test_vectors_of_a_batch_have_mean_zero_and_the_pretrained_part_is_the_architecture(tmp_path):
    source = digits_case().with_recipe(**{**ARCFACE, "epochs": 1}).train(tmp_path / "first")
    weights = {
        name.removeprefix("0."): each
        for name, each in torch.load(source.weights).items()
        if name.startswith("0.")
    }
    # the last layer of a classifier of other classes is left out
    file = tmp_path / "backbone.pt"
    torch.save({**weights, "18.weight": torch.zeros(3, 64), "18.bias": torch.zeros(3)}, file)
    case = digits_case().with_recipe(**{**ARCFACE, "epochs": 1}, pretrained=str(file))
    begun = read_log(case.train(tmp_path / "second"))["pretrained"]
    assert begun["initialised"] == ["18.weight", "18.bias"]
    model = build_embedder("small-cnn", 16, SIDE, SIDE)
    vectors = model(torch.randn(8, 3, SIDE, SIDE))
    assert vectors.mean(0).abs().max() < 1e-5  # sums in float32, in an order of the processor's
    assert [name for name, _ in model.named_parameters() if name.startswith("1.")] == []


def test_the_exported_model_gives_the_vector(tmp_path):
    checkpoint = digits_case().with_recipe(**{**ARCFACE, "epochs": 1}).train(tmp_path)
    batch = np.random.default_rng(0).random((2, 3, SIDE, SIDE), np.float32)
    import onnxruntime

    graph = export_onnx(checkpoint, Workspace(tmp_path / "exports"), batch)
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_outputs()] == ["embedding"]
    (exported,) = session.run(None, {"images": batch})
    with torch.inference_mode():
        vectors = load_model(checkpoint)(torch.from_numpy(batch)).numpy()
    assert exported.shape == (2, 16)
    assert np.allclose(exported, vectors, atol=1e-4)


@pytest.mark.parametrize("loss", ["softmax", "arcface", "cosface", "circle"])
def test_a_killed_training_of_embeddings_ends_with_the_same_bits(tmp_path, loss):
    class KilledError(Exception):
        pass

    def killed(epoch):
        if epoch.epoch == 2:
            raise KilledError

    case = digits_case().with_recipe(loss=loss, embedding=8, epochs=3, holdout=0.2, keep="best")
    whole = case.train(tmp_path / "whole")
    with pytest.raises(KilledError):
        case.train(tmp_path / "killed", progress=killed)
    resumed = case.train(tmp_path / "killed")
    assert read_log(resumed)["resumed_after"] == [2]
    names = ["weights.pt", *(["identities.pt"] if loss != "circle" else [])]
    for name in names:
        one, other = (
            torch.load(each.weights.with_name(name), weights_only=True) for each in (whole, resumed)
        )
        assert all(
            torch.equal(one[key], other[key]) if isinstance(one[key], torch.Tensor) else one[key] == other[key]
            for key in one
        )  # fmt: skip


def test_matched_trainings_begin_with_the_same_model_and_the_same_identities(tmp_path):
    reference, candidate = (
        read_log(digits_case(name=name, shift=shift).with_recipe(**{**ARCFACE, "epochs": 1}).train(tmp_path))
        for name, shift in (("one", 0.0), ("other", 0.4))
    )  # fmt: skip
    for name in ("initial_weights", "initial_identities", "order"):
        assert reference[name] == candidate[name], name
    assert reference["epochs"][0]["loss"] != candidate["epochs"][0]["loss"]


def test_a_loss_of_pairs_has_no_training_accuracy(tmp_path):
    case = digits_case().with_recipe(loss="circle", embedding=8, epochs=1)
    checkpoint = case.train(tmp_path)
    assert read_log(checkpoint)["epochs"][0]["accuracy"] is None
    assert checkpoint.weights.with_name("log.csv").read_text().splitlines()[1].split(",")[2] == ""


def test_identities_without_images_are_no_rows_of_the_classifier(tmp_path):
    case = digits_case()
    samples = replace(case.samples, classes=(*case.samples.classes, "of the evaluation"))
    case = replace(case, samples=samples).with_recipe(**{**ARCFACE, "epochs": 1})
    checkpoint = case.train(tmp_path)
    assert len(torch.load(checkpoint.weights.with_name("identities.pt"))["names"]) == 10


def test_too_few_identities_are_refused(tmp_path):
    one = digits_case()
    labels = (0,) * len(one.samples)
    case = replace(one, samples=replace(one.samples, labels=labels)).with_recipe(**ARCFACE)
    with pytest.raises(TrainingError, match="1 identities to train on"):
        case.train(tmp_path)
    with pytest.raises(TrainingError, match="raise it to two or more"):
        digits_case().with_recipe(**ARCFACE, holdout=0.1).train(tmp_path)


def test_fewer_identities_than_parts_of_the_classifier_are_refused():
    case = digits_case(count=64).with_recipe(**ARCFACE, shard=True)
    images = TrainingImages((), case.samples.labels, case.samples.ids)
    task = RankTask("x", 0, case.recipe, images, ("a", "b"), Path("none"))
    with pytest.raises(TrainingError, match="2 identities are fewer than the 3 processes"):
        _device(task, Rank(0, 3))


def test_a_vector_without_direction_is_nobodys_neighbour_and_finds_nobody():
    draws = np.random.default_rng(0)
    vectors = draws.normal(size=(40, 8)).astype(np.float32)
    labels = np.repeat(np.arange(10), 4)
    lost = np.array([3, 10, 25])
    broken = vectors.copy()
    broken[lost] = [[np.nan] * 8, [0] * 8, [np.inf] + [1] * 7]
    nearest = NearestIdentity.of(broken, labels)
    kept = np.setdiff1d(np.arange(40), lost)
    among = NearestIdentity.of(vectors[kept], labels[kept])
    assert nearest.without == 3
    assert (nearest.found[lost] == NOBODY).all()
    assert np.array_equal(nearest.found[kept], among.found)
    assert nearest.apart == pytest.approx((2.0 * 3 + among.apart * 37) / 40)
    assert identity_report(nearest.labels, nearest.found, 3)["without_direction"] == 3
    # nothing at all to find
    alone = NearestIdentity.of(np.full((4, 2), np.nan, np.float32), np.array([0, 0, 1, 1]))
    assert (alone.found.tolist(), alone.apart) == ([NOBODY] * 4, 2.0)
