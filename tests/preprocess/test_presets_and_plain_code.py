"""Every preset against the code that its documentation names, on every format and orientation.

A preset that is said to be ``cv2.imread`` gives what ``cv2.imread`` gives, and refuses what that
refuses. A file whose result no later stage takes may be ``unsupported``, and is listed here.
"""

import importlib.util
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torchvision.datasets.folder import pil_loader
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2
from torchvision.transforms._presets import ImageClassification

from alignkit.decoders import DECODERS
from alignkit.experiment.experiment import PreprocessOption
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_header import declared_size
from alignkit.preprocess.image_taps import result_or_reason
from alignkit.preprocess.presets import PRESETS
from tests.made_images import made_images

pytestmark = pytest.mark.filterwarnings("ignore")
"""A library that warns of a file reads it nevertheless."""
SIZE = 28
SUFFIXES = {"TIFF": ".tif", "AVIF": ".avif"}
"""Those that Ultralytics goes by."""


def opencv(file: Path) -> np.ndarray:
    return cv2.resize(cv2.imread(str(file)), (SIZE, SIZE))[..., ::-1]


def pillow(file: Path) -> np.ndarray:
    return np.asarray(v2.Resize((SIZE, SIZE))(pil_loader(str(file))))


def pillow_transposed(file: Path) -> np.ndarray:
    # by its path, Pillow maps an uncompressed TIFF into memory and mixes up the rows of a turned one
    with file.open("rb") as opened:
        image = ImageOps.exif_transpose(Image.open(opened)).convert("RGB")
    return np.asarray(v2.Resize((SIZE, SIZE))(image))


def torchvision(file: Path, **options: bool) -> np.ndarray:
    image = decode_image(str(file), mode=ImageReadMode.RGB, **options)
    if image.ndim != 3 or image.dtype != torch.uint8:
        raise UnlikeError(f"{image.dtype} of shape {tuple(image.shape)}")
    return ImageClassification(crop_size=SIZE, resize_size=32)(image).numpy()


def torchvision_turned(file: Path) -> np.ndarray:
    return torchvision(file, apply_exif_orientation=True)


def timm(file: Path) -> np.ndarray:
    data = pytest.importorskip("timm.data", reason="needs the extra timm")
    transform = data.create_transform((3, SIZE, SIZE), interpolation="bicubic", crop_pct=0.875)
    with file.open("rb") as opened:
        return transform(Image.open(opened).convert("RGB")).numpy()


def mlperf(file: Path) -> np.ndarray:
    """Its ``pre_process_vgg`` before the means, of a side of 32."""
    image = cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB)
    height, width = image.shape[:2]
    longer = int(32 * max(height, width) / min(height, width))
    target = (longer, 32) if width > height else (32, longer)
    image = cv2.resize(image, target, interpolation=cv2.INTER_AREA)
    left, top = (int((side - SIZE) / 2) for side in target)
    return image[top : top + SIZE, left : left + SIZE]


def ultralytics(file: Path) -> np.ndarray:
    image = _imread_of_ultralytics()(str(file))
    if image.dtype != np.uint8:
        raise UnlikeError(str(image.dtype))
    height, width = image.shape[:2]
    scale = min(SIZE / height, SIZE / width)
    wide, tall = round(width * scale), round(height * scale)
    left, top = (round((SIZE - side) / 2 - 0.1) for side in (wide, tall))
    canvas = np.full((SIZE, SIZE, 3), 114, np.uint8)
    canvas[top : top + tall, left : left + wide] = cv2.resize(image, (wide, tall))
    return canvas[..., ::-1]


