"""Cells that an engine's workers predict: the files of a single process."""

from dataclasses import replace

import numpy as np
import pytest

from alignkit.errors import BackendError, EngineMissing
from alignkit.lots.engines import EngineOption
from alignkit.lots.local import LocalEngine
from alignkit.lots.remote import RemoteEngine
from alignkit.predict import cell_lots, kept_session
from tests.backends.model import trained_model
from tests.lots.test_lots import Threads
from tests.predict.test_predict import ONNX, TORCH, run
from tests.training_case import digits_case

FILES = ("predictions.parquet", "session.json")


@pytest.fixture(scope="module")
def model():
    return trained_model()


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    made = digits_case(first=900, count=130)
    file = tmp_path_factory.mktemp("pixels") / "pixels.npy"
    np.save(file, made.prepared.pixels)
    return replace(
        made, prepared=replace(made.prepared, map_pixels=lambda: np.load(file, mmap_mode="r"))
    )


@pytest.fixture(autouse=True)
def small_lots(monkeypatch):
    monkeypatch.setattr(cell_lots, "IMAGES_A_LOT", 40)


@pytest.fixture(autouse=True)
def own_sessions(monkeypatch):
    """Each test's driver and workers begin without a session."""
    held = {}
    monkeypatch.setattr(kept_session, "_KEPT", held)
    yield
    for _, stack in held.values():
        stack.close()


def stored(root):
    (folder,) = (root / ".cache" / "cells").iterdir()
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.mark.parametrize("runtime", [TORCH, ONNX], ids=["torch", "onnxruntime"])
def test_workers_give_the_files_of_one_process(case, model, tmp_path, runtime):
    run(case, model, tmp_path / "one", runtime)
    file = model.onnx if runtime is ONNX else None
    for name, engine in (
        ("threads", RemoteEngine(Threads(lose=2))),
        ("here", LocalEngine(1)),
    ):
        run(case, model, tmp_path / name, runtime, engine=engine, file=file)
        assert stored(tmp_path / name) == stored(tmp_path / "one")
        # parts are deleted with the end of the cell
        assert not [*(tmp_path / name).rglob("part.json.gz")]
    assert len(kept_session._KEPT) == 1


def test_lots_are_whole_batches(case):
    def places(batch_size):
        cell = cell_lots.CellImages.of(
            cell_lots.Tensors(
                case.prepared, case.prepared.decoded, case.training.preprocess, (3, 32, 32)
            ),
            None,
            batch_size,
        )
        return cell_lots.CellLots(None, cell, {}).places()

    assert places(25) == [range(50), range(50, 100), range(100, 130)]
    assert places(64) == [range(64), range(64, 128), range(128, 130)]
    assert places(1)[0] == range(40)


def test_a_killed_cell_goes_on_with_the_lots_that_are_stored(case, model, tmp_path):
    class Ends(LocalEngine):
        def parts(self, work, lots, advance):
            yield next(super().parts(work, lots, advance))
            raise BackendError("the driver is killed here")

    run(case, model, tmp_path / "one")
    with pytest.raises(BackendError, match="killed here"):
        run(case, model, tmp_path / "two", engine=Ends(1))
    assert len([*(tmp_path / "two").rglob("part.json.gz")]) == 1
    asked = []

    class Counts(LocalEngine):
        def parts(self, work, lots, advance):
            for lot in (listed := [*lots]):
                asked.append(lot.begin)
            return super().parts(work, iter(listed), advance)

    run(case, model, tmp_path / "two", engine=Counts(1))
    assert asked == [50, 100]
    assert stored(tmp_path / "two") == stored(tmp_path / "one")


def test_a_worker_with_other_weights_or_another_processor_is_refused(
    case, model, tmp_path, monkeypatch
):
    made = kept_session.TravellingSession.of(TORCH, model.checkpoint, None)
    weights = tmp_path / "other.pt"
    weights.write_bytes(model.checkpoint.weights.read_bytes() + b" ")
    other = replace(made, checkpoint=replace(model.checkpoint, weights=weights))
    with pytest.raises(EngineMissing, match="a worker has another weights"):
        other.opened()
    absent = replace(made, checkpoint=replace(model.checkpoint, weights=tmp_path / "absent.pt"))
    with pytest.raises(EngineMissing, match=r"does not see .* give --reports"):
        absent.opened()
    monkeypatch.setattr("alignkit.plan.planned_runtime.vector_extensions", lambda: "avx")
    with pytest.raises(EngineMissing, match="another processor"):
        made.opened()


@pytest.mark.slow
def test_dask_gives_the_files_of_one_process(case, model, tmp_path):
    pytest.importorskip("distributed")
    run(case, model, tmp_path / "one")
    with EngineOption("dask", workers=2).open() as engine:
        run(case, model, tmp_path / "two", engine=engine)
    assert stored(tmp_path / "two") == stored(tmp_path / "one")
