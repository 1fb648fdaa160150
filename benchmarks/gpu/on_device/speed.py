"""Part 6: images a second. Nothing else may run meanwhile."""

from __future__ import annotations

import io
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from common import QUICK, device, files, has_cuda, main_of, rate, require_cuda, said

PART = "speed"


def photos(side: int, number: int = 64) -> list[bytes]:
    """The photographs as squares of one size, 4:2:0, quality 90."""
    from PIL import Image

    found = []
    for data in list(files("photos").values())[: 8 if QUICK else number]:
        target = io.BytesIO()
        Image.open(io.BytesIO(data)).convert("RGB").resize((side, side)).save(
            target, "JPEG", quality=90
        )
        found.append(target.getvalue())
    return found


def decoders(side: int) -> dict:
    import simplejpeg
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    data = photos(side)
    tensors = [torch.frombuffer(bytearray(each), dtype=torch.uint8) for each in data]
    out: dict = {}
    torch.set_num_threads(1)

    def timed(name, call):
        try:
            out[name] = rate(call, len(data), seconds=0.3 if QUICK else 1.5)
        except Exception as error:  # noqa: BLE001
            out[name] = said(error)

    timed("simplejpeg, 1 thread", lambda: [simplejpeg.decode_jpeg(each) for each in data])
    for threads in (4, 16):
        with ThreadPoolExecutor(threads) as pool:
            timed(
                f"simplejpeg, {threads} threads",
                lambda: list(pool.map(simplejpeg.decode_jpeg, data)),
            )
    import cv2

    cv2.setNumThreads(1)
    arrays = [np.frombuffer(each, np.uint8) for each in data]
    with ThreadPoolExecutor(16) as pool:
        timed(
            "opencv, 16 threads",
            lambda: list(pool.map(lambda each: cv2.imdecode(each, cv2.IMREAD_COLOR), arrays)),
        )
    place, rgb = device(), ImageReadMode.RGB
    timed(
        "torchvision cuda, one by one",
        lambda: [decode_jpeg(each, mode=rgb, device=place) for each in tensors],
    )
    timed(
        "torchvision cuda, one by one, to the CPU",
        lambda: [decode_jpeg(each, mode=rgb, device=place).cpu() for each in tensors],
    )
    timed("torchvision cuda, batch", lambda: decode_jpeg(tensors, mode=rgb, device=place))
    timed(
        "torchvision cuda, batch, to the CPU",
        lambda: [each.cpu() for each in decode_jpeg(tensors, mode=rgb, device=place)],
    )
    try:
        from nvidia import nvimgcodec

        streams = [nvimgcodec.CodeStream(each) for each in data]
        for name, kinds in {
            "cuda": ("GPU_ONLY", "HYBRID_CPU_GPU"),
            "gpu only": ("GPU_ONLY",),
            "hybrid": ("HYBRID_CPU_GPU",),
            "engine": ("HW_GPU_ONLY",),
            "default": (),
        }.items():
            for fancy in (0, 1):
                given = (
                    {
                        "backends": [
                            nvimgcodec.Backend(getattr(nvimgcodec.BackendKind, kind))
                            for kind in kinds
                        ]
                    }
                    if kinds
                    else {}
                )
                try:
                    decoder = nvimgcodec.Decoder(options=f":fancy_upsampling={fancy}", **given)
                    if any(each is None for each in decoder.decode(streams)):
                        raise RuntimeError("no image")
                    timed(
                        f"nvimgcodec {name} fancy={fancy}, batch", lambda: decoder.decode(streams)
                    )
                except Exception as error:  # noqa: BLE001
                    out[f"nvimgcodec {name} fancy={fancy}"] = said(error)
    except Exception as error:  # noqa: BLE001
        out["nvimgcodec"] = said(error)
    if "dali" in sys.argv:
        for load in (0.0, 0.65, 1.0):
            try:
                out[f"dali mixed hw_decoder_load={load}"] = dali(arrays, load)
            except Exception as error:  # noqa: BLE001
                out[f"dali {load}"] = said(error)
    return out


def dali(arrays, load: float) -> dict:
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=len(arrays), num_threads=8, device_id=0, prefetch_queue_depth=1)
    def pipe():
        data = fn.external_source(source=[arrays], batch=True, cycle=True)
        return fn.decoders.image(data, device="mixed", output_type=types.RGB, hw_decoder_load=load)

    built = pipe()
    built.build()
    return rate(built.run, len(arrays), seconds=1.5)


