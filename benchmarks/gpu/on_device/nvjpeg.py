"""Part 2: what every way to decode a JPEG on this GPU makes of the probes, the odd and hostile files and the photos.

    python nvjpeg.py            run every way, four processes at a time
    python nvjpeg.py --way W    one way, into WORK/nvjpeg/W.json and W.npz (used by the above)
    python nvjpeg.py --compare  predictions of nvjpeg-model and CPU decoders, and who equals whom

Outputs are kept by content: `pixels.npz` holds each different picture of a probe once, `ways.json` says which way
gave which for which file, so that a rule can be fitted later without a GPU. No alignkit in the capture.
"""

from __future__ import annotations

import argparse
import ctypes
import glob
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from common import (
    QUICK,
    device,
    differences,
    digest,
    files,
    folder,
    has_cuda,
    require_cuda,
    said,
    save,
    trace,
)

PART = "nvjpeg"
SOURCES = ("probes", "odd-jpegs", "hostile-jpegs", "photos")
FULL = ("probes", "odd-jpegs")
"""Sources whose pixels come back whole; of the others the digest, and residuals of those that differ."""
BACKENDS = {"default": 0, "hybrid": 1, "gpuhybrid": 2, "hardware": 3}
RGB_INTERLEAVED, POISON = 5, 113
"""``NVJPEG_OUTPUT_RGBI``; what a sample holds that nobody wrote."""


def jpegs() -> dict[str, bytes]:
    found = files(*SOURCES)
    return dict(list(found.items())[::10]) if QUICK else found


# ---- ways -----------------------------------------------------------------------------------------------------------


def torchvision_way(batch: int, where: str | None = None):
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    place = where or device()

    def decode(many):
        data = [torch.frombuffer(bytearray(each), dtype=torch.uint8) for each in many]
        found = (
            decode_jpeg(data, mode=ImageReadMode.RGB, device=place)
            if len(data) > 1
            else [decode_jpeg(data[0], mode=ImageReadMode.RGB, device=place)]
        )
        return [each.cpu().permute(1, 2, 0).contiguous().numpy() for each in found]

    return decode, batch


class Image(ctypes.Structure):
    _fields_ = [("channel", ctypes.c_void_p * 4), ("pitch", ctypes.c_size_t * 4)]


def nvjpeg_library(which: str):
    import torch  # noqa: F401  it loads CUDA's libraries
    import torchvision

    if which == "bundled":
        found = glob.glob(
            str(Path(torchvision.__file__).parents[1] / "torchvision.libs/libnvjpeg*")
        )
    else:
        found = [
            f
            for each in sys.path
            if each
            for f in glob.glob(str(Path(each) / "nvidia/cu13/lib/libnvjpeg.so*"))
        ]
    if not found:
        raise RuntimeError(f"no {which} nvJPEG on this machine")
    return ctypes.CDLL(min(found))


class Nvjpeg:
    """One backend of an nvJPEG; a call that fails raises `RuntimeError` with its status."""

    def __init__(self, which: str, backend: str, flags: int = 0) -> None:
        import torch

        torch.cuda.init()
        self.library, self.backend = nvjpeg_library(which), backend
        self.handle, self.state, self.header = (ctypes.c_void_p() for _ in range(3))
        create = (BACKENDS[backend], None, None, ctypes.c_uint(flags), ctypes.byref(self.handle))
        self.call("nvjpegCreateEx", *create)
        self.call("nvjpegJpegStateCreate", self.handle, ctypes.byref(self.state))
        self.call("nvjpegJpegStreamCreate", self.handle, ctypes.byref(self.header))

    def call(self, name, *arguments) -> None:
        if status := getattr(self.library, name)(*arguments):
            raise RuntimeError(f"{name} returned status {status}")

    def sizes(self, data: bytes) -> tuple[int, list[tuple[int, int]]]:
        """Return nvJPEG's number of the subsampling, and (height, width) of each component."""
        parts, kind = ctypes.c_int(), ctypes.c_int()
        widths, heights = (ctypes.c_int * 4)(), (ctypes.c_int * 4)()
        told = (ctypes.byref(parts), ctypes.byref(kind), widths, heights)
        self.call("nvjpegGetImageInfo", self.handle, data, ctypes.c_size_t(len(data)), *told)
        return kind.value, [(heights[each], widths[each]) for each in range(parts.value)]

    def decode(self, data: bytes, output: int, image: Image) -> None:
        """Decode into the channels of an image; a file that is not for the engine is refused."""
        import torch

        length, target = ctypes.c_size_t(len(data)), (ctypes.byref(image), None)
        torch.cuda.synchronize()
        if self.backend == "hardware":
            self.call("nvjpegJpegStreamParseHeader", self.handle, data, length, self.header)
            answer = ctypes.c_int(-1)
            asked = (self.handle, self.header, ctypes.byref(answer))
            self.call("nvjpegDecodeBatchedSupported", *asked)
            if answer.value:
                raise RuntimeError(
                    f"nvjpegDecodeBatchedSupported says {answer.value}: not for the engine"
                )
            self.call("nvjpegDecodeBatchedInitialize", self.handle, self.state, 1, 1, output)
            one, sizes = (ctypes.c_char_p * 1)(data), (ctypes.c_size_t * 1)(len(data))
            self.call("nvjpegDecodeBatched", self.handle, self.state, one, sizes, *target)
        else:
            self.call("nvjpegDecode", self.handle, self.state, data, length, output, *target)
        torch.cuda.synchronize()


