"""Images on their way to the workers: the memory they may need, and those that cannot be read."""

import io
import threading
from pathlib import Path

import pytest
from PIL import Image

from alignkit.errors import BackendError, ChangedImage, UnreadableImage
from alignkit.isolation import Limits
from alignkit.isolation.worker import EVERYTHING, Encoded
from alignkit.preprocess import image_taps
from alignkit.preprocess.image_taps import BYTES_A_PIXEL, encoded_images, weighed
from alignkit.samples import Samples


def encoded(kind, size=(100, 80)):
    file = io.BytesIO()
    Image.new("RGB", size).save(file, kind)
    return Encoded("x", file.getvalue())


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WebP", "BMP"])
def test_an_image_needs_memory_by_the_size_in_its_header(kind):
    image = weighed(encoded(kind), 10_000, Limits(memory=1 << 30), 1 << 30)
    assert (image.need, image.lost) == (8_000 * BYTES_A_PIXEL, ())


def test_no_image_needs_more_than_a_worker_may_take():
    assert weighed(encoded("PNG"), 10_000, Limits(memory=5_000), 1 << 30).need == 5_000


def test_an_image_that_no_path_decodes_needs_nothing():
    assert weighed(encoded("PNG"), 7_999, Limits(), 10).need == 0


def test_an_image_beyond_the_available_memory_is_lost_with_both_numbers():
    image = weighed(encoded("PNG", (10_000, 8_000)), 10**9, Limits(lossy=True), 1 << 30)
    ((path, reason),) = image.lost
    assert path == EVERYTHING
    assert reason == (
        "out of memory: 10000x8000 pixels may take 2.2 GiB, and 1.0 GiB are available"
    )


def test_work_that_is_stored_ends_where_memory_is_short():
    """The failure of an image would be stored for good, and memory may be free tomorrow."""
    with pytest.raises(
        BackendError, match=r"^x: out of memory: .*; free some, or set 'max_pixels'"
    ):
        weighed(encoded("PNG", (10_000, 8_000)), 10**9, Limits(), 1 << 30)


@pytest.mark.parametrize("data", [b"", b"no image", encoded("TIFF").data])
def test_without_a_size_the_bytes_of_the_file_stand_in_for_its_pixels(data):
    image = weighed(Encoded("x", data), 10**9, Limits(memory=1 << 30), 1)
    assert (image.need, image.lost) == (len(data) * BYTES_A_PIXEL, ())


def samples(*errors):
    def read(index):
        if errors[index]:
            raise errors[index]("x", "a reason")
        return b"bytes"

    return Samples(tuple(map(str, range(len(errors)))), (), (), read, "")


def test_an_image_that_cannot_be_read_is_lost_on_every_path():
    first, second = encoded_images(samples(UnreadableImage, None))
    assert (first.data, first.lost) == (b"", ((EVERYTHING, "a reason"),))
    assert (second.data, second.lost) == (b"bytes", ())


def test_a_changed_file_ends_work_that_is_stored_and_fails_in_a_diff():
    with pytest.raises(ChangedImage, match="cannot read x: a reason"):
        list(encoded_images(samples(None, ChangedImage)))
    *_, last = encoded_images(samples(None, ChangedImage), changed="fail")
    assert last.lost == ((EVERYTHING, "a reason"),)


class _Store:
    """Reads of a store that answers two images at a time, and none alone."""

    ahead = 4

    def __init__(self, images):
        self.images, self.both = images, threading.Barrier(2, timeout=20)
        self.asked, self.most, self.lock = 0, 0, threading.Lock()

    def __call__(self, index):
        with self.lock:
            self.asked += 1
            self.most = max(self.most, self.asked)
        self.both.wait()
        with self.lock:
            self.asked -= 1
        if index == 3:
            raise UnreadableImage(Path("3"), "gone")
        return self.images[index]

    def only(self, indices):
        raise AssertionError(indices)


def test_images_of_a_store_are_asked_for_ahead_and_come_in_their_order():
    images = [b"%d" % number for number in range(12)]
    store = _Store(images)
    samples = Samples(tuple(map(str, range(12))), (), (), store, "f")
    found = [*encoded_images(samples)]
    assert [each.id for each in found] == [*samples.ids]
    assert [each.data for each in found] == [b"" if n == 3 else images[n] for n in range(12)]
    assert [bool(each.lost) for each in found] == [n == 3 for n in range(12)]
    assert 2 <= store.most <= store.ahead


def test_few_large_images_are_held(monkeypatch):
    monkeypatch.setattr(image_taps, "_AHEAD_BYTES", 100)
    begun = []

    class Reads(_Store):
        def __call__(self, index):
            begun.append(index)
            return b"x" * 100

    samples = Samples(tuple(map(str, range(12))), (), (), Reads([]), "f")
    for number, _ in enumerate(encoded_images(samples)):
        if number > 4:  # those that were asked for before the first came are used up
            assert len(begun) <= number + 2


@pytest.mark.parametrize("gpu", [False, True])
def test_where_there_is_a_gpu_no_process_that_forks_imports_what_asks_the_driver(monkeypatch, gpu):
    """torchpipe calls CUDA when it is imported: its decoder on the GPU then fails in every fork."""
    from alignkit.experiment.preprocess_option import PreprocessOption

    imported = []

    class Workers:
        def run(self, _work, _images, *, modules, **_options):
            imported.extend(modules)
            return iter(())

    monkeypatch.setattr(image_taps, "gpu_present", lambda: gpu)
    monkeypatch.setattr(image_taps, "process_wide", Workers)
    names = ("torchpipe-cpu", "torchvision-eval")
    paths = [PreprocessOption.model_validate({"preset": e, "size": 32}).build(e) for e in names]
    list(image_taps.run_isolated(None, paths, []))
    assert "torchvision" in imported
    assert ("torchpipe" in imported) != gpu
