"""Transforms of a loader: torchvision's follow the seed, and mistakes are said at construction."""

import random
import re

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from alignkit.errors import ConfigError
from alignkit.loader import MixedLoader, seeded
from tests.loader.test_loader import CPU, GPU, IMAGES

AUGMENT = v2.Compose(
    [
        v2.RandomResizedCrop(24, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ColorJitter(0.4, 0.4, 0.4),
        v2.RandomErasing(p=0.5, value="random"),
        v2.GaussianBlur(3),
    ]
)

CROP = v2.RandomCrop(8)


def image(dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (3, 32, 32), generator=generator).to(dtype)


def loader(**options) -> MixedLoader:
    """All images, each by its id, in one batch."""
    ids = [f"photo-{number}" for number in range(12)]
    return MixedLoader([(IMAGES[:12], [0] * 12, ids)], CPU, GPU, **options)


def images_of(made: MixedLoader, epoch: int = 0) -> torch.Tensor:
    made.set_epoch(epoch)
    (batch,) = made
    return batch.images


def test_draws_follow_the_seed_and_leave_torchs_generator_alone():
    draw = seeded(AUGMENT)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, again, other = draw(image(), 5), draw(image(), 5), draw(image(), 6)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)
    # whatever else is drawn meanwhile
    torch.manual_seed(2)
    assert torch.equal(draw(image(), 5), first)


def test_the_draws_are_those_of_torchvision_with_that_seed():
    flip = seeded(v2.RandomHorizontalFlip())
    for seed in range(8):
        torch.manual_seed(seed)
        assert torch.equal(flip(image(), seed), v2.RandomHorizontalFlip()(image()))


def test_a_float_image_keeps_its_range():
    bright = seeded(v2.ColorJitter(brightness=(1.5, 1.5)))
    whole, fine = bright(image(), 0), bright(image(torch.float32), 0)
    assert fine.dtype == torch.float32
    assert float(fine.max()) == 255
    assert float((fine - whole.float()).abs().max()) <= 1
    scaled = seeded(v2.Compose([v2.ToDtype(torch.float32, scale=True)]))
    assert torch.allclose(scaled(image(), 0), image().float())


def test_an_image_is_transformed_alike_on_both_paths_and_in_a_resumed_epoch():
    draw = seeded(CROP)
    # equal paths by another name, so that only the draws could differ
    one = images_of(loader(transform=draw, share=1.0), epoch=3)
    assert torch.equal(images_of(loader(transform=draw, share=1.0, threads=1), epoch=3), one)
    assert not torch.equal(images_of(loader(transform=draw, share=1.0), epoch=4), one)
    places = {}
    for share in (0.0, 1.0):
        seen = []

        def spy(pixels, seed, seen=seen):
            seen.append((seed, draw(torch.arange(3 * 32 * 32).reshape(3, 32, 32), seed)[0, 0, 0]))
            return pixels

        made = loader(transform=spy, share=share, threads=1)
        seen.clear()  # of the trial
        images_of(made, epoch=3)
        places[share] = seen
    assert [(a, int(b)) for a, b in places[0.0]] == [(a, int(b)) for a, b in places[1.0]]
    assert len({int(b) for _, b in places[0.0]}) > 1


def test_training_may_draw_at_the_same_time():
    wanted = images_of(loader(transform=seeded(AUGMENT), threads=1))
    made = loader(transform=seeded(AUGMENT), threads=4, ahead=1)
    batches = iter(made)
    torch.manual_seed(0)
    alone = torch.rand(1000)
    torch.manual_seed(0)
    beside = torch.cat([torch.rand(1) for _ in range(1000)])
    assert torch.equal(alone[:1], beside[:1])
    assert torch.equal(next(batches).images, wanted)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (AUGMENT, r"it returns tuple, no tensor; it is called as transform\(image, seed\)"),
        (lambda given: given, "TypeError.*takes 1 positional argument.*needs seeded"),
        (lambda given, seed: given.numpy(), "it returns ndarray, no tensor"),
        (lambda given, seed: given[0], r"it returns \(32, 32\), not \(3, h, w\)"),
        (lambda given, seed: CROP(given), "two calls with one image and seed give different"),
        (seeded(lambda given: given.roll(random.randrange(30), 2)), "draws elsewhere"),
        (seeded(lambda given: given.roll(np.random.randint(30), 2)), "draws elsewhere"),  # noqa: NPY002 - as users do
        (lambda given, seed: given / 255.0, r"values from \S+ to \S+, not 0..255"),
        (
            lambda given, seed: v2.functional.normalize(given / 255.0, [0.5] * 3, [0.5] * 3),
            r"values from -\S+ to \S+, not 0..255; the path normalises",
        ),
        (
            seeded(lambda given: torch.native_dropout(given / 1.0, 0.5, True)[0]),
            "native_dropout, which takes no generator",
        ),
    ],
)
def test_a_transform_of_another_kind_is_refused_at_construction(transform, message):
    with pytest.raises(ConfigError, match=message):
        loader(transform=transform)
    with pytest.raises(ConfigError, match=message):
        loader(second_transform=transform)


def test_paths_are_presets_mappings_or_built_ones():
    made = loader()
    by_name = MixedLoader([], "opencv-train", "torchpipe-gpu-surrogate", size=32)
    assert [each.name for each in by_name.paths] == ["opencv-train", "torchpipe-gpu-surrogate"]
    assert {each.size for each in by_name.paths} == {(32, 32)}
    mapping = {"decode": "opencv", "resize": {"name": "opencv", "size": 32}}
    mapped = MixedLoader(made.batches, mapping, GPU, share=1.0)
    assert torch.equal(images_of(mapped), images_of(loader(share=1.0)))
    (batch,) = made.prep_for_val(made.batches, "opencv-train")
    assert set(batch.paths) == {"opencv-train"}
    with pytest.raises(ConfigError, match="path opencv-trian: no such preset"):
        MixedLoader([], "opencv-trian", GPU)
    with pytest.raises(ConfigError, match=re.escape("prepares 224x224 pixels and 'gpu' 32x32")):
        MixedLoader([], "opencv-train", GPU)


def test_a_batch_moves_to_a_device():
    (batch,) = loader()
    moved = batch.to("meta")
    assert moved.images.device.type == moved.labels.device.type == "meta"
    assert moved.ids == batch.ids


def test_a_seeded_transform_that_normalises_is_refused():
    steps = [v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485,) * 3, (0.229,) * 3)]
    with pytest.raises(ConfigError, match="leave Normalize out"):
        loader(transform=seeded(v2.Compose(steps)))