@cache
def _imread_of_ultralytics() -> Callable[[str], np.ndarray]:
    """Its own function where it is installed; else what that does with all but AVIF and TIFF."""
    found = importlib.util.find_spec("ultralytics")
    if found is None:
        return _imdecode
    place = Path(found.origin).parent / "utils" / "patches.py"
    spec = importlib.util.spec_from_file_location("ultralytics_patches", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.imread


def _imdecode(name: str) -> np.ndarray:
    return cv2.imdecode(np.fromfile(name, np.uint8), cv2.IMREAD_COLOR)


def _left_out(preset: str, form: str, kind: str) -> bool:
    own = _imread_of_ultralytics() is not _imdecode
    if preset.startswith("ultralytics") and form in ("AVIF", "TIFF") and not own:
        return True  # only the library itself can say what it makes of them
    # OpenCV 4.12 and 5.0 leave parts of the one as they were in memory, and never read it twice
    # alike; turned, DALI 2.4 ends the process on some TIFFs, and decodes CMYK within a level
    return kind == "PAM, alpha" or (preset == "dali-resnet" and (form == "TIFF" or kind == "CMYK"))


def plsc(file: Path) -> np.ndarray:
    with file.open("rb") as opened:
        return np.array(Image.open(opened).convert("RGB").resize((SIZE, SIZE), Image.BILINEAR))


def torchpipe(file: Path) -> np.ndarray:
    import omniback
    import torchpipe  # noqa: F401 - registers its backends with omniback

    request = {"data": file.read_bytes()}
    options = {"resize_h": str(SIZE), "resize_w": str(SIZE), "color": "rgb", "device": "cpu"}
    omniback.init("S[DecodeMat,ResizeMat,CvtColorMat,Mat2Tensor]", options)(request)
    return torch.from_dlpack(request["result"]).numpy()


def dali(file: Path) -> np.ndarray:
    dynamic = pytest.importorskip("nvidia.dali.experimental.dynamic", reason="needs DALI")
    types = pytest.importorskip("nvidia.dali.types")
    image = dynamic.decoders.image(np.frombuffer(file.read_bytes(), np.uint8), device="cpu")
    image = dynamic.resize(image, size=32, mode="not_smaller", interp_type=types.INTERP_TRIANGULAR)
    return np.array(dynamic.crop(image, crop=(SIZE, SIZE)).cpu())


class UnlikeError(Exception):
    """The code gives something else than an image of 8 bits."""


PLAIN: dict[str, Callable[[Path], np.ndarray]] = {
    "opencv-train": opencv,
    "pillow-train": pillow,
    "torchvision-eval": torchvision,
    "timm-eval": timm,
    "mlperf-resnet50": mlperf,
    "ultralytics-letterbox": ultralytics,
    "plsc": plsc,
    "torchpipe-cpu": torchpipe,
    "dali-resnet": dali,
    "pillow-train, orient: exif": pillow_transposed,
    "torchvision-eval, orient: exif": torchvision_turned,
}
"""Preset, with a stage replaced → the code of its users. All give pixels, or tensors of floats."""
UNSUPPORTED = {
    # torchvision returns uint16, and every frame
    "torchvision-eval": {("PNG", "16-bit grey"), ("PNG", "16-bit RGB"), ("GIF", "animated")},
    # Pillow's part in Ultralytics, and float32
    "ultralytics-letterbox": {("AVIF", None), ("TIFF", "float RGB")},
}
"""Preset → (format, kind) for which it says that no later stage takes what the code gives."""
COUNTERPARTS = {"ultralytics-letterbox-rect"}
"""Presets that decode as another of them and differ in the letterbox: see test_presets.py."""


def path_of(name: str) -> Preprocess:
    preset, _, replaced = name.partition(", ")
    stage = dict([replaced.split(": ")]) if replaced else {}
    return PreprocessOption.model_validate({"preset": preset, "size": SIZE, **stage}).build("path")


def ours(path: Preprocess, encoded: bytes, like: np.ndarray | None) -> np.ndarray | str:
    """The last pixels, or the tensor where the code gives one; or the outcome."""
    taps = result_or_reason(lambda: path.taps(encoded))
    if isinstance(taps, str):
        return "failed"
    if taps.last is None:
        return taps.decoded.outcome
    floats = like is not None and like.dtype == np.float32
    return path.normalise(taps.last) if floats else taps.last


def compared(name: str, path: Preprocess, file: Path, encoded: bytes) -> str:
    """``equal``, ``both refuse``, ``unsupported``, or what differs."""
    file.write_bytes(encoded)
    try:
        plain: Any = PLAIN[name](file)
    except UnlikeError as error:
        plain = error
    except Exception:  # noqa: BLE001 - any error of a library is its refusal
        plain = None
    found = ours(path, encoded, plain if isinstance(plain, np.ndarray) else None)
    if isinstance(found, str):
        if plain is None:
            return "both refuse"
        return "unsupported" if found == "unsupported" else f"{found} here alone"
    if not isinstance(plain, np.ndarray):
        return f"refused by {name}'s code alone: {plain}"
    if found.shape != plain.shape:
        return f"{found.shape}, and {plain.shape} by the code"
    off = np.abs(found.astype(np.float64) - plain)
    # float32 in another order of operations
    limit = 1e-5 if plain.dtype == np.float32 else 0
    return "equal" if off.max() <= limit else f"off by {off.mean():.2f}, {off.max():g} at most"


def results(name: str, folder: Path, *, whole: bool) -> dict[tuple[str, str, str, int], str]:
    """File → result of `compared`."""
    path = path_of(name)
    return {
        (form, kind, place, value): compared(
            name, path, folder / f"image{SUFFIXES.get(form, '.bin')}", encoded
        )
        for form, kind, place, value, encoded in made_images(whole=whole)
        if not _left_out(name, form, kind)
    }


def is_allowed(name: str, form: str, kind: str, result: str) -> bool:
    """Tell whether a result says what it is."""
    if result == "unsupported":
        allowed = UNSUPPORTED.get(name.partition(",")[0], set())
        return bool({(form, kind), (form, None)} & allowed)
    # DALI 2.4 gives a turned APNG pixels of no turn, which its preset refuses
    return name == "dali-resnet" and kind.startswith("animated") and result.startswith("failed")


def assert_as_plain(name: str, folder: Path, *, whole: bool) -> None:
    missing = path_of(name).missing()
    if missing:
        pytest.skip(missing)
    found = results(name, folder, whole=whole)
    wrong = {
        key: result
        for key, result in found.items()
        if result not in ("equal", "both refuse") and not is_allowed(name, *key[:2], result)
    }
    assert wrong == {}
    assert Counter(found.values())["equal"] > len(found) / 3


def test_every_preset_that_runs_on_a_cpu_has_its_code_here():
    real = {name for name, preset in PRESETS.items() if not preset.surrogate_of}
    gpu = {name for name in real if DECODERS[PRESETS[name].decode["name"]].gpu}
    assert real - gpu - COUNTERPARTS == {name for name in PLAIN if name in PRESETS}


@pytest.mark.parametrize("name", PLAIN)
def test_a_preset_is_the_code_it_names(name, tmp_path):
    assert_as_plain(name, tmp_path, whole=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_a_preset_is_the_code_it_names_in_every_kind_and_orientation(name, tmp_path):
    assert_as_plain(name, tmp_path, whole=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_a_preset_is_the_code_it_names_on_odd_files_of_others(name, tmp_path, shared_data):
    missing = path_of(name).missing()
    if missing:
        pytest.skip(missing)
    path, files = path_of(name), sorted((shared_data / "odd-jpegs").rglob("*.*"))
    assert len(files) > 20
    for file in files:
        encoded = file.read_bytes()
        if name.startswith("ultralytics") and 1 in (declared_size(encoded) or ()):
            continue  # its LetterBox resizes a line of pixels to nothing, and fails
        told = compared(name, path, tmp_path / f"image{file.suffix}", encoded)
        assert told in ("equal", "both refuse"), file.name


@pytest.mark.parametrize("name", [name for name, each in PRESETS.items() if each.surrogate_of])
def test_a_surrogate_reads_jpeg_alone_and_says_so_of_other_formats(name):
    path = path_of(name)
    if path.missing():
        pytest.skip(path.missing())
    for form, kind, place, value, encoded in made_images(whole=False):
        taps = path.taps(encoded)
        if form != "JPEG":
            assert taps.decoded.outcome == "unsupported", (form, kind)
        elif taps.last is not None:
            turns = path.orient.policy == "exif" and place.startswith("EXIF")
            assert (taps.pixels["orient"].shape[0] > 20) == (turns and value > 4)


def test_the_size_in_a_header_is_that_of_the_decoded_image():
    """By Pillow and OpenCV, which both turn a TIFF as they read it."""
    pixels = [path_of(name) for name in ("pillow-train", "opencv-train")]
    for form, kind, _, _, encoded in made_images(whole=False):
        taps = [path.taps(encoded) for path in pixels]
        shapes = [each.decoded.image.shape[:2] for each in taps if each.decoded.image is not None]
        size = declared_size(encoded)
        assert size is None or not shapes or size in shapes, (form, kind)