def nvjpeg_way(backend: str, flags: int, which: str):
    import torch

    if not has_cuda():
        raise RuntimeError("no CUDA")
    opened = Nvjpeg(which, backend, flags)

    def decode(many):
        (data,) = many
        if len(data) < 4:
            raise RuntimeError("empty")
        _, sizes = opened.sizes(data)
        height, width = sizes[0]
        if not 0 < height * width < 50_000_000:
            raise RuntimeError(f"size {height}x{width}")
        pixels = torch.full((height, width, 3), POISON, dtype=torch.uint8, device="cuda")
        image = Image()
        image.channel[0], image.pitch[0] = pixels.data_ptr(), 3 * width
        opened.decode(data, RGB_INTERLEAVED, image)
        return [pixels.cpu().numpy()]

    return decode, 1


def nvimgcodec_way(fancy: int, *kinds: str):
    from nvidia import nvimgcodec

    given = (
        {}
        if not kinds
        else {
            "backends": [
                nvimgcodec.Backend(getattr(nvimgcodec.BackendKind, kind)) for kind in kinds
            ]
        }
    )
    if kinds == ("CPU_ONLY",):
        given["device_id"] = nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY
    decoder = nvimgcodec.Decoder(
        options=f":fancy_upsampling={fancy}", max_num_cpu_threads=2, **given
    )
    parameters = nvimgcodec.DecodeParams(apply_exif_orientation=False)

    def decode(many):
        image = decoder.decode(nvimgcodec.CodeStream(many[0]), params=parameters)
        if image is None:
            raise RuntimeError("no image")
        return [np.array(image.cpu())]

    return decode, 1


def dali_way(load: float, fancy: bool, batch: int = 8, where: str = "mixed"):
    """DALI's pipeline, not its dynamic mode: hw_decoder_load is a share of a batch."""
    from nvidia.dali import fn, pipeline_def, types

    options = {"hw_decoder_load": load, "jpeg_fancy_upsampling": fancy} if where == "mixed" else {}

    def decode(many):
        @pipeline_def(
            batch_size=len(many),
            num_threads=2,
            device_id=0 if where == "mixed" else None,
            prefetch_queue_depth=1,
        )
        def pipe():
            data = fn.external_source(
                source=[[np.frombuffer(each, np.uint8) for each in many]], batch=True, cycle=True
            )
            return fn.decoders.image(
                data, device=where, output_type=types.RGB, adjust_orientation=False, **options
            )

        built = pipe()
        built.build()
        (found,) = built.run()
        found = found.as_cpu() if hasattr(found, "as_cpu") and where == "mixed" else found
        return [np.array(found.at(index)) for index in range(len(many))]

    return decode, batch


def torchpipe_way():
    import omniback
    import torchpipe  # noqa: F401
    from torch.utils.dlpack import from_dlpack

    backend = omniback.init("DecodeTensor", {"color": "rgb", "data_format": "hwc"})

    def decode(many):
        request = {"data": many[0]}
        backend(request)
        if "result" not in request:
            raise RuntimeError("no result")
        found = from_dlpack(request["result"])
        return [found.reshape(found.shape[-3:]).cpu().numpy()]

    return decode, 1


