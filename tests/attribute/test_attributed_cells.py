"""The runtimes and images that an attribution covers."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from alignkit.attribute.attribute_paths import attribute_stored
from alignkit.attribute.attributed_cells import AttributedCells, draw_by_class
from alignkit.backends import QUANTISED_GRAPH
from alignkit.backends.simulated import SimulatedBackend
from alignkit.compare.predictions import Predictions
from alignkit.outcome import Measured
from alignkit.plan.planned_attribution import PlannedAttribution, Scope
from alignkit.plan.work import Runtime
from alignkit.predict import Answer
from alignkit.record import BatchCheck
from alignkit.workspace import Finished, Workspace, content_key
from tests.attribute.test_attribute_paths import HALF, ORT, TORCH, model
from tests.stacks import REFERENCE, changed, samples_of, turned_photos

CANDIDATE = changed("resize")


def planned(*runtimes, **scope):
    samples = turned_photos()
    return PlannedAttribution(
        REFERENCE, CANDIDATE, samples.fingerprint, ("model",), runtimes, 200, scope=Scope(**scope)
    )


def predicted(runtime, path, changes, **effective):
    """A measured cell in which so many of ten images are of another class."""
    logits = np.eye(3, dtype=np.float32)[[1] * changes + [0] * (10 - changes)]
    ids = tuple(map(str, range(10)))
    answer = Answer(
        Predictions(ids, np.zeros(10, np.int64), logits, ("a", "b", "c")),
        effective, "", BatchCheck(reason="one image"),
    )  # fmt: skip
    place = SimpleNamespace(column=SimpleNamespace(preprocess=path.name))
    training = SimpleNamespace(key="model")
    evaluation = SimpleNamespace(
        training=training, runtime=runtime, place=place, kind="cells", key=f"{runtime}{path.name}"
    )
    return SimpleNamespace(evaluation=evaluation, ended=Measured(answer))


def cells(work, churn, **graphs):
    both = [(REFERENCE, dict.fromkeys(churn, 0)), (CANDIDATE, churn)]
    return AttributedCells.of(
        work,
        [
            predicted(runtime, path, changes, **({QUANTISED_GRAPH: "g"} if graphs.get(
                runtime.precision) else {}))
            for path, counts in both
            for runtime, changes in counts.items()
        ],
    )  # fmt: skip


def test_the_reference_runtime_and_the_worst_are_attributed():
    churn = {TORCH: 1, ORT: 1, HALF: 3}
    assert cells(planned(*churn), churn).runtimes() == (TORCH, HALF)
    assert cells(planned(*churn, every_runtime=True), churn).runtimes() == tuple(churn)
    equal = {TORCH: 1, ORT: 1, HALF: 0}
    assert cells(planned(*equal), equal).runtimes() == (TORCH,)


def test_without_the_candidates_cells_the_reference_runtime_alone_is_attributed():
    churn = {TORCH: 1, ORT: 1, HALF: 3}
    found = cells(planned(*churn), churn)
    own = {place: each for place, each in found.predicted.items() if place[2] == REFERENCE.name}
    assert replace(found, predicted=own).runtimes() == (TORCH,)
    every = replace(found, predicted=own, planned=planned(*churn, every_runtime=True))
    assert every.runtimes() == tuple(churn)


def test_beside_the_worst_int8_stands_the_runtime_that_executes_its_graph_unfused():
    unfused = Runtime("simulated", SimulatedBackend(), "int8", "onnxruntime 1")
    fused = replace(ORT, precision="int8")
    churn = {TORCH: 0, ORT: 1, unfused: 1, fused: 3}
    found = cells(planned(*churn), churn, int8=True)
    assert found.runtimes() == (TORCH, unfused, fused)


def test_images_are_drawn_evenly_from_all_classes_and_the_same_every_time():
    samples = turned_photos()
    drawn = draw_by_class(samples, 6)
    assert drawn == sorted(set(drawn)) == draw_by_class(samples, 6)
    assert np.bincount([samples.labels[index] for index in drawn]).tolist() == [2, 2, 2]
    assert draw_by_class(samples, 12) == [*range(12)]
    assert draw_by_class(replace(samples, labels=()), 5) != [*range(5)]


def stored(work, folder, images=None, samples=None, **options):
    from contextlib import contextmanager

    @contextmanager
    def opened():
        yield [{runtime: model()[runtime] for runtime in work.runtimes}]

    samples = samples or turned_photos()
    return attribute_stored(work, samples, opened, Workspace(folder), images=images, **options)


def test_a_row_says_how_many_images_it_was_drawn_from(tmp_path):
    rows = stored(planned(TORCH, images=6), tmp_path, 6)
    assert {(row.images, row.drawn_from) for row in rows} == {(6, 12)}
    drawn = turned_photos().take(draw_by_class(turned_photos(), 6))
    alone = attribute_stored_of(drawn, tmp_path / "alone")
    assert [row.shares for row in rows] == [row.shares for row in alone]
    whole = stored(planned(TORCH), tmp_path)
    assert {(row.images, row.drawn_from) for row in whole} == {(12, 0)}


def attribute_stored_of(samples, folder):
    from contextlib import contextmanager

    @contextmanager
    def opened():
        yield [{TORCH: model()[TORCH]}]

    return attribute_stored(planned(TORCH), samples, opened, Workspace(folder))


def test_a_budget_in_seconds_becomes_images_by_the_stored_times_of_the_cells(tmp_path, monkeypatch):
    workspace, parts = Workspace(tmp_path), {"cell": 1}
    with workspace.store("cells", parts, "a cell") as folder:
        (folder / "logits").write_bytes(b"")
        time.sleep(0.2)
    seconds = Finished.read(workspace.stored("cells", content_key(parts))).seconds
    candidate = replace(changed("resize", "colour"), name=CANDIDATE.name)
    # two of four mixtures are no cells; a cell has ten images
    budget = 20.5 * 2 * seconds / 10
    work = replace(planned(TORCH, seconds=budget), candidate=candidate)
    found = cells(work, {TORCH: 1})
    for each in found.predicted.values():
        each.evaluation.key = content_key(parts)
    assert found.images(100, workspace) == (20, False)
    assert found.images(15, workspace) == (15, False)
    narrow = replace(found, planned=replace(work, scope=Scope(seconds=budget / 100)))
    assert narrow.images(100, workspace) == (10, False)  # however small the budget is
    # inside decode, seven more of each of at most 15 images
    monkeypatch.setattr(PlannedAttribution, "predictions_inside_decode", 7)
    for limit, count in ((15, 30), (None, 18), (100, 18)):
        scope = Scope(seconds=(7 * 15 + 2 * 30.5) * seconds / 10, inside_decode=limit)
        some = replace(found, planned=replace(work, scope=scope))
        assert some.images(100, workspace) == (count, False)
    monkeypatch.undo()
    # resize alone has no mixture besides the two paths
    free = replace(found, planned=planned(TORCH, seconds=budget))
    assert free.images(100, workspace) == (100, False)
    # without the time of a cell nothing limits the images, and a remark says so
    assert found.images(100, Workspace(tmp_path / "empty")) == (100, True)


def test_images_are_drawn_from_those_that_both_paths_decoded(tmp_path):
    samples = samples_of([b"no image"] * 30 + [turned_photos().read(index) for index in (0, 1)])

    def rows(count, folder):
        return stored(planned(TORCH), tmp_path / folder, count, samples=samples, decoded=[30, 31])

    assert {(row.images, row.left_out, row.drawn_from) for row in rows(1, "a")} == {(1, 0, 2)}
    assert {(row.images, row.left_out, row.drawn_from) for row in rows(32, "b")} == {(2, 30, 0)}


@pytest.mark.parametrize("changes", [{"images": 5}, {"seconds": 2.0}, {"inside_decode": 0}])
def test_another_scope_has_another_key(changes):
    assert planned(TORCH).key != planned(TORCH, **changes).key
