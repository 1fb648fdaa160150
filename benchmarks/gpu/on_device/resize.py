"""Part 3: resizes and normalisation on the GPU against their CPU counterparts, from equal pixels."""

from __future__ import annotations

import numpy as np
from common import QUICK, device, differences, files, folder, main_of, require_cuda, said

PART = "resize"
SIZES = ((224, 224), (97, 131), (640, 640))


def images(number: int = 12) -> dict[str, np.ndarray]:
    import cv2

    found = {}
    for name, data in list(files("photos").items())[: 3 if QUICK else number]:
        image = cv2.imdecode(
            np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
        )
        if image is not None:
            found[name] = np.ascontiguousarray(image[:, :, ::-1])
    return found


def spread(rows: list[dict]) -> dict:
    good = [row for row in rows if "max" in row]
    return {} if not good else {
        "images": len(good), "max": max(r["max"] for r in good), "mean": float(np.mean([r["mean"] for r in good])),
        "wrong": sum(r["wrong"] for r in good), "samples": sum(r["samples"] for r in good), "above_half": sum(r["above_half"] for r in good),
        "bias": float(np.mean([r["bias"] for r in good])),
    }  # fmt: skip


def torch_interpolate() -> dict:
    """float32 interpolate, CUDA against CPU: every mode that a preset uses."""
    import torch
    from torch.nn.functional import interpolate

    options = {
        "bilinear": {"mode": "bilinear", "align_corners": False}, "align_corners": {"mode": "bilinear", "align_corners": True},
        "antialias": {"mode": "bilinear", "antialias": True}, "bicubic": {"mode": "bicubic"},
        "bicubic antialias": {"mode": "bicubic", "antialias": True}, "nearest": {"mode": "nearest"}, "nearest-exact": {"mode": "nearest-exact"},
    }  # fmt: skip
    out, kept = {}, {}
    for name, given in options.items():
        for size in SIZES:
            rows, rounded = [], []
            for file, image in images().items():
                x = torch.from_numpy(image).permute(2, 0, 1)[None].float()
                cpu = interpolate(x, size, **given)
                gpu = interpolate(x.to(device()), size, **given).cpu()
                last = interpolate(
                    x.to(device(), memory_format=torch.channels_last), size, **given
                ).cpu()
                rows.append(differences(gpu.numpy(), cpu.numpy()))
                rows[-1]["layouts differ"] = not torch.equal(gpu, last)
                rounded.append(
                    differences(
                        gpu.round().clamp(0, 255).numpy(), cpu.round().clamp(0, 255).numpy()
                    )
                )
                if size == SIZES[0] and len(kept) < 8:
                    kept[f"{name} {file}"] = (gpu - cpu).numpy().astype(np.float32)
            out[f"{name} {size[0]}x{size[1]}"] = {
                **spread(rows),
                "rounded": spread(rounded),
                "channels-last differs": sum(r.get("layouts differ", 0) for r in rows),
            }
    np.savez_compressed(folder(PART) / "interpolate.npz", **kept)
    return out


def torchvision_resize() -> dict:
    """v2.functional.resize of uint8 tensors: CUDA against CPU, and against alignkit's surrogate of it."""
    import torch
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional

    out = {}
    for mode in ("bilinear", "bicubic", "nearest"):
        for antialias in (True, False):
            against_cpu, against_float = [], []
            for image in images().values():
                planes = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))
                given = {"interpolation": InterpolationMode(mode), "antialias": antialias}
                gpu = functional.resize(planes.to(device()), [224, 224], **given).cpu()
                against_cpu.append(
                    differences(gpu.numpy(), functional.resize(planes, [224, 224], **given).numpy())
                )
                if mode != "nearest":
                    f = torch.nn.functional.interpolate(
                        planes[None].float(), (224, 224), mode=mode, antialias=antialias
                    )[0]
                    against_float.append(
                        differences(gpu.numpy(), f.round().clamp(0, 255).to(torch.uint8).numpy())
                    )
            out[f"{mode} antialias={antialias}"] = {
                "against torchvision on the CPU": spread(against_cpu),
                "against float and round (the surrogate)": spread(against_float),
            }
    return out


def normalise() -> dict:
    """(x/255 - mean)/std in float32, fp16 and bf16 on the GPU against NumPy's float32."""
    import torch
    from torchvision.transforms.v2 import functional

    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    out = {}
    for name, kind in {
        "fp32": torch.float32,
        "fp16": torch.float16,
        "bf16": torch.bfloat16,
    }.items():
        rows = []
        for image in images().values():
            planes = np.ascontiguousarray(image.transpose(2, 0, 1))
            want = (
                (planes.astype(np.float32) / np.float32(255))
                - np.array(mean, np.float32)[:, None, None]
            ) / np.array(std, np.float32)[:, None, None]
            x = functional.to_dtype(
                torch.from_numpy(planes).to(device()), torch.float32, scale=True
            ).to(kind)
            rows.append(differences(functional.normalize(x, mean, std).float().cpu().numpy(), want))
        out[name] = spread(rows)
    return out


def with_alignkit() -> dict:
    """alignkit's own GPU resizers against its CPU ones."""
    from alignkit.resizers import RESIZERS

    pairs = {
        "torchvision-cuda": [("torchvision-cuda", {}, "torch", {"antialias": True}), ("torchvision-cuda", {}, "torchvision", {})],
        "torchpipe-cuda": [("torchpipe-cuda", {}, "torch", {"align_corners": True})],
        "dali-gpu": [("dali-gpu", {}, "dali", {}), ("dali-gpu", {"interpolation": "cubic"}, "dali", {"interpolation": "cubic"}), ("dali-gpu", {"antialias": False}, "dali", {"antialias": False})],
        "cvcuda": [("cvcuda", {}, "opencv", {}), ("cvcuda", {"interpolation": "cubic"}, "opencv", {"interpolation": "cubic"}), ("cvcuda", {"interpolation": "area"}, "opencv", {"interpolation": "area"})],
    }  # fmt: skip
    out: dict = {}
    for real, rows in pairs.items():
        if real not in RESIZERS:
            out[real] = f"alignkit has no resizer {real}"
            continue
        if missing := RESIZERS[real].missing():
            out[real] = missing
            continue
        for gpu_name, gpu_options, cpu_name, cpu_options in rows:
            label = f"{gpu_name} {gpu_options} against {cpu_name} {cpu_options}"
            try:
                ours, theirs = (
                    RESIZERS[gpu_name].load()(**gpu_options),
                    RESIZERS[cpu_name].load()(**cpu_options),
                )
                got = []
                for image in images().values():
                    one, other = ours.resize(image, 224, 224), theirs.resize(image, 224, 224)
                    if one.dtype == np.uint8 and other.dtype != np.uint8:
                        other = np.clip(np.rint(other), 0, 255)
                    got.append(differences(one, other))
                out[label] = {**spread(got), "version": ours.version()}
            except Exception as error:  # noqa: BLE001
                out[label] = said(error)
    return out


if __name__ == "__main__":
    require_cuda(PART)
    raise SystemExit(
        main_of(
            PART,
            {
                "interpolate": torch_interpolate,
                "torchvision": torchvision_resize,
                "normalise": normalise,
                "alignkit": with_alignkit,
            },
        )
    )
