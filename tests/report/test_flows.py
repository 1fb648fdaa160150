"""The confusion flow against a count by hand."""

from collections import Counter
from dataclasses import replace

import numpy as np

from alignkit.compare.predictions import Predictions
from alignkit.record.document import read_record
from alignkit.report.flipped_view import MOST_FLOWS, flows
from tests.report.records import CLASSES
from tests.report.run_folder import write_run
from tests.run_pair import artifact, write_small_run


def test_flows_are_images_now_called_another_class_summed_over_seeds(tmp_path):
    record = write_run(tmp_path)
    index, entry = next((i, e) for i, e in enumerate(record.matrix) if e.drift and e.churn)
    counted = Counter()
    for seed in entry.seeds:
        of_seed = [each for each in record.cells if each.seed == seed and each.row == entry.row]
        home = next(each for each in of_seed if each.aligned)
        away = next(each for each in of_seed if each.column == entry.column)
        was, now = (
            Predictions.from_parquet(tmp_path / each.predictions.path) for each in (home, away)
        )
        moved = (was.predicted != now.predicted) & (now.predicted != now.labels)
        for at in np.flatnonzero(moved):
            counted[now.classes[now.labels[at]], now.classes[now.predicted[at]]] += 1
    found = flows(record, tmp_path, index)
    assert len(found) == min(MOST_FLOWS, len(counted)) > 0
    numbers = [int(each.text.split()[0]) for each in found]
    assert numbers == [number for _, number in counted.most_common(MOST_FLOWS)]
    label, called = counted.most_common(1)[0][0]
    assert found[0].text.endswith(f"of class {label} are now called {called}")
    assert found[0].href.startswith(f"#/images?cell={index}&q=class%3A%22{label}%22")


def test_flows_include_images_called_a_class_that_the_data_has_not(tmp_path):
    def with_outside(cell, path):
        made = Predictions.from_parquet(tmp_path / cell.predictions.path)
        logits = np.concatenate([made.logits, np.zeros((len(made), 1), np.float32)], axis=1)
        if not cell.aligned:
            logits[:, -1] = 100
        replace(made, logits=logits, outside=("emu",)).to_parquet(path)

    write_small_run(tmp_path, flipped=[1])
    record = read_record(tmp_path)
    cells = tuple(
        each.model_copy(update={"predictions": artifact(
            tmp_path, f"outside/{number}.parquet", lambda path, cell=each: with_outside(cell, path)
        )})
        for number, each in enumerate(record.cells)
    )  # fmt: skip
    index = next(i for i, each in enumerate(record.matrix) if not each.aligned)
    found = flows(record.model_copy(update={"cells": cells}), tmp_path, index)
    assert {each.text for each in found} == {
        f"20 of class {name} are now called emu" for name in CLASSES
    }
    assert all(each.href.endswith("predicted%3A%22emu%22%20flip%3Ayes") for each in found)
