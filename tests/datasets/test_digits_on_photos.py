from __future__ import annotations

import dataclasses
import io
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from alignkit.datasets import digits_on_photos
from alignkit.datasets.digits_on_photos import DigitsOnPhotos
from alignkit.errors import ConfigError, WorkspaceError

SMALL = DigitsOnPhotos(train=30, eval=20)


def contents(samples):
    return [samples.read(index) for index in range(len(samples))]


def test_the_same_options_give_the_same_bytes(tmp_path, monkeypatch):
    first = contents(SMALL.training()), contents(SMALL.evaluation())
    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", str(tmp_path / "other"))
    assert (contents(SMALL.training()), contents(SMALL.evaluation())) == first


def test_another_seed_gives_other_images():
    other = DigitsOnPhotos(train=30, eval=20, seed=1)
    assert not set(contents(SMALL.training())) & set(contents(other.training()))


def test_a_larger_set_begins_with_the_smaller_one():
    more = DigitsOnPhotos(train=40, eval=20)
    assert contents(more.training())[:30] == contents(SMALL.training())


def test_classes_are_balanced_and_labels_are_the_handwritten_digits():
    samples = DigitsOnPhotos(train=40, eval=20).training()
    assert set(Counter(samples.labels).values()) == {4}
    assert samples.classes == tuple("0123456789")
    for split in ("train", "eval"):
        for label, pool in enumerate(digits_on_photos.digits_of(split, 0)):
            assert set(digits_on_photos.sources().labels[list(pool)]) == {label}


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_no_handwritten_digit_is_in_both_splits_and_none_is_unused(seed):
    train = {index for pool in digits_on_photos.digits_of("train", seed) for index in pool}
    evaluation = {index for pool in digits_on_photos.digits_of("eval", seed) for index in pool}
    assert not train & evaluation
    assert len(train | evaluation) == 1797


def test_no_handwritten_digit_is_there_twice_under_different_indices():
    digits = digits_on_photos.sources().digits.reshape(1797, -1)
    assert len(np.unique(digits, axis=0)) == 1797


def test_the_splits_see_different_halves_of_the_photographs(monkeypatch):
    halves = np.zeros((427, 640, 3), np.uint8)
    halves[:, 320:] = 255
    real = digits_on_photos.sources()
    painted = digits_on_photos.Sources(real.digits, real.labels, (halves, halves))
    monkeypatch.setattr(digits_on_photos, "sources", lambda: painted)
    for seed in range(60):
        random = np.random.default_rng(seed)
        assert digits_on_photos.patch(random, "train", 192, 192).max() == 0
        assert digits_on_photos.patch(random, "eval", 192, 192).min() == 255


def test_images_are_jpeg_files_of_varied_size_with_chroma_subsampled():
    sizes = set()
    for encoded in contents(SMALL.training()):
        image = Image.open(io.BytesIO(encoded))
        assert image.format == "JPEG"
        assert [layer[1:3] for layer in image.layer] == [(2, 2), (1, 1), (1, 1)]
        assert all(96 <= side <= 192 for side in image.size)
        sizes.add(image.size)
    assert len(sizes) > 20
    assert any(width != height for width, height in sizes)


def test_jpeg_qualities_lie_between_60_and_90():
    def tables(quality):
        file = io.BytesIO()
        Image.new("RGB", (16, 16)).save(file, "JPEG", quality=quality)
        return str(Image.open(file).quantization)

    qualities = {tables(quality): quality for quality in range(50, 96)}
    used = {
        qualities[str(Image.open(io.BytesIO(encoded)).quantization)]
        for encoded in contents(SMALL.training())
    }
    assert 60 <= min(used) < max(used) <= 90


def test_counts_and_fingerprint_make_nothing(cache):
    assert SMALL.counts() == (30, 20)
    assert len(SMALL.fingerprint("eval")) == 64
    assert not cache.exists()