WAYS = {
    "torchvision-one": lambda: torchvision_way(1),
    "torchvision-batch": lambda: torchvision_way(16),
    "nvjpeg-default": lambda: nvjpeg_way("default", 0, "bundled"),
    "nvjpeg-default-fancy": lambda: nvjpeg_way("default", 32, "bundled"),
    "nvjpeg-hybrid": lambda: nvjpeg_way("hybrid", 0, "bundled"),
    "nvjpeg-gpuhybrid": lambda: nvjpeg_way("gpuhybrid", 0, "bundled"),
    "nvjpeg-gpuhybrid-fancy": lambda: nvjpeg_way("gpuhybrid", 32, "bundled"),
    "nvjpeg-hardware": lambda: nvjpeg_way("hardware", 0, "bundled"),
    "nvjpeg-hardware-fancy": lambda: nvjpeg_way("hardware", 32, "bundled"),
    "nvjpeg133-default": lambda: nvjpeg_way("default", 0, "carried"),
    "nvjpeg133-default-fancy": lambda: nvjpeg_way("default", 32, "carried"),
    "nvjpeg133-hardware": lambda: nvjpeg_way("hardware", 0, "carried"),
    "nvjpeg133-hardware-fancy": lambda: nvjpeg_way("hardware", 32, "carried"),
    # GPU_ONLY alone builds no decoder: on an H100, 0.9.0 says "Could not create decoder"
    "nvimgcodec-hybrid": lambda: nvimgcodec_way(0, "HYBRID_CPU_GPU"),
    "nvimgcodec-hybrid-fancy": lambda: nvimgcodec_way(1, "HYBRID_CPU_GPU"),
    "nvimgcodec-hardware": lambda: nvimgcodec_way(0, "HW_GPU_ONLY"),
    "nvimgcodec-hardware-fancy": lambda: nvimgcodec_way(1, "HW_GPU_ONLY"),
    "nvimgcodec-default": lambda: nvimgcodec_way(1),
    "dali-mixed-hw0": lambda: dali_way(0.0, False),
    "dali-mixed-hw065": lambda: dali_way(0.65, False),
    "dali-mixed-hw1": lambda: dali_way(1.0, False),
    "dali-mixed-hw0-fancy": lambda: dali_way(0.0, True),
    "dali-mixed-hw1-fancy": lambda: dali_way(1.0, True),
    "torchpipe": torchpipe_way,
}
CPU_WAYS = {
    "cpu-torchvision": lambda: torchvision_way(1, "cpu"),
    "cpu-nvimgcodec": lambda: nvimgcodec_way(0, "CPU_ONLY"),
    "cpu-nvimgcodec-fancy": lambda: nvimgcodec_way(1, "CPU_ONLY"),
    "cpu-dali": lambda: dali_way(0.0, False, where="cpu"),
}
MODULES = {"nvimgcodec": "nvidia.nvimgcodec", "dali": "nvidia.dali", "torchpipe": "torchpipe"}


def chosen() -> dict:
    every = {**WAYS, **CPU_WAYS}
    wanted = [each for each in sys.argv[1:] if each.startswith("only=")]
    if wanted:
        begins = tuple(wanted[0][5:].split(","))
        every = {name: way for name, way in every.items() if name.startswith(begins)}
    return every


