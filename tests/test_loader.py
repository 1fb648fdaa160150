"""The loader for your own loop: ordered, seeded, per image, and matched."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.errors import ConfigError
from alignkit.loader import EncodedImages, MixedLoader, collate_encoded
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


def test_per_batch_every_image_of_a_batch_takes_one_path():
    drawn = [batch.paths for batch in MixedLoader(batches(2), CPU, GPU, per="batch")]
    assert all(len(set(paths)) == 1 for paths in drawn)
    assert len({paths[0] for paths in drawn}) == 2


@pytest.mark.parametrize(("share", "path"), [(0.0, "gpu"), (1.0, "cpu")])
def test_a_share_of_none_or_all_is_exact(share, path):
    assert {*taken(MixedLoader(batches(), CPU, GPU, share=share)).values()} == {path}


def test_a_broken_image_is_named_and_its_batch_is_kept():
    broken = [b"no image", *IMAGES[1:4]]
    (batch,) = MixedLoader([(broken, [0, 1, 2, 3])], CPU, GPU)
    assert batch.labels.tolist() == [1, 2, 3]
    assert batch.images.shape == (3, 3, 32, 32)
    (failed,) = batch.failed
    assert (failed.position, failed.outcome) == (0, "failed")


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

        list(MixedLoader(batches(30), CPU, GPU, share=share, transform=transform, threads=1))
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


def test_a_data_loader_with_workers_gives_what_one_without_does():
    samples = Samples(
        tuple(map(str, range(30))), tuple(range(30)), tuple(map(str, range(30))),
        IMAGES.__getitem__, "",
    )  # fmt: skip

    def drawn(workers: int):
        inner = DataLoader(
            EncodedImages(samples), batch_size=8, collate_fn=collate_encoded, num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )  # fmt: skip
        loader = MixedLoader(inner, CPU, GPU)
        assert len(loader) == 4
        return [(batch.images, batch.paths) for batch in loader]

    for (one, paths), (other, others) in zip(drawn(0), drawn(2), strict=True):
        assert torch.equal(one, other)
        assert paths == others


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


@pytest.mark.parametrize(
    ("options", "said"),
    [({"share": 1.5}, "share"), ({"ahead": 0}, "ahead")],
)
def test_what_cannot_be_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        MixedLoader(batches(), CPU, GPU, **options)
