"""Losses of embeddings under `train:`: their defaults, what is refused, and their part of the keys."""

from dataclasses import replace

import pytest

from alignkit.cli.plan_command import _identities
from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.experiment.train_option import IdentityLoss, Recipe
from alignkit.plan import make_plan
from alignkit.plan.outlooks import IdentityMemory, Memory, memory

YAML = """
name: small
data: {{name: digits-on-photos, train: 40, eval: 20}}
task: {task}
preprocess:
  a: {{decode: pillow, resize: {{name: pillow, size: 32}}}}
  b: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
train: {{{train}}}
"""
ARCFACE = "loss: arcface, embedding: 16"


def experiment(tmp_path, train, task="embedding", *overrides):
    file = tmp_path / "task.yaml"
    file.write_text(YAML.format(task=task, train=train))
    return load_experiment(file, overrides)


def plan(tmp_path, train, ranks=1):
    task = "embedding" if "embedding" in train else "classification"
    return make_plan(experiment(tmp_path, train, task), ranks=ranks)


def test_a_margin_and_a_scale_are_those_of_the_papers_unless_they_are_given():
    assert Recipe().identities is None
    assert Recipe(embedding=8).identities == IdentityLoss("softmax", 0.0, 1.0, 8)
    assert Recipe(loss="arcface", embedding=8).identities == IdentityLoss("arcface", 0.5, 64.0, 8)
    assert Recipe(loss="cosface", embedding=8).identities == IdentityLoss("cosface", 0.35, 64.0, 8)
    assert Recipe(loss="circle", embedding=8).identities == IdentityLoss("circle", 0.4, 80.0, 8)
    given = Recipe(loss="arcface", embedding=8, margin=0.3, scale=30, sample=0.1, shard=True)
    assert given.identities == IdentityLoss("arcface", 0.3, 30.0, 8, 0.1, shard=True)


@pytest.mark.parametrize(
    ("train", "task", "message"),
    [
        ("loss: arcface", "embedding", r"train.loss: arcface trains embeddings; set train.embedding"),
        (f"{ARCFACE}, mixup: 0.2", "embedding", r"train.mixup: .*one identity; set 0"),
        (f"{ARCFACE}, cutmix: 0.2", "embedding", r"train.cutmix: .*one identity"),
        (f"{ARCFACE}, label_smoothing: 0.1", "embedding", r"train.label_smoothing: .*one identity"),
        (f"{ARCFACE}, margin: 2", "embedding", r"train.margin: of arcface is less than 1.571, not 2"),
        ("loss: cosface, embedding: 8, margin: 1", "embedding", r"train.margin: of cosface is less"),
        ("embedding: 8, margin: 0.5", "embedding", r"train.margin: softmax has no margin"),
        ("embedding: 8, scale: 2", "embedding", r"train.scale: softmax has no scale"),
        ("loss: circle, embedding: 8, sample: 0.1", "embedding", r"train.sample: .*no classifier"),
        ("loss: circle, embedding: 8, shard: true", "embedding", r"train.shard: .*no classifier"),
        ("sample: 0.5", "classification", r"train.sample: is of the classifier beside an embedding"),
        ("shard: true", "classification", r"train.shard: is of the classifier beside an embedding"),
        (f"{ARCFACE}, shard: true, amp: fp16", "embedding", r"train.shard: needs amp: bf16 or off"),
        (f"{ARCFACE}, sample: 0", "embedding", r"train.sample: .*greater than 0"),
        ("loss: arcfase", "embedding", r"train.loss: .*'softmax', 'arcface', 'cosface' or 'circle'"),
        (ARCFACE, "classification", r"train.embedding: gives a vector, .*write 'task: embedding'"),
        ("epochs: 1", "embedding", r"train.embedding: is missing: the task reads vectors; set"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused_at_its_key(tmp_path, train, task, message):
    with pytest.raises(ConfigError, match=message):
        experiment(tmp_path, train, task)


def key(tmp_path, train, ranks=1):
    return plan(tmp_path, train, ranks).trainings[0].key


def test_a_classifier_keeps_its_parts_and_its_key(tmp_path):
    parts = plan(tmp_path, "epochs: 2").trainings[0].parts
    assert "embedding" not in parts
    # the options of embeddings are none of a classifier's recipe
    assert not {"loss", "margin", "scale", "embedding", "sample", "shard"} & {*parts["recipe"]}
    assert key(tmp_path, "epochs: 2, loss: softmax, sample: 1.0, shard: false") == key(
        tmp_path, "epochs: 2"
    )


@pytest.mark.parametrize(
    "other",
    [
        "loss: cosface, embedding: 16",
        "loss: arcface, embedding: 17",
        f"{ARCFACE}, margin: 0.4",
        f"{ARCFACE}, scale: 32",
        f"{ARCFACE}, sample: 0.5",
    ],
)
def test_each_option_of_a_loss_changes_the_key(tmp_path, other):
    assert key(tmp_path, other) != key(tmp_path, ARCFACE)


def test_a_default_written_out_changes_no_key_and_shards_only_that_of_several_ranks(tmp_path):
    assert key(tmp_path, f"{ARCFACE}, margin: 0.5, scale: 64") == key(tmp_path, ARCFACE)
    sharded = f"{ARCFACE}, shard: true"
    assert key(tmp_path, sharded) == key(tmp_path, ARCFACE)
    assert key(tmp_path, sharded, ranks=2) != key(tmp_path, ARCFACE, ranks=2)


def test_the_library_of_a_loss_of_pairs_is_in_its_key(tmp_path):
    parts = plan(tmp_path, "loss: circle, embedding: 8").trainings[0].parts
    assert parts["embedding"]["library"].startswith("pytorch-metric-learning ")


def test_the_plan_counts_the_memory_of_the_classifier_and_of_each_ranks_part(tmp_path):
    adamw = memory(plan(tmp_path, ARCFACE)).identities
    assert adamw == IdentityMemory(10, 16, copies=4)
    assert (adamw.weights, adamw.training) == (10 * 16 * 4, 10 * 16 * 4 * 4)
    sgd = f"{ARCFACE}, shard: true, optimiser: sgd, holdout: 0.3"
    part = memory(plan(tmp_path, sgd, ranks=2)).identities
    assert part == IdentityMemory(7, 16, copies=3, shards=2)
    assert part.weights == 4 * 16 * 4
    assert memory(plan(tmp_path, f"{sgd}, momentum: 0.0")).identities.copies == 2
    for train in ("loss: circle, embedding: 8", "epochs: 1"):
        assert memory(plan(tmp_path, train)).identities is None


def test_the_plan_prints_two_gigabytes_for_a_million_identities():
    million = Memory(0, 0, 0, None, IdentityMemory(1_000_000, 512, copies=3))
    assert _identities(million) == [
        "classifier 1,000,000 identities of 512: 2,048.0 MB, 6,144.0 MB with gradient and moments"
    ]
    part = Memory(0, 0, 0, 10**9, IdentityMemory(1_000_000, 512, copies=3, shards=8))
    assert "256.0 MB on each of 8 processes, 768.0 MB" in _identities(part)[0]
    assert part.fits
    assert not replace(part, identities=replace(part.identities, shards=4)).fits
