"""Mechanisms that are planted are named, with the remainder; anything else is not."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import cv2
import numpy as np
import pytest

from alignkit.compare.compare_pixels import compare_preprocess, spatial_stages
from alignkit.compare.displacement import Normal
from alignkit.compare.mechanism_terms import expected, grid
from alignkit.compare.named_mechanisms import mechanisms
from alignkit.compare.spatial_sums import DrawnImage
from alignkit.controls.planted_faults import shift_half_pixel
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.samples import Samples
from tests.photos import encoded, scene

SIZES = [(150, 210), (200, 160), (175, 175), (220, 300), (190, 240), (260, 180)]


@cache
def samples() -> Samples:
    files = [
        encoded(scene(seed, *size), subsampling="4:2:0", quality=88)
        for seed, size in enumerate(SIZES)
    ]
    names = tuple(f"{index}.jpg" for index in range(len(files)))
    return Samples(names, (), (), files.__getitem__, "")


def path(name="plain", resizer=None, decoder=None, side=64) -> Preprocess:
    return Preprocess(
        name, decoder or OpenCVDecoder(), Resize(resizer or OpenCVResizer(), (side, side))
    )


def located(reference, candidate, images=None):
    diffs = compare_preprocess(
        reference, candidate, images or samples(), ssim=False, spatial=True, threads=1
    )
    return spatial_stages(diffs)


def named(reference, candidate):
    (stage,) = located(reference, candidate)
    return [(each.name, each.by) for each in stage.mechanisms], stage


@dataclass(frozen=True, slots=True)
class Changed:
    """A resizer whose pixels are changed."""

    how: str

    def resize(self, image: Any, height: int, width: int) -> Any:
        levels = OpenCVResizer().resize(image, height, width).astype(float)
        if self.how == "gamma":
            levels = 255 * (levels / 255) ** 1.1
        elif self.how == "noise":
            levels += np.random.default_rng(int(image[0].sum())).normal(0, 4, levels.shape)
        elif self.how == "sharper":
            levels += 0.5 * (levels - cv2.GaussianBlur(levels, (0, 0), 1))
        return np.rint(np.clip(levels, 0, 255)).astype(np.uint8)

    def version(self) -> str:
        return "1"


@dataclass(frozen=True, slots=True)
class Asymmetric:
    """A resizer of ONNX's and TensorFlow 1's asymmetric grid."""

    def resize(self, image: Any, height: int, width: int) -> Any:
        steps = image.shape[1] / width, image.shape[0] / height
        map_back = np.array([[steps[0], 0, 0], [0, steps[1], 0]])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        return cv2.warpAffine(
            image, map_back, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE
        )

    def version(self) -> str:
        return "1"


def torchpipe_resizer():
    pytest.importorskip("torchpipe", reason="needs the extra torchpipe")
    from alignkit.resizers.torchpipe import TorchpipeResizer

    return TorchpipeResizer(op="tensor")


def surrogate_resizer():
    pytest.importorskip("torch", reason="needs torch")
    from alignkit.resizers.torch import TorchResizer

    return TorchResizer(align_corners=True)


@pytest.mark.parametrize("resizer", [torchpipe_resizer, surrogate_resizer])
def test_torchpipes_resize_is_a_grid_by_corners(resizer):
    torchpipe = path("torchpipe", resizer())
    names, stage = named(path(), torchpipe)
    assert names == [("corners", "candidate")]
    assert stage.after < 0.1 * stage.before
    assert stage.mechanisms[0].measured.value == pytest.approx(1, abs=0.02)
    # the mean over the images of the exact scale of such a grid
    for axis, scale in enumerate((stage.displacement.scale_y, stage.displacement.scale_x)):
        exact = np.mean([expected("corners", size[axis], 64)[0] for size in SIZES])
        assert scale.value == pytest.approx(exact, abs=0.006)
        assert scale.high < 1
    # a ring: no difference in the middle, most at the edge
    levels = np.array(stage.map.levels())
    assert levels[15:17, 15:17].mean() < 0.4 * levels[[0, -1]].mean()
    assert named(torchpipe, path())[0] == [("corners", "reference")]


def test_a_filter_that_one_path_lacks_is_antialias():
    pillow = path("pillow", PillowResizer("bilinear"))
    names, stage = named(path(), pillow)
    assert names == [("antialias", "candidate")]
    assert stage.after < 0.15 * stage.before
    assert named(pillow, path())[0] == [("antialias", "reference")]
    high, low = np.array(stage.image_power)[8:].sum(), np.array(stage.power)[8:].sum()
    assert low < high


def test_two_mechanisms_are_named_together():
    names, stage = named(
        path("pillow", PillowResizer("bilinear")), path("torchpipe", surrogate_resizer())
    )
    assert sorted(names) == [("antialias", "reference"), ("corners", "candidate")]
    assert stage.after < 0.15 * stage.before


def test_repeated_chroma_is_named_and_the_inverse_dct_is_not():
    nearest = path("nearest", decoder=SimpleJPEGDecoder(chroma="nearest"))
    decode, *_ = located(path(), nearest)
    assert [(each.name, each.by) for each in decode.mechanisms] == [("chroma", "candidate")]
    assert decode.after < 0.5 * decode.before
    decode, *_ = located(nearest, path())
    assert [(each.name, each.by) for each in decode.mechanisms] == [("chroma", "reference")]


def test_the_fast_inverse_dct_is_named_by_its_lattice():
    decode, *_ = located(path(), path("fast", decoder=SimpleJPEGDecoder(dct="ifast")))
    assert [(each.name, each.by) for each in decode.mechanisms] == [("inverse_dct", "")]
    assert decode.after is None
    assert (decode.luma.rows, decode.luma.columns) == (16, 16)


@pytest.mark.parametrize("inner", [OpenCVResizer(), PillowResizer("bilinear")])
def test_half_a_pixel_is_found(inner):
    whole = path("whole", inner)
    names, stage = named(whole, shift_half_pixel(whole))
    assert names == [("half_pixel", "candidate")]
    assert stage.displacement.shift_x.value == pytest.approx(0.5, abs=0.12)
    assert stage.displacement.shift_y.value == pytest.approx(0.5, abs=0.12)


def test_a_grid_that_begins_at_the_corner_of_a_pixel_is_asymmetric():
    names, stage = named(path(), path("asymmetric", Asymmetric()))
    assert names == [("asymmetric", "candidate")]
    assert stage.after < 0.2 * stage.before


@dataclass(frozen=True, slots=True)
class Moved:
    """Pillow's filtered resize, of which the content is moved by a shift for each axis."""

    shift: float
    """Pixels of the output; NaN for that of an asymmetric grid."""

    def resize(self, image: Any, height: int, width: int) -> Any:
        made = PillowResizer("bilinear").resize(image, height, width)
        right, down = (
            expected("asymmetric", *axis)[1] if np.isnan(self.shift) else self.shift
            for axis in ((image.shape[1], width), (image.shape[0], height))
        )
        place = np.array([[1, 0, right], [0, 1, down]], float)
        return cv2.warpAffine(
            made, place, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
        )

    def version(self) -> str:
        return "1"


