"""The loader for your own loop: ordered, seeded, per image, and matched."""

import os
import signal
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

from alignkit.datasets.unlabelled_images import Images
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.errors import ConfigError, DataError, WorkerError
from alignkit.loader import EncodedImages, MixedLoader, collate_encoded
from alignkit.loader import loader_batch as module
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.samples import Samples
from tests.photos import encoded, photo

CPU = Preprocess("cpu", OpenCVDecoder(), Resize(OpenCVResizer(), (32, 32)))
GPU = Preprocess("gpu", OpenCVDecoder(), Resize(TorchResizer(align_corners=True), (32, 32)))
IMAGES = [encoded(photo("china", 48, 40 + number), quality=90) for number in range(30)]


def batches(size: int = 8):
    return [
        (IMAGES[start : start + size], list(range(start, min(start + size, 30))))
        for start in range(0, 30, size)
    ]


def taken(loader: MixedLoader) -> dict[int, str]:
    return {
        int(label): path
        for batch in loader
        for label, path in zip(batch.labels, batch.paths, strict=True)
    }


def test_every_image_comes_in_order_as_its_own_path_prepares_it():
    seen = 0
    for batch in MixedLoader(batches(), CPU, GPU):
        images, labels = batch
        for image, label, path in zip(images, labels, batch.paths, strict=True):
            assert int(label) == seen
            own = CPU if path == "cpu" else GPU
            assert np.array_equal(image.numpy(), own.normalise(own.taps(IMAGES[seen]).last))
            seen += 1
    assert seen == 30


def test_a_batch_that_the_loop_keeps_is_not_written_again():
    loader = MixedLoader(batches(4), CPU, GPU, ahead=1, threads=2)
    # of some batches the whole tensor is kept, of some a part, and the memory of the rest is reused
    kept = [batch.images[2:] if place % 3 else batch.images for place, batch in enumerate(loader)]
    loader.set_epoch(0)
    for place, (batch, images) in enumerate(zip(loader, kept, strict=True)):
        assert torch.equal(images, batch.images[2:] if place % 3 else batch.images)


def test_memory_is_used_again_once_nothing_refers_to_it():
    reused = module.ReusedMemory()
    first = reused.empty((2, 3, 4, 4))
    place, part = first.ctypes.data, torch.from_numpy(first)[1]
    del first
    assert reused.empty((2, 3, 4, 4)).ctypes.data != place
    del part
    taken = [reused.empty((2, 3, 4, 4)) for _ in range(2)]
    assert place in [each.ctypes.data for each in taken]
    assert reused.empty((1, 3, 4, 4)).shape == (1, 3, 4, 4)


def test_draws_do_not_depend_on_threads_queues_or_batch_size():
    wanted = taken(MixedLoader(batches(), CPU, GPU, threads=1, ahead=1))
    assert taken(MixedLoader(batches(), CPU, GPU, threads=4, ahead=3)) == wanted
    assert taken(MixedLoader(batches(5), CPU, GPU)) == wanted
    assert {*wanted.values()} == {"cpu", "gpu"}


def test_draws_change_with_the_epoch_and_come_back_with_it():
    loader = MixedLoader(batches(), CPU, GPU)
    first, second = taken(loader), taken(loader)
    assert first != second
    loader.set_epoch(0)
    loader.reset()
    assert taken(loader) == first
    assert taken(MixedLoader(batches(), CPU, GPU, seed=1)) != first


def samples() -> Samples:
    return Samples(
        ids=tuple(f"photo-{number}" for number in range(30)),
        labels=tuple(range(30)),
        classes=tuple(map(str, range(30))),
        read=IMAGES.__getitem__,
        fingerprint="",
    )


def loaded(workers: int = 0, ranks: int = 1) -> list[MixedLoader]:
    """Each rank's loader over shuffled samples."""

    def one(rank: int) -> MixedLoader:
        data = EncodedImages(samples())
        inner = DataLoader(
            data, batch_size=8, collate_fn=collate_encoded, num_workers=workers,
            sampler=DistributedSampler(data, num_replicas=ranks, rank=rank),
            multiprocessing_context="fork" if workers else None,
        )  # fmt: skip
        return MixedLoader(inner, CPU, GPU)

    return [one(rank) for rank in range(ranks)]


def drawn_by_id(loaders: list[MixedLoader], epoch: int) -> dict[str, str]:
    found = {}
    for loader in loaders:
        loader.set_epoch(epoch)
        for batch in loader:
            found |= zip(batch.ids, batch.paths, strict=True)
    return found


