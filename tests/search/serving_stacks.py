"""Twenty-four serving stacks, written with OpenCV, Pillow, NumPy, SciPy and torch alone.

Each maps an encoded file to the tensor that a stack would record. Half of them do something that
no configuration of alignkit does.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from PIL import Image, ImageFilter, ImageOps
from scipy import ndimage

SIDE = 96


@dataclass(frozen=True)
class Stack:
    """One stack with what `match` must say of it."""

    name: str
    tensor: Callable[[bytes], np.ndarray]
    says: tuple[str, ...] = ()
    """Parts of the facts or of the nearest configuration's label; empty outside the search."""


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def bgr(data: bytes) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)


def rgb(data: bytes) -> np.ndarray:
    return cv2.cvtColor(bgr(data), cv2.COLOR_BGR2RGB)


def linear(data: bytes) -> np.ndarray:
    return cv2.resize(rgb(data), (SIDE, SIDE))


def imagenet(levels: np.ndarray) -> np.ndarray:
    tensor = (np.asarray(levels, np.float32) / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    return tensor.astype(np.float32).transpose(2, 0, 1)


def whole(levels: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(levels), 0, 255)


def antialiased(data: bytes) -> np.ndarray:
    pixels = torch.from_numpy(rgb(data)).permute(2, 0, 1)[None].float()
    resized = torch.nn.functional.interpolate(
        pixels, size=(SIDE, SIDE), mode="bilinear", antialias=True
    )
    return imagenet(resized[0].permute(1, 2, 0).numpy())


def centre_crop(data: bytes) -> np.ndarray:
    image = opened(data)
    short = round(SIDE / 224 * 256)
    scale = short / min(image.size)
    size = [int(side * scale) if side != min(image.size) else short for side in image.size]
    image = image.resize(size, Image.BILINEAR)
    left, top = (round((side - SIDE) / 2) for side in size)
    return imagenet(np.asarray(image.crop((left, top, left + SIDE, top + SIDE))))


def grey(data: bytes) -> np.ndarray:
    return imagenet(np.stack([cv2.cvtColor(linear(data), cv2.COLOR_RGB2GRAY)] * 3, axis=-1))


def mean_grey(data: bytes) -> np.ndarray:
    return imagenet(np.repeat(whole(linear(data).mean(axis=-1, keepdims=True)), 3, axis=-1))


def ycbcr(data: bytes) -> tuple[np.ndarray, ...]:
    planes = np.asarray(Image.fromarray(linear(data)).convert("YCbCr"), np.float64)
    return planes[..., 0], planes[..., 1] - 128, planes[..., 2] - 128


def bt709(data: bytes, luma: float = 1.0, chroma: float = 1.0, black: float = 0.0) -> np.ndarray:
    """By the equations of ITU-R BT.709-6, from full-range BT.601."""
    y, blue, red = ycbcr(data)
    y, blue, red = luma * (y - black), chroma * blue, chroma * red
    green = y - (0.2126 * 1.5748 * red + 0.0722 * 1.8556 * blue) / 0.7152
    return imagenet(whole(np.stack([y + 1.5748 * red, green, y + 1.8556 * blue], axis=-1)))


def gamma(levels: np.ndarray) -> np.ndarray:
    return whole(255 * (levels / 255.0) ** (1 / 2.2))


def compressed(data: bytes) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(linear(data)).save(file, "JPEG", quality=50)
    return imagenet(np.asarray(opened(file.getvalue())))


def random_crop(data: bytes) -> np.ndarray:
    rng, pixels = np.random.default_rng(len(data)), rgb(data)
    side = int(min(pixels.shape[:2]) * rng.uniform(0.5, 0.9))
    top, left = (rng.integers(0, length - side + 1) for length in pixels.shape[:2])
    return imagenet(cv2.resize(pixels[top : top + side, left : left + side], (SIDE, SIDE)))


def hue(data: bytes) -> np.ndarray:
    planes = cv2.cvtColor(linear(data), cv2.COLOR_RGB2HSV)
    planes[..., 0] = (planes[..., 0].astype(int) + 15) % 180
    return imagenet(cv2.cvtColor(planes, cv2.COLOR_HSV2RGB))


def saturated(data: bytes) -> np.ndarray:
    pixels = linear(data).astype(np.float64)
    luma = (pixels @ (0.299, 0.587, 0.114))[..., None]
    return imagenet(whole(luma + 1.3 * (pixels - luma)))


def noisy(data: bytes) -> np.ndarray:
    noise = np.random.default_rng(len(data)).normal(0, 8, (SIDE, SIDE, 3))
    return imagenet(whole(linear(data) + noise))


def float_area(data: bytes) -> np.ndarray:
    pixels = rgb(data).astype(np.float32) / 255
    return imagenet(255 * cv2.resize(pixels, (SIDE, SIDE), interpolation=cv2.INTER_AREA))


INSIDE = (
    Stack("Pillow bicubic", lambda data: imagenet(opened(data).resize((SIDE, SIDE), Image.BICUBIC)),
          ("pillow filter=bicubic", "ImageNet mean and std")),
    Stack("cv2 linear, BGR", lambda data: imagenet(cv2.resize(bgr(data), (SIDE, SIDE))),
          ("opencv ▸ opencv", "channel order: BGR")),
    Stack("cv2 area of floats", float_area, ("opencv interpolation=area floats=True",)),
    Stack("torch antialias, floats", antialiased, ("torch antialias=True",)),
    Stack("centre crop after Pillow", centre_crop, ("pillow ▸ pillow", "centre crop 96x96")),
    Stack("uint8, HWC", linear, ("read as HWC", "none, grey levels 0..255")),
    Stack("(x - 127.5) / 128",
          lambda data: ((linear(data).astype(np.float32) - 127.5) / 128).transpose(2, 0, 1),
          ("normalisation: (x - 127.5) / 128",)),
    Stack("(x - 127) / 128, HWC", lambda data: (linear(data).astype(np.float32) - 127) / 128,
          ("normalisation: (x - 127) / 128", "read as HWC")),
    Stack("x / 127.5 - 1", lambda data: linear(data).astype(np.float32) / 127.5 - 1,
          ("normalisation: -1..1",)),
    Stack("grey by cv2", grey, ("colour: grey", "BT.601, 0.299/0.587/0.114 ", "explains ")),
    Stack("grey by the mean", mean_grey, ("colour: grey", "the mean of R, G and B", "explains ")),
    Stack("YCbCr read by BT.709", bt709,
          ("colour: BT.709 in place of the BT.601", "explains ",
           "normalisation: ImageNet mean and std, the nearest that is known")),
    Stack("YCbCr read as limited BT.709",
          lambda data: bt709(data, 255 / 219, 255 / 224, 16),
          ("colour: full range read as limited, by BT.709", "explains ")),
)  # fmt: skip
OUTSIDE = (
    Stack("Gaussian blur and gamma",
          lambda data: imagenet(gamma(cv2.GaussianBlur(linear(data), (0, 0), 2)))),
    Stack("gamma", lambda data: imagenet(gamma(linear(data)))),
    Stack("unsharp mask", lambda data: imagenet(
        Image.fromarray(linear(data)).filter(ImageFilter.UnsharpMask(2, 150, 3)))),
    Stack("JPEG again, quality 50", compressed),
    Stack("equalised histogram", lambda data: imagenet(
        ImageOps.equalize(Image.fromarray(linear(data))))),
    Stack("random crop", random_crop),
    Stack("shifted by 5 px", lambda data: imagenet(np.roll(linear(data), 5, axis=1))),
    Stack("turned by 2 degrees", lambda data: imagenet(
        ndimage.rotate(linear(data), 2, reshape=False, order=1, mode="reflect"))),
    Stack("hue turned by 30 degrees", hue),
    Stack("saturation 1.3", saturated),
    Stack("noise of 8 levels", noisy),
    Stack("mirrored", lambda data: imagenet(linear(data)[:, ::-1])),
)  # fmt: skip