def in_batches(names: list[str], most: int):
    """Batches of one folder and one beginning, so that a refusal hits its own kind."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault("-".join(name.split("-")[:2]), []).append(name)
    for group in groups.values():
        for start in range(0, len(group), most):
            yield group[start : start + most]


def one_way(name: str) -> int:
    """Decode every file twice in one way; write what it gave."""
    out: dict = {"way": name, "files": {}, "seconds": 0.0}
    kept: dict[str, np.ndarray] = {}
    every, began = jpegs(), time.perf_counter()
    if has_cuda():  # a hostile file may declare gigabytes, which other processes need
        import torch

        torch.cuda.set_per_process_memory_fraction(0.15)
    try:
        decode, batch = {**WAYS, **CPU_WAYS}[name]()
    except BaseException as error:  # noqa: BLE001
        save(PART, f"{name}.json", {"way": name, "failed": said(error, 800), "trace": trace()})
        return 0
    # hostile files last: one may leave the GPU in an error that nothing clears
    order = [n for n in every if not n.startswith("hostile")] + [
        n for n in every if n.startswith("hostile")
    ]
    target = folder(PART)
    for position, batch_names in enumerate(in_batches(order, batch)):
        try:
            found = decode([every[each] for each in batch_names])
        except Exception as error:  # noqa: BLE001
            if len(batch_names) > 1:  # each alone
                found = []
                for each in batch_names:
                    try:
                        found.append(decode([every[each]])[0])
                    except Exception as lone:  # noqa: BLE001
                        found.append(lone)
            else:
                found = [error]
        for each, pixels in zip(batch_names, found):
            if isinstance(pixels, BaseException):
                out["files"][each] = {"error": said(pixels, 200)}
                continue
            key = digest(pixels)
            fact = {"sha": key, "shape": list(pixels.shape), "dtype": str(pixels.dtype)}
            try:
                again = (
                    digest(decode([every[each]])[0]) if batch == 1 and position % 3 == 0 else key
                )
            except Exception as error:  # noqa: BLE001
                again = said(error, 120)
            if again != key:
                fact["second time"] = again
            out["files"][each] = fact
            kept[key] = pixels
        if position % 20 == 0:  # a crash later keeps what there is
            out["seconds"] = round(time.perf_counter() - began, 1)
            save(PART, f"{name}.json", out)
    out["seconds"] = round(time.perf_counter() - began, 1)
    # whole or not at all: a process that ran out of time leaves no half file
    np.savez(target / f"{name}.unfinished.npz", **kept)
    (target / f"{name}.unfinished.npz").replace(target / f"{name}.npz")
    save(PART, f"{name}.json", out)
    return 0


def run_way(name: str) -> str:
    library = next((module for start, module in MODULES.items() if start in name), "")
    if library:
        from importlib.util import find_spec

        try:
            missing = find_spec(library) is None
        except ModuleNotFoundError:
            missing = True
        if missing:
            save(PART, f"{name}.json", {"way": name, "failed": f"{library} is not carried"})
            return "not carried"
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--way", name], capture_output=True, text=True, timeout=100
        )
        end, words = done.returncode, done.stderr[-600:]
    except subprocess.TimeoutExpired:
        end, words = "timed out", ""
    found = folder(PART) / f"{name}.json"
    facts = json.loads(found.read_text()) if found.exists() else {"way": name, "files": {}}
    if end != 0:
        facts["process"] = f"{end}: {words}"
        save(PART, f"{name}.json", facts)
    if "failed" in facts:
        return f"failed: {facts['failed'][:160]}"
    errors = sum("error" in each for each in facts["files"].values())
    return f"{len(facts['files']) - errors} decoded, {errors} refused in {facts.get('seconds')} s{'' if end == 0 else f', process {end}'}"


def run_all() -> int:
    require_cuda(PART)
    names = list(chosen())
    with ThreadPoolExecutor(4) as pool:
        for name, words in zip(names, pool.map(run_way, names)):
            print(f"nvjpeg {name}: {words}", flush=True)
    return 0


# ---- comparison -----------------------------------------------------------------------------------------------------


CORES = {"dct": "float-up", "colour": "even"}
RULES = {
    "13 cores": CORES,
    "13 cores interpolate": CORES | {"upsampling": "interpolate"},
    "13 engine": CORES | {"engine": True},
    "13 engine interpolate": CORES | {"engine": True, "upsampling": "interpolate"},
    "12 cores": {},
    "12 cores interpolate": {"upsampling": "interpolate"},
}
"""Rules of nvjpeg-model: nvJPEG's release, and whether the JPEG engine takes the files that it can."""


def predictions(item: tuple[str, bytes]) -> tuple[str, dict]:
    """Pixels of a file by every rule and library of the CPU."""
    name, data = item
    found: dict = {}
    import cv2

    cv2.setNumThreads(1)
    try:
        from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
        from alignkit.decoders.simplejpeg import SimpleJPEGDecoder

        makers = {rule: NvjpegModelDecoder(**options) for rule, options in RULES.items()}
        makers |= {
            "simplejpeg": SimpleJPEGDecoder(),
            "simplejpeg nearest": SimpleJPEGDecoder(chroma="nearest"),
        }
        for rule, decoder in makers.items():
            decoded = decoder.decode(data)
            found[rule] = (
                decoded.image
                if decoded.image is not None
                else f"{decoded.outcome}: {decoded.reason}"[:120]
            )
    except Exception as error:  # noqa: BLE001
        found["alignkit"] = said(error)
    image = (
        cv2.imdecode(
            np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
        )
        if data
        else None
    )
    found["opencv"] = "no image" if image is None else cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    return name, found


