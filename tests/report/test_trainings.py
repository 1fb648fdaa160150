"""What the page says of trainings: their curves, what scored them, and what one seed cannot tell."""

from pathlib import Path

from alignkit.record import Artifact
from alignkit.record.path_facts import PretrainedFacts
from alignkit.report.entries_view import failures
from alignkit.report.page import Beside, Details, Paragraph
from alignkit.report.terminal_view import summary
from alignkit.report.training_view import training_section, training_table
from alignkit.text.names import Names


def scored(training):
    """With held-out images, on which the third epoch did best."""
    epochs = tuple(
        epoch.model_copy(
            update={
                "held_out_loss": 1 / epoch.epoch,
                "held_out_accuracy": 0.5,
                "held_out_recall": 0.4 + 0.01 * epoch.epoch,
            }
        )
        for epoch in training.epochs
    )
    files = (Artifact(path="trainings/a-seed0-log.csv", sha256="ab" * 32),)
    changes = {"epochs": epochs, "held_out": 300, "kept_epoch": 3, "ranks": 2, "files": files}
    return training.model_copy(update=changes)


def with_trainings(record, trainings):
    return record.model_copy(update={"trainings": tuple(trainings)})


def first_path(record):
    """Of the first path what is said of its models, and the captions of its charts."""
    parts = training_section(record, Names(record.paths)).parts
    said = next(each for each in parts if isinstance(each, Paragraph))
    charts = [column for each in parts if isinstance(each, Details)
              for beside in each.parts if isinstance(beside, Beside) for column in beside.columns]  # fmt: skip
    return said.words[1], [each.caption for _, *plots in charts[:1] for each in plots]


def test_held_out_images_get_a_curve_columns_and_words(record):
    held = with_trainings(record, map(scored, record.trainings))
    words, captions = first_path(held)
    assert captions == [
        "Training loss by epoch",
        "Training accuracy in % by epoch",
        "Held-out macro recall in % by epoch",
    ]
    assert "2 processes, 300 more held out to score them; kept epoch 3 of 8 (seed 0)" in words
    table = training_table(held, Names(record.paths))
    assert table.caption.endswith("in trainings/ beside the record")
    assert [each.text for each in table.rows[2].cells[-3:]] == ["0.3333", "50.0\xa0%", "43.0\xa0%"]


def test_without_held_out_images_nothing_is_said_of_them(record):
    assert len(first_path(record)[1]) == 2
    assert len(training_table(record, Names(record.paths)).columns) == 7


def test_the_page_names_the_weights_that_trainings_began_with(record):
    facts = PretrainedFacts(identity="DEFAULT (a.pth)", sha256="ab" * 32, initialised=("fc.bias",))
    begun = (each.model_copy(update={"pretrained": facts}) for each in record.trainings)
    words, _ = first_path(with_trainings(record, begun))
    assert "begun with DEFAULT (a.pth), state_dict SHA-256 abababababab…" in words
    assert words.endswith("fc.bias initialised at random for these classes")


def test_one_seed_is_never_said_to_tell_of_others(record, rendered):
    single = with_trainings(record, (each for each in record.trainings if each.seed == 0))
    told = "One seed: the 95 % interval covers other images and ignores retraining."
    folder = rendered(single)
    for each in ((folder / "index.html").read_text(), (folder / "summary.md").read_text()):
        assert told in each
        assert "other seeds" not in each
    assert told in summary(single, Path("index.html"))
    assert told not in summary(record, Path("index.html"))


def test_a_reason_names_three_places_that_it_hit_and_counts_the_others(record):
    changes = {"state": "failed", "reason": "out of memory"}
    trainings = [
        record.trainings[0].model_copy(update={**changes, "preprocess": f"p{number}", "seed": seed})
        for number in range(4)
        for seed in (0, 1)
    ]
    cell = record.cells[0].model_copy(update={**changes, "traceback": "File, line 1"})
    (alert,) = failures(trainings, [cell], Names(()))
    said, trace = alert.parts
    assert said.words[1] == (
        " training p0, seed 0 and 1; training p1, seed 0 and 1; training p2, seed 0 and 1; 2 more. "
        "out of memory"
    )
    assert trace.parts[0].text == "File, line 1"


def test_a_model_without_a_log_was_not_trained_by_the_run(record):
    given = [each.model_copy(update={"epochs": ()}) for each in record.trainings[:1]]
    made = with_trainings(record, given)
    assert first_path(made) == (": 1\N{NO-BREAK SPACE}model, not trained by this run", [])
