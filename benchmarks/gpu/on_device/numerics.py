"""Part 4: logits of fixed models on fixed images in every arithmetic of the GPU. No alignkit.

Models: torchvision's resnet18 and mobilenet_v3_small with weights drawn from a seed (imagenet.py has one with weights
of ImageNet). Inputs: 400 small photographs of flowers, prepared on the CPU. WORK/numerics/<model>.npz holds the logits of each arithmetic; the CPU's fp32 is the reference.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

import numpy as np
from common import (
    KIT,
    QUICK,
    device,
    files,
    folder,
    has_cuda,
    main_of,
    require_cuda,
    said,
    save,
)

PART = "numerics"
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
BATCH = 50
_inputs: dict[int, np.ndarray] = {}


def inputs(size: int, mean: float = 0.449, std: float = 0.226, number: int = 400) -> np.ndarray:
    import cv2

    if size not in _inputs:
        found = []
        every = list((files("flowers12")).values())
        every = every[:: max(1, len(every) // (10 if QUICK else number))][: 10 if QUICK else number]
        for data in every:
            image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
            high, wide = image.shape[:2]
            side = min(high, wide)
            image = image[(high - side) // 2 :, (wide - side) // 2 :][:side, :side]
            image = cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)[:, :, ::-1]
            found.append((image.astype(np.float32) / 255 - mean).transpose(2, 0, 1) / std)
        _inputs[size] = np.ascontiguousarray(np.stack(found), np.float32)
    return _inputs[size]


@contextlib.contextmanager
def products(precision: str):
    import torch

    switches = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
    before = [each.fp32_precision for each in switches]
    for each in switches:
        each.fp32_precision = precision
    try:
        yield
    finally:
        for each, value in zip(switches, before):
            each.fp32_precision = value


def predict(model, x: np.ndarray, kind, where: str, layout) -> np.ndarray:
    import torch

    out = []
    with torch.inference_mode():
        for start in range(0, len(x), BATCH):
            part = (
                torch.from_numpy(x[start : start + BATCH])
                .to(where, kind)
                .contiguous(memory_format=layout)
            )
            out.append(model(part).float().cpu().numpy())
    return np.concatenate(out)


def torch_models() -> dict:
    """Each model in float32 on the CPU, with the side of its input."""
    import torch
    import torchvision

    found = {}
    for name, make, size in (
        ("resnet18", torchvision.models.resnet18, 224),
        ("mobilenet_v3_small", torchvision.models.mobilenet_v3_small, 224),
    ):
        torch.manual_seed(0)
        model = make(num_classes=100).eval()
        with (
            torch.no_grad()
        ):  # running statistics of real activations, or logits of drawn weights explode
            for layer in model.modules():
                if isinstance(layer, torch.nn.BatchNorm2d):
                    layer.momentum = None  # the mean over batches
                    layer.reset_running_stats()
            model.train()
            for start in range(0, 100, 50):
                model(
                    torch.from_numpy(
                        inputs(size)[start : start + 50] if not QUICK else inputs(size)[:10]
                    )
                )
            model.eval()
        found[name] = (model, size)
    return found


def lite0():
    """EfficientNet-Lite0 with its ImageNet weights, on the CPU."""
    import timm
    import torch

    model = timm.create_model("tf_efficientnet_lite0")
    model.load_state_dict(torch.load(KIT / "lite0.pt", map_location="cpu", weights_only=True))
    return model.eval()


def arithmetics() -> dict:
    """Name → (precision of products, dtype, channels last, compile, benchmark, deterministic)."""
    import torch

    return {
        "fp32": ("ieee", torch.float32, False, False, False, True), "fp32 channels-last": ("ieee", torch.float32, True, False, False, True),
        "fp32 benchmark": ("ieee", torch.float32, False, False, True, False), "fp32 again": ("ieee", torch.float32, False, False, False, True),
        "tf32": ("tf32", torch.float32, False, False, False, True), "tf32 channels-last": ("tf32", torch.float32, True, False, False, True),
        "fp16": ("ieee", torch.float16, False, False, False, True), "fp16 channels-last": ("ieee", torch.float16, True, False, False, True),
        "bf16": ("ieee", torch.bfloat16, False, False, False, True), "bf16 channels-last": ("ieee", torch.bfloat16, True, False, False, True),
        "fp32 compile": ("ieee", torch.float32, True, True, False, False), "fp16 compile": ("ieee", torch.float16, True, True, False, False),
        "torch default": ("none", torch.float32, False, False, False, False),
    }  # fmt: skip


def distances(logits: dict[str, np.ndarray]) -> dict:
    reference = logits["cpu fp32"]
    out = {}
    for name, got in logits.items():
        gap = np.abs(got.astype(np.float64) - reference)
        out[name] = {
            "mean": float(gap.mean()), "max": float(gap.max()), "finite": bool(np.isfinite(got).all()),
            "changed": int((got.argmax(1) != reference.argmax(1)).sum()), "images": len(got),
        }  # fmt: skip
    return out


def in_torch() -> dict:
    import copy

    import torch

    out: dict = {}
    for name, (model, size) in torch_models().items():
        x, logits, facts = inputs(size), {}, {}
        logits["cpu fp32"] = predict(model, x, torch.float32, "cpu", torch.contiguous_format)
        for label, (
            precision,
            kind,
            last,
            compiled,
            benchmark,
            deterministic,
        ) in arithmetics().items():
            if (QUICK or not has_cuda()) and compiled:
                continue
            start = time.perf_counter()
            try:
                layout = torch.channels_last if last else torch.contiguous_format
                torch.backends.cudnn.benchmark = benchmark
                torch.use_deterministic_algorithms(deterministic, warn_only=True)
                other = copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model
                other = other.to(device(), kind)
                if compiled:
                    other = torch.compile(other.to(memory_format=layout))
                with products(precision):
                    logits[label] = predict(other, x, kind, device(), layout)
                facts[label] = {"seconds": round(time.perf_counter() - start, 2)}
            except Exception as error:  # noqa: BLE001
                facts[label] = said(error)
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.benchmark = False
        np.savez_compressed(
            folder(PART) / f"torch-{name}.npz",
            **{k.replace(" ", "_"): v for k, v in logits.items()},
        )
        out[name] = {"distances": distances(logits), "facts": facts}
        save(PART, "torch.json", out)
    return out


def alone_or_together() -> dict:
    """Does a prediction depend on who else is in the batch? fp32, tf32 and fp16."""
    import torch

    out = {}
    for name, (model, size) in torch_models().items():
        x = inputs(size)[:16]
        for label, (precision, kind) in {
            "fp32": ("ieee", torch.float32),
            "tf32": ("tf32", torch.float32),
            "fp16": ("ieee", torch.float16),
        }.items():
            try:
                placed = model.to(device(), kind)
                with products(precision), torch.inference_mode():
                    together = placed(torch.from_numpy(x).to(device(), kind)).float().cpu()
                    alone = torch.cat(
                        [
                            placed(torch.from_numpy(x[i : i + 1]).to(device(), kind)).float().cpu()
                            for i in range(16)
                        ]
                    )
                out[f"{name} {label}"] = float((together - alone).abs().max())
            except Exception as error:  # noqa: BLE001
                out[f"{name} {label}"] = said(error)
    return out


def in_onnxruntime() -> dict:
    import onnxruntime
    import torch  # noqa: F401  brings CUDA's libraries

    out: dict = {
        "version": onnxruntime.__version__,
        "providers": onnxruntime.get_available_providers(),
    }
    if has_cuda() and hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()
    plans = {"cpu fp32": ("CPUExecutionProvider", {})}
    if "CUDAExecutionProvider" in out["providers"]:
        for tf32 in (0, 1):
            for search in ("HEURISTIC", "EXHAUSTIVE", "DEFAULT"):
                plans[f"cuda {'tf32' if tf32 else 'fp32'} {search}"] = (
                    "CUDAExecutionProvider",
                    {"use_tf32": str(tf32), "cudnn_conv_algo_search": search},
                )
    for name, (model, size) in torch_models().items():
        file = folder(PART) / "exports" / f"{name}.onnx"
        file.parent.mkdir(exist_ok=True)
        sample = torch.from_numpy(inputs(size)[:2])
        try:
            torch.onnx.export(
                model.to("cpu", torch.float32),
                (sample,),
                str(file),
                input_names=["input"],
                output_names=["logits"],
                dynamic_axes={"input": {0: "n"}, "logits": {0: "n"}},
                dynamo=False,
            )
        except Exception as error:  # noqa: BLE001
            out[name] = said(error)
            continue
        x, logits, facts = inputs(size), {}, {}
        for label, (provider, options) in plans.items():
            try:
                session = onnxruntime.InferenceSession(str(file), providers=[(provider, options)])
                if session.get_providers()[0] != provider:
                    raise RuntimeError(f"ran on {session.get_providers()}")
                given = session.get_inputs()[0].name
                logits[label] = np.concatenate(
                    [
                        session.run(None, {given: x[s : s + BATCH]})[0]
                        for s in range(0, len(x), BATCH)
                    ]
                )
                facts[label] = "ok"
            except Exception as error:  # noqa: BLE001
                facts[label] = said(error)
        np.savez_compressed(
            folder(PART) / f"ort-{name}.npz", **{k.replace(" ", "_"): v for k, v in logits.items()}
        )
        file.unlink()
        out[name] = {"facts": facts, "distances": distances(logits) if "cpu fp32" in logits else {}}
    return out


def exact_products() -> dict:
    """Which arithmetic float32 products really use, by numbers that TF32 or bf16 round away."""
    import torch

    out = {}
    for precision in ("ieee", "tf32", "none"):
        with products(precision), torch.inference_mode():
            for value, name in ((1 + 2.0**-12, "keeps 12 bits"), (1 + 2.0**-9, "keeps 9 bits")):
                filled = torch.full((1, 64, 32, 32), value, device=device())
                weights = torch.eye(64, device=device())
                out[f"{precision} matmul {name}"] = bool(
                    (filled[0].reshape(64, -1).T @ weights == value).all()
                )
                out[f"{precision} conv {name}"] = bool(
                    (torch.nn.functional.conv2d(filled, weights[:, :, None, None]) == value).all()
                )
    return out


def race() -> dict:
    """Does decoding in another thread disturb a model on the default stream?

    torchvision's decoder takes its output from the caching allocator of the current stream and writes it on a stream
    of its own without waiting: memory that the model just freed may still be read by kernels under way.
    """
    import threading

    import torch
    import torchvision
    from torchvision.io import ImageReadMode, decode_jpeg

    torch.manual_seed(0)
    model = torchvision.models.resnet18(weights=None).eval().to(device())
    batches = [torch.randn(16, 3, 224, 224, device=device()) for _ in range(4)]
    data = [
        torch.frombuffer(bytearray(each), dtype=torch.uint8)
        for name, each in list(files("photos").items())[:24]
    ]
    out = {}
    with torch.inference_mode(), products("ieee"):
        want = [model(each).cpu() for each in batches]
        for name in ("alone", "decoding on the default stream", "decoding on a stream of its own"):
            stop, decoded, errors = threading.Event(), [0], []

            def decode(own: bool = name.endswith("its own")) -> None:
                stream = torch.cuda.Stream() if own and has_cuda() else None
                while not stop.is_set():
                    for each in data:
                        try:
                            with torch.cuda.stream(stream) if stream else contextlib.nullcontext():
                                decode_jpeg(each, mode=ImageReadMode.RGB, device=device()).cpu()
                            decoded[0] += 1
                        except Exception as error:  # noqa: BLE001
                            errors.append(said(error, 100))
                            return

            threads = [] if name == "alone" else [threading.Thread(target=decode) for _ in range(2)]
            for each in threads:
                each.start()
            wrong = runs = 0
            worst, began = 0.0, time.perf_counter()
            while time.perf_counter() - began < (1 if QUICK else 5):
                got = [model(each) for each in batches]
                for one, other in zip(got, want):
                    gap = float((one.cpu() - other).abs().max())
                    worst, wrong, runs = max(worst, gap), wrong + (gap > 1e-3), runs + 1
            stop.set()
            for each in threads:
                each.join()
            out[name] = {
                "batches": runs,
                "wrong by more than 1e-3": wrong,
                "greatest": worst,
                "decoded meanwhile": decoded[0],
                "errors": errors[:3],
            }
    return out


if __name__ == "__main__":
    require_cuda(PART)
    every = {
        "products": exact_products,
        "torch": in_torch,
        "batch": alone_or_together,
        "race": race,
        "onnxruntime": in_onnxruntime,
    }
    if "quick" in sys.argv:  # no kernels are generated
        slow, arithmetics = (
            arithmetics,
            lambda: {name: way for name, way in slow().items() if not way[3]},
        )
        del every["onnxruntime"]
    if "only=onnxruntime" in sys.argv:
        every = {"onnxruntime": in_onnxruntime}
    raise SystemExit(main_of(PART, every))