@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")
def test_an_images_path_is_the_same_for_1_and_4_workers_1_and_2_ranks_and_after_a_resume():
    wanted = drawn_by_id(loaded(), epoch=2)
    assert len(wanted) == 30
    assert drawn_by_id(loaded(workers=1), epoch=2) == wanted
    assert drawn_by_id(loaded(workers=4), epoch=2) == wanted
    assert drawn_by_id(loaded(ranks=2), epoch=2) == wanted
    resumed = loaded()
    drawn_by_id(resumed, epoch=1)
    assert {each: path for batch in resumed[0] for each, path in
            zip(batch.ids, batch.paths, strict=True)} == wanted  # fmt: skip


def test_a_distributed_sampler_is_told_the_epoch():
    # defect 5: without set_epoch every epoch has the order of the first
    (loader,) = loaded()
    orders = [[each for batch in loader for each in batch.ids] for _ in range(2)]
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
    loader.set_epoch(0)
    assert [each for batch in loader for each in batch.ids] == orders[0]


class KillsItsReader:
    """30 encoded images; who reads the 21st is killed, as the system does when memory runs out."""

    def __init__(self, once: Path) -> None:
        self.once = once

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        if index == 20 and not self.once.exists():
            self.once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return IMAGES[index], index


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_worker_is_told_with_what_to_do_and_the_same_epoch_begins_again(tmp_path, workers):
    inner = DataLoader(
        KillsItsReader(tmp_path / "once"), batch_size=4, num_workers=workers, timeout=300,
        multiprocessing_context="fork",
    )  # fmt: skip
    loader = MixedLoader(inner, CPU, GPU)
    with pytest.raises(WorkerError, match=r"DataLoader worker \(pid.*smaller num_workers"):
        list(loader)
    assert loader.epoch == 0
    assert taken(loader) == taken(MixedLoader(batches(), CPU, GPU))


def test_a_worker_that_ends_while_it_hands_over_a_batch_is_named_too(monkeypatch):
    monkeypatch.setattr(module, "_REPORT_SECONDS", 0.01)

    def failing():
        yield batches()[0]
        ours, workers = Pipe()
        workers.close()
        ours.recv()

    with pytest.raises(WorkerError, match=r"DataLoader worker \(pid unknown\) ended.*smaller"):
        list(MixedLoader(failing(), CPU, GPU))


def test_the_death_that_follows_a_broken_connection_is_the_one_reported():
    def handler(*_):
        raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")

    def failing():
        yield batches()[0]
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        ours, workers = Pipe()
        workers.close()
        ours.recv()

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(WorkerError, match=r"\(pid 7\) is killed by signal: Killed\. Most"):
            list(MixedLoader(failing(), CPU, GPU))
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("error", [EOFError("an end"), FileNotFoundError("a.jpg"), KeyError("a")])
def test_an_error_of_the_data_set_stays_as_it_is(error):
    def failing():
        yield batches()[0]
        raise error

    with pytest.raises(type(error), match=str(error)):
        list(MixedLoader(failing(), CPU, GPU))


def test_another_runtime_error_is_not_taken_for_a_killed_worker():
    def failing():
        yield batches()[0]
        raise RuntimeError("out of paper")

    with pytest.raises(RuntimeError, match="out of paper"):
        list(MixedLoader(failing(), CPU, GPU))


def test_per_batch_every_image_of_a_batch_takes_one_path():
    drawn = [batch.paths for batch in MixedLoader(batches(2), CPU, GPU, per="batch")]
    assert all(len(set(paths)) == 1 for paths in drawn)
    assert len({paths[0] for paths in drawn}) == 2


@pytest.mark.parametrize(("share", "path"), [(0.0, "gpu"), (1.0, "cpu")])
def test_a_share_of_none_or_all_is_exact(share, path):
    assert {*taken(MixedLoader(batches(), CPU, GPU, share=share)).values()} == {path}


def test_a_broken_image_is_named_and_logged_and_its_batch_is_kept(caplog):
    broken = [b"no image", *IMAGES[1:4]]
    (batch,) = MixedLoader([(broken, [0, 1, 2, 3])], CPU, GPU)
    assert batch.labels.tolist() == [1, 2, 3]
    assert batch.images.shape == (3, 3, 32, 32)
    (failed,) = batch.failed
    assert (failed.position, failed.outcome, failed.id) == (0, "failed", "image-0")
    assert "batch 1 is without image-0" in caplog.text