def test_fingerprint_imports_no_heavy_library():
    program = (
        "import sys; from alignkit.datasets.digits_on_photos import DigitsOnPhotos as D;"
        "D().fingerprint(\"eval\"); print({'sklearn', 'numpy', 'PIL', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_fingerprint_of_a_split_is_that_of_its_samples_and_does_not_depend_on_the_other():
    assert SMALL.training().fingerprint == SMALL.fingerprint("train")
    assert SMALL.evaluation().fingerprint == SMALL.fingerprint("eval")
    more = DigitsOnPhotos(train=30, eval=1000)
    assert more.fingerprint("train") == SMALL.fingerprint("train")
    assert more.fingerprint("eval") != SMALL.fingerprint("eval")


def test_a_second_call_makes_nothing(monkeypatch):
    SMALL.training()

    def compose(*arguments):
        raise AssertionError("made again")

    monkeypatch.setattr(digits_on_photos, "compose", compose)
    assert len(contents(SMALL.training())) == 30


def truncate(folder):
    file = folder / "3" / "000013.jpg"
    file.write_bytes(file.read_bytes()[:-1])


def flip_one_byte(folder):
    file = folder / "0" / "000000.jpg"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def remove_one(folder):
    (folder / "9" / "000029.jpg").unlink()


def spoil_the_index(folder):
    (folder / "index.json").write_text("[")


def shorten_the_index(folder):
    """And damage an image that it no longer lists."""
    file = folder / "index.json"
    index = json.loads(file.read_text())
    file.write_text(json.dumps({**index, "files": index["files"][:5]}))
    truncate(folder)


def replace_by_another_set(folder):
    other = dataclasses.replace(SMALL, seed=SMALL.seed + 1)
    other.training()
    theirs = folder.parent / f"train-{other.fingerprint('train')[:16]}"
    shutil.rmtree(folder)
    theirs.rename(folder)


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        flip_one_byte,
        remove_one,
        spoil_the_index,
        shorten_the_index,
        replace_by_another_set,
    ],
)
def test_a_damaged_cache_is_noticed_and_made_again(cache, caplog, damage):
    before = contents(SMALL.training())
    (folder,) = (cache / "digits-on-photos").glob("train-*[0-9a-f]")
    damage(folder)
    with caplog.at_level(logging.WARNING):
        assert contents(SMALL.training()) == before
    assert "damaged" in caplog.text
    assert "made again" in caplog.text


def test_a_killed_first_run_leaves_no_half_set(cache):
    program = (
        "from alignkit.datasets.digits_on_photos import DigitsOnPhotos as D;"
        "D(train=100000, eval=20).training()"
    )
    maker = subprocess.Popen([sys.executable, "-c", program])
    folder = cache / "digits-on-photos"
    deadline = time.monotonic() + 300
    while len(list(folder.glob(".train-*/new/*/*.jpg"))) < 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(maker.pid, signal.SIGKILL)
    maker.wait()
    assert len(list(folder.glob(".train-*/new/*/*.jpg"))) >= 20, "it was killed while at work"
    assert not list(folder.glob("train-*/"))
    assert len(contents(SMALL.training())) == 30


def test_what_a_killed_maker_left_is_removed_by_the_next(cache):
    SMALL.training()
    (folder,) = (cache / "digits-on-photos").glob("train-*/")
    half = folder.with_name(f".{folder.name}-abc")
    folder.rename(half)
    SMALL.training()
    assert folder.is_dir()
    assert not half.exists()


def test_of_several_makers_one_makes_the_images(monkeypatch):
    made = []
    real = digits_on_photos.compose
    monkeypatch.setattr(digits_on_photos, "compose", lambda *a: made.append(a) or real(*a))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: contents(SMALL.training()), range(4)))
    assert len(made) == 30
    assert all(result == results[0] for result in results)


def test_a_cache_that_cannot_be_written_is_explained(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(WorkspaceError, match="ALIGNKIT_CACHE_DIR"):
        SMALL.training()


@pytest.mark.parametrize("options", [{"train": 9}, {"eval": 0}, {"seed": -1}, {"train": 10**7}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        DigitsOnPhotos(**options)


@pytest.mark.slow
def test_a_small_network_learns_it_but_not_wholly_and_antialiasing_matters():
    import cv2
    import torch
    import torch.nn.functional as F  # noqa: N812

    from alignkit.models.architectures import small_cnn

    def linear(image):
        return torch.from_numpy(cv2.resize(image, (48, 48))).permute(2, 0, 1).float()

    def antialiased(image):
        channels = torch.from_numpy(image).permute(2, 0, 1)[None].float()
        return F.interpolate(channels, (48, 48), mode="bilinear", antialias=True)[0]

    def stack(samples, resize):
        flags = cv2.IMREAD_COLOR_RGB
        arrays = (np.frombuffer(encoded, np.uint8) for encoded in contents(samples))
        images = [resize(cv2.imdecode(array, flags)) for array in arrays]
        return (torch.stack(images) / 255 - 0.45) / 0.225, torch.tensor(samples.labels)

    data = DigitsOnPhotos()
    images, labels = stack(data.training(), linear)
    torch.manual_seed(0)
    model = small_cnn(10)
    optimiser = torch.optim.AdamW(model.parameters(), 0.002, weight_decay=0.05)
    steps = 8 * 19
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        if step % 19 == 0:
            order = torch.randperm(1200)
        chosen = order[step % 19 * 64 : step % 19 * 64 + 64]
        optimiser.zero_grad()
        F.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        optimiser.step()
        schedule.step()
    model.eval()
    accuracy, predicted = {}, {}
    for resize in (linear, antialiased):
        images, labels = stack(data.evaluation(), resize)
        with torch.inference_mode():
            predicted[resize] = model(images).argmax(1)
        accuracy[resize] = (predicted[resize] == labels).float().mean().item()
    churn = (predicted[linear] != predicted[antialiased]).float().mean().item()
    assert 0.70 < accuracy[linear] < 0.95
    assert accuracy[linear] - accuracy[antialiased] > 0.02
    assert 0.07 < churn < 0.30