def closed_loop() -> dict:
    """torchpipe's table without alignkit: clients that decode, resize and wait for one ResNet-50 (batch 1)."""
    import threading
    import time

    import cv2
    import torch
    import torchvision
    from torchvision.io import ImageReadMode, decode_jpeg

    cv2.setNumThreads(1)
    data = photos(1080, 32)
    place = device()
    mean, std = (
        torch.tensor(v, device=place)[:, None, None]
        for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    )
    model = torchvision.models.resnet50(weights=None).eval().to(place)
    lock = threading.Lock()

    def by_cpu(encoded):
        image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
        image = cv2.cvtColor(cv2.resize(image, (224, 224)), cv2.COLOR_BGR2RGB)
        return (torch.from_numpy(image).to(place).permute(2, 0, 1).float() / 255 - mean) / std

    def by_gpu(encoded):
        planes = decode_jpeg(
            torch.frombuffer(bytearray(encoded), dtype=torch.uint8),
            mode=ImageReadMode.RGB,
            device=place,
        )
        planes = torch.nn.functional.interpolate(
            planes[None].float(), (224, 224), mode="bilinear", align_corners=True
        )[0]
        return (planes / 255 - mean) / std

    def load(prepare, kind, clients, seconds):
        placed = model.to(dtype=kind)
        spent: list[float] = []
        stop = time.perf_counter() + seconds

        def client(number):
            index = number
            with torch.inference_mode():
                while time.perf_counter() < stop:
                    start = time.perf_counter()
                    batch = prepare(data[index % len(data)])[None].to(kind)
                    with lock:
                        placed(batch).float().cpu()
                    spent.append(time.perf_counter() - start)
                    index += clients

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        begin = time.perf_counter()
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        took = 1000 * np.array(spent)
        return {
            "requests": len(spent),
            "per_s": round(len(spent) / (time.perf_counter() - begin), 1),
            "mean": round(float(took.mean()), 2),
            "tp50": round(float(np.median(took)), 2),
            "tp99": round(float(np.quantile(took, 0.99)), 2),
        }

    out: dict = {"cpus": len(os.sched_getaffinity(0)), "rounds": []}
    every = sorted(os.sched_getaffinity(0))
    for cpus in (3, len(every)):  # the source limits its server to three CPUs
        os.sched_setaffinity(0, every[:cpus])
        for kind in (torch.float32, torch.float16):
            if QUICK and kind == torch.float16:
                continue
            for clients in (1, 5, 10):
                for turn in range(1 if QUICK else 3):
                    for name, prepare in (("cpu", by_cpu), ("gpu", by_gpu)):
                        if turn == 0:
                            load(prepare, kind, clients, 0.3)
                        out["rounds"].append(
                            {
                                "cpus": cpus,
                                "kind": str(kind),
                                "clients": clients,
                                "decode": name,
                                **load(prepare, kind, clients, 0.5 if QUICK else 1.0),
                            }
                        )
    os.sched_setaffinity(0, every)
    return out


def training() -> dict:
    """ResNet-50 training steps at 224 px: with random tensors on the GPU, torch's DataLoader, and decoding on the GPU."""
    import time

    import torch
    import torchvision
    from torchvision.io import ImageReadMode, decode_jpeg

    place, batch = device(), 4 if QUICK else 64
    data = photos(400)
    out = {}
    for name, amp in (("fp32", None), ("amp bf16", torch.bfloat16)):
        model = torchvision.models.resnet50(weights=None, num_classes=12).to(
            place, memory_format=torch.channels_last
        )
        optimiser = torch.optim.SGD(model.parameters(), 0.01)

        def train(x):
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast(place, amp or torch.bfloat16, enabled=amp is not None):
                loss = torch.nn.functional.cross_entropy(
                    model(x.to(memory_format=torch.channels_last)),
                    torch.zeros(len(x), dtype=torch.long, device=place),
                )
            loss.backward()
            optimiser.step()

        x = torch.randn(batch, 3, 224, 224, device=place)
        out[f"{name}, tensors on the GPU"] = rate(
            lambda: train(x), batch, seconds=0.2 if QUICK else 2
        )
        tensors = [
            torch.frombuffer(bytearray(data[i % len(data)]), dtype=torch.uint8)
            for i in range(batch)
        ]

        def on_gpu():
            found = decode_jpeg(tensors, mode=ImageReadMode.RGB, device=place)
            return (
                torch.stack(
                    [
                        torch.nn.functional.interpolate(
                            each[None].float(), (224, 224), mode="bilinear", antialias=True
                        )[0]
                        for each in (found if isinstance(found, list) else [found])
                    ]
                )
                / 255
            )

        out[f"{name}, decoded on the GPU"] = rate(
            lambda: train(on_gpu()), batch, seconds=0.2 if QUICK else 2
        )
        loader = torch.utils.data.DataLoader(
            Files(data, 2 * batch if QUICK else 40 * batch),
            batch,
            num_workers=1 if QUICK else 14,
            pin_memory=has_cuda(),
            persistent_workers=False,
        )
        began, seen = None, 0
        for step, images in enumerate(loader):
            train(images.to(place, non_blocking=True))
            if step == 3 or (QUICK and step == 0):
                began = time.perf_counter()
            elif began is not None:
                seen += len(images)
        if has_cuda():
            torch.cuda.synchronize()
        out[f"{name}, DataLoader, 14 workers"] = {
            "images_per_s": round(seen / (time.perf_counter() - began), 1) if seen else None
        }
    return out


class Files:
    """Files decoded by OpenCV in the loader's workers."""

    def __init__(self, data: list[bytes], length: int) -> None:
        self.data, self.length = data, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int):
        import cv2
        import torch

        cv2.setNumThreads(1)
        image = cv2.imdecode(
            np.frombuffer(self.data[index % len(self.data)], np.uint8), cv2.IMREAD_COLOR
        )
        return (
            torch.from_numpy(cv2.resize(image, (224, 224))[:, :, ::-1].copy())
            .permute(2, 0, 1)
            .float()
            / 255
        )


if __name__ == "__main__":
    require_cuda(PART)
    steps = {
        "decode 224": lambda: decoders(224),
        "decode 1080": lambda: decoders(1080),
        "closed loop": closed_loop,
        "training": training,
    }
    if "dali" in sys.argv:
        steps = {"decode 1080 with dali": lambda: decoders(1080)}
    raise SystemExit(main_of(PART + ("-dali" if "dali" in sys.argv else ""), steps))