@pytest.mark.parametrize("collate", [collate_encoded, None])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_that_is_gone_is_one_image_that_failed(tmp_path, caplog, collate, workers):
    for number, image in enumerate(IMAGES[:6]):
        (tmp_path / f"{number}.jpg").write_bytes(image)
    kept = replace(Images(tmp_path).evaluation(), labels=tuple(range(6)))
    (tmp_path / "0.jpg").unlink()
    inner = DataLoader(
        EncodedImages(kept), batch_size=3, collate_fn=collate, num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )  # fmt: skip
    first, second = MixedLoader(inner, CPU, GPU)
    assert (first.labels.tolist(), second.labels.tolist()) == ([1, 2], [3, 4, 5])
    ((position, _, outcome, reason, name),) = first.failed
    assert (position, outcome, name) == (0, "failed", "0.jpg")
    assert reason.startswith(f"cannot read {tmp_path}/0.jpg: changed after it was listed: No such")
    assert reason in caplog.text


def test_a_batch_of_broken_images_alone_is_empty_and_not_missing():
    (batch,) = MixedLoader([([b"no", b"image"], [0, 1])], CPU, GPU)
    assert batch.images.shape == (0, 3, 32, 32)
    assert len(batch.failed) == 2


def test_each_image_of_a_batch_gets_a_decision_of_its_own_and_both_paths_the_same():
    # defects 2 and 3 of torchpipe's sample wrapper: one flip for a whole batch, other crops per path
    def flips(share: float) -> dict[int, bool]:
        found = {}

        def transform(image: torch.Tensor, seed: int) -> torch.Tensor:
            found[len(found)] = bool(seed % 2)
            return image.flip(-1) if seed % 2 else image

        loader = MixedLoader(batches(30), CPU, GPU, share=share, transform=transform, threads=1)
        found.clear()  # of the trial
        list(loader)
        return found

    assert 5 < sum(flips(0.0).values()) < 25
    assert flips(0.0) == flips(1.0) == flips(0.5)


def test_an_unrounded_path_stays_unrounded_through_a_transform():
    # defect 4: ``.to(torch.uint8)`` cut the fraction off, which darkened every image
    plain = next(iter(MixedLoader(batches(), CPU, GPU, share=0.0)))
    kept = next(
        iter(MixedLoader(batches(), CPU, GPU, share=0.0, transform=lambda image, seed: image))
    )
    assert torch.equal(plain.images, kept.images)
    levels = plain.images * 0.229 * 255
    assert not torch.allclose(levels, levels.round(), atol=1e-3)


def test_what_a_transform_raises_names_the_image():
    def broken(image: torch.Tensor, seed: int) -> torch.Tensor:
        if seed > 9:  # of a trial they are small
            raise ZeroDivisionError
        return image

    with pytest.raises(ZeroDivisionError) as caught:
        list(MixedLoader(batches(), CPU, GPU, transform=broken))
    assert "the transform on image-" in caught.value.__notes__[0]


def test_decoded_images_are_refused_with_what_to_change():
    with pytest.raises(DataError, match=r"batch 1, image 1 is Tensor.*let the data set read files"):
        next(iter(MixedLoader([(torch.zeros(2, 3, 8, 8), [0, 1])], CPU, GPU)))
    with pytest.raises(DataError, match="batch 1 has 2 and 1 of"):
        next(iter(MixedLoader([(IMAGES[:2], [0])], CPU, GPU)))


def test_a_data_loaders_own_collation_will_do():
    inner = DataLoader([(image, number) for number, image in enumerate(IMAGES)], batch_size=8)
    assert taken(MixedLoader(inner, CPU, GPU)) == taken(MixedLoader(batches(), CPU, GPU))
    assert len(MixedLoader(inner, CPU, GPU)) == 4


def test_validation_takes_one_path_and_changes_nothing():
    loader = MixedLoader(batches(), CPU, GPU, transform=lambda image, seed: image * 0)
    check = loader.prep_for_val(batches(), GPU)
    assert {*taken(check).values()} == {"gpu"}
    (first, *_) = check
    assert first.images.std() > 0


def test_a_loop_that_stops_early_leaves_no_thread_behind():
    import threading

    before = threading.active_count()
    iterator = iter(MixedLoader(batches(2), CPU, GPU))
    next(iterator)
    iterator.close()
    assert threading.active_count() == before


def test_a_path_of_varying_size_is_refused():
    with pytest.raises(ConfigError, match="ultralytics-letterbox-rect: gives images of varying"):
        MixedLoader(batches(), "ultralytics-letterbox", "ultralytics-letterbox-rect", size=64)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"share": 1.5}, "share"), ({"ahead": 0}, "ahead"), ({"per": "image"}, "per")],
)
def test_what_cannot_be_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        MixedLoader(batches(), CPU, GPU, **options)
