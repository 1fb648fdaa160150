"""A published ImageNet model on 400 photographs: how many answers does the decoder change, how many the arithmetic?

Each way to decode is followed by one and the same resize on the CPU (Pillow, bicubic, shorter side 256, crop 224),
so that nothing but decoding differs. WORK/imagenet/decode.npz holds the logits of each way (fp32 on the GPU),
arithmetic.npz those of each precision on OpenCV's pixels; both beside the CPU's fp32. No alignkit.
"""

from __future__ import annotations

import io

import numpy as np
from common import KIT, QUICK, device, folder, has_cuda, main_of, require_cuda, said
from numerics import arithmetics, lite0, predict, products
from nvjpeg import nvimgcodec_way, nvjpeg_way, torchpipe_way, torchvision_way

PART = "imagenet"


def photographs() -> tuple[list[bytes], np.ndarray, list[str]]:
    order = {
        word: number
        for number, word in enumerate((KIT / "imagenet400" / "wnids.txt").read_text().split())
    }
    every = sorted((KIT / "imagenet400" / "eval").rglob("*.jp*g")) or sorted(
        (KIT / "imagenet400" / "eval").rglob("*.JPEG")
    )
    every = every[: 12 if QUICK else None]
    return (
        [each.read_bytes() for each in every],
        np.array([order[each.parent.name] for each in every]),
        [each.stem for each in every],
    )


def prepared(pixels: np.ndarray) -> np.ndarray:
    from PIL import Image

    image = Image.fromarray(pixels)
    share = 256 / min(image.size)
    image = image.resize(
        (round(image.width * share), round(image.height * share)), Image.Resampling.BICUBIC
    )
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    array = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32)
    return ((array - 127) / 128).transpose(2, 0, 1)


def ways() -> dict:
    import cv2
    import simplejpeg
    from PIL import Image

    plain = {
        "opencv": lambda data: cv2.imdecode(
            np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
        )[:, :, ::-1],
        "pillow": lambda data: np.asarray(Image.open(io.BytesIO(data)).convert("RGB")),
        "simplejpeg nearest": lambda data: simplejpeg.decode_jpeg(data, fastupsample=True),
    }
    found = {name: (lambda call=call: lambda many: [call(many[0])]) for name, call in plain.items()}
    found |= {
        "torchvision-cuda": lambda: torchvision_way(1)[0],
        "nvjpeg cores": lambda: nvjpeg_way("default", 0, "bundled")[0],
        "nvjpeg cores, interpolated": lambda: nvjpeg_way("default", 32, "bundled")[0],
        "nvjpeg engine": lambda: nvjpeg_way("hardware", 0, "bundled")[0],
        "nvimgcodec": lambda: nvimgcodec_way(1)[0],
        "nvimgcodec cores": lambda: nvimgcodec_way(0, "HYBRID_CPU_GPU")[0],
        "torchpipe": lambda: torchpipe_way()[0],
    }
    return found


def answers(logits: dict[str, np.ndarray], labels: np.ndarray, reference: str) -> dict:
    base = logits[reference]
    return {
        name: {
            "images": len(labels), "right": int((got.argmax(1) == labels).sum()), "changed": int((got.argmax(1) != base.argmax(1)).sum()),
            "lost": int(((base.argmax(1) == labels) & (got.argmax(1) != labels)).sum()), "gained": int(((base.argmax(1) != labels) & (got.argmax(1) == labels)).sum()),
            "mean |Δ logit|": float(np.abs(got.astype(np.float64) - base).mean()),
        }
        for name, got in logits.items()
    }  # fmt: skip


def decoding() -> dict:
    import torch

    data, labels, names = photographs()
    model = lite0()
    placed = model.to(device())
    logits, refused, first = {}, {}, {}
    for name, make in ways().items():
        try:
            decode, pixels = make(), []
            for one, file in zip(data, names):
                try:
                    pixels.append(decode([one])[0])
                except Exception as error:  # noqa: BLE001
                    refused.setdefault(name, {})[file] = said(error, 100)
                    pixels.append(
                        first[file]
                    )  # counted apart: the answer below is OpenCV's, and no change
            for file, each in zip(names, pixels):
                first.setdefault(file, each)
            with products("ieee"):
                logits[name] = predict(
                    placed,
                    np.stack([prepared(each) for each in pixels]),
                    torch.float32,
                    device(),
                    torch.contiguous_format,
                )
        except Exception as error:  # noqa: BLE001
            refused[name] = said(error)
    np.savez_compressed(
        folder(PART) / "decode.npz",
        labels=labels,
        names=np.array(names),
        **{k.replace(" ", "_"): v for k, v in logits.items()},
    )
    return {"answers": answers(logits, labels, "opencv"), "refused, counted as unchanged": refused}


def arithmetic() -> dict:
    import copy

    import torch

    data, labels, _ = photographs()
    model = lite0()
    x = np.stack([prepared(ways()["opencv"]()([each])[0]) for each in data])
    logits, failed = (
        {"cpu fp32": predict(model, x, torch.float32, "cpu", torch.contiguous_format)},
        {},
    )
    for label, (precision, kind, last, compiled, benchmark, deterministic) in arithmetics().items():
        if compiled and not has_cuda():
            continue
        try:
            torch.backends.cudnn.benchmark = benchmark
            torch.use_deterministic_algorithms(deterministic, warn_only=True)
            layout = torch.channels_last if last else torch.contiguous_format
            other = copy.deepcopy(model).to(device(), kind)
            other = torch.compile(other.to(memory_format=layout)) if compiled else other
            with products(precision):
                logits[label] = predict(other, x, kind, device(), layout)
        except Exception as error:  # noqa: BLE001
            failed[label] = said(error)
    torch.use_deterministic_algorithms(False)
    np.savez_compressed(
        folder(PART) / "arithmetic.npz",
        labels=labels,
        **{k.replace(" ", "_"): v for k, v in logits.items()},
    )
    return {"answers": answers(logits, labels, "cpu fp32"), "failed": failed}


if __name__ == "__main__":
    require_cuda(PART)
    raise SystemExit(main_of(PART, {"decoding": decoding, "arithmetic": arithmetic}))