def scenes(*size):
    """Make six images of one size."""
    files = [encoded(scene(seed, *size), subsampling="4:2:0", quality=88) for seed in range(6)]
    names = tuple(f"{index}.jpg" for index in range(len(files)))
    return Samples(names, (), (), files.__getitem__, "")


def filtered(name, shift=None, **options):
    return path(name, PillowResizer("bilinear") if shift is None else Moved(shift), **options)


def test_a_shift_of_several_times_a_grids_is_not_that_grid():
    # an asymmetric grid moves 236 → 224 pixels by 0.025 pixels
    pair = filtered("plain", side=224), filtered("moved", 0.08, side=224)
    (stage,) = located(*pair, scenes(236, 236))
    assert stage.displacement.shift_x.value == pytest.approx(0.1, abs=0.03)
    assert stage.displacement.share > 0.5
    assert stage.mechanisms == ()


def test_an_asymmetric_grid_of_a_filtered_resize_is_not_called_half_a_pixel():
    pair = filtered("plain"), filtered("moved", float("nan"))
    for step, name in ((2, "asymmetric"), (4, "half_pixel_or_asymmetric")):
        (stage,) = located(*pair, scenes(64 * step, 64 * step))
        assert [(each.name, each.by) for each in stage.mechanisms] == [(name, "candidate")]


def test_a_mechanism_that_explains_everything_is_named():
    signs = np.tile(np.float32([1, -1]), 50)
    terms = Normal.of(np.stack([signs, np.ones_like(signs)]), signs)
    found = mechanisms("decode", [DrawnImage(None, None, terms)] * 5, None)
    assert [each.name for each in found.mechanisms] == ["chroma"]
    assert (found.before, found.after) == (1, 0)


@pytest.mark.parametrize("how", ["gamma", "noise", "sharper"])
def test_nothing_is_named_for_a_change_of_levels(how):
    names, stage = named(path(), path(how, Changed(how)))
    assert names == []
    assert stage.after is None
    assert stage.displacement.shift_x.value == pytest.approx(0, abs=0.02)


def test_nothing_is_located_where_nothing_differs():
    assert located(path(), path("same")) == ()


def test_nothing_is_located_unless_asked_for():
    diffs = compare_preprocess(path(), path("x", PillowResizer("bilinear")), samples(), threads=1)
    assert spatial_stages(diffs) == ()


def test_few_images_have_no_mechanism():
    few = replace(samples(), ids=samples().ids[:4])
    pillow = path("pillow", PillowResizer("bilinear"))
    (stage,) = spatial_stages(compare_preprocess(path(), pillow, few, spatial=True, threads=1))
    assert stage.mechanisms == ()
    assert stage.drawn == 4


def test_facts_do_not_depend_on_the_number_of_processes():
    pillow = path("pillow", PillowResizer("bilinear"))
    one, two = (
        spatial_stages(compare_preprocess(path(), pillow, samples(), spatial=True, threads=each))
        for each in (1, 2)
    )
    assert one == two


def test_the_map_has_the_mean_of_the_stages_table():
    diffs = compare_preprocess(
        path(), path("pillow", PillowResizer("bilinear")), samples(), spatial=True, threads=1
    )
    (stage,) = spatial_stages(diffs)
    mean = np.mean(stage.map.levels())
    assert mean == pytest.approx(diffs.diff("resize", "isolated").sums.mean_abs, rel=0.02)
    assert stage.images == len(SIZES)


@pytest.mark.parametrize("sizes", [(300, 64), (64, 300), (50, 50)])
def test_grids_are_those_of_torch(sizes):
    torch = pytest.importorskip("torch", reason="needs torch")
    source, target = sizes
    ramp = torch.arange(source, dtype=torch.float64).reshape(1, 1, 1, -1)
    for name, corners in (("half-pixel", False), ("corners", True)):
        shape = (1, target)
        made = torch.nn.functional.interpolate(
            ramp, size=shape, mode="bilinear", align_corners=corners
        )
        places = np.clip(grid(name, source, target), 0, source - 1)
        assert made.ravel().numpy() == pytest.approx(places)