def compare() -> int:
    from multiprocessing import Pool, cpu_count

    target = folder(PART)
    ways = {
        each.stem: json.loads(each.read_text())
        for each in sorted(target.glob("*.json"))
        if each.stem in {**WAYS, **CPU_WAYS}
    }
    pixels: dict[str, np.ndarray] = {}
    for name in ways:
        if (target / f"{name}.npz").exists():
            with np.load(target / f"{name}.npz") as stored:
                pixels |= {key: stored[key] for key in stored.files if key not in pixels}
    every = {name: data for name, data in jpegs().items() if not name.startswith("hostile")}
    with Pool(min(16, cpu_count())) as pool:
        predicted = dict(pool.imap_unordered(predictions, every.items(), chunksize=2))
    table: dict = {}
    nearest: dict[str, tuple[float, str]] = {}
    for way, facts in ways.items():
        table[way] = {}
        for file, fact in facts.get("files", {}).items():
            if "sha" not in fact or file not in predicted or fact["sha"] not in pixels:
                continue
            got, row = pixels[fact["sha"]], {}
            for rule, image in predicted[file].items():
                if isinstance(image, np.ndarray):
                    row[rule] = differences(got, image)
                    wrong = row[rule].get("wrong")
                    if wrong is not None and (
                        fact["sha"] not in nearest or wrong < nearest[fact["sha"]][0]
                    ):
                        nearest[fact["sha"]] = (wrong, rule)
                else:
                    row[rule] = image
            table[way][file] = row
    save(PART, "table.json", table)
    names = {
        way: {
            file: fact.get("sha", fact.get("error"))
            for file, fact in facts.get("files", {}).items()
        }
        for way, facts in ways.items()
    }
    save(PART, "ways.json", {"ways": ways, "equal": equal_ways(names)})
    keep_pixels(ways, pixels, predicted, nearest)
    return 0


def equal_ways(names: dict) -> dict:
    """How many files each pair of ways decoded to the same pixels, of those both decoded."""
    found = {}
    listed = list(names)
    for first, one in enumerate(listed):
        for other in listed[first + 1 :]:
            both = [
                f
                for f in names[one]
                if f in names[other] and len(str(names[one][f])) == len(str(names[other][f])) == 16
            ]
            if both:
                found[f"{one} = {other}"] = [
                    sum(names[one][f] == names[other][f] for f in both),
                    len(both),
                ]
    return found


def keep_pixels(ways, pixels, predicted, nearest, most=20 << 20) -> None:
    """Probes and odd files whole; photos as the residual from the nearest rule, until ``most`` bytes."""
    where: dict[str, str] = {}
    for facts in ways.values():
        for file, fact in facts.get("files", {}).items():
            if "sha" in fact:
                where.setdefault(fact["sha"], file)
    whole = {
        sha: pixels[sha]
        for sha, file in where.items()
        if file.startswith(FULL) and sha in pixels and pixels[sha].size < 400_000
    }
    np.savez_compressed(folder(PART) / "pixels.npz", **whole)
    residuals, used = {}, 0
    for sha, file in where.items():
        if file.startswith(FULL) or sha not in pixels or sha not in nearest or nearest[sha][0] == 0:
            continue
        residual = pixels[sha].astype(np.int16) - predicted[file][nearest[sha][1]].astype(np.int16)
        used += residual.size // 4
        if used > most:
            break
        residuals[sha] = residual.astype(np.int8) if np.abs(residual).max() < 128 else residual
    np.savez_compressed(folder(PART) / "residuals.npz", **residuals)
    save(
        PART,
        "residuals.json",
        {
            sha: {"file": where[sha], "from": nearest[sha][1], "wrong": nearest[sha][0]}
            for sha in residuals
        },
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--way")
    parser.add_argument("--compare", action="store_true")
    given, _ = parser.parse_known_args()
    raise SystemExit(one_way(given.way) if given.way else compare() if given.compare else run_all())
