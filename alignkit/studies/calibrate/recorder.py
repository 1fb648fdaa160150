"""Record what the JPEG decoders of this machine make of small JPEG files, to compare elsewhere.

    python record.py [FOLDER] [--out pairs] [--device cuda|cpu]

Needs torch and torchvision, no other library. Every way to decode runs in a process of its own:
torchvision one by one and in batches, nvJPEG itself on each of its backends and with interpolated
chroma, and nvImageCodec and DALI where they are installed. FOLDER adds JPEG files of your own.

Each way gets a folder below --out: every JPEG, its pixels beside it as a PPM file, and facts.json:
GPU, driver, versions, flags, and every failure with its reason. All of it is packed into one .zip,
which holds nothing else of this machine. `alignkit calibrate --pairs FOLDER` compares it.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import util
from pathlib import Path
from typing import Any, TypeAlias

JPEGS: dict[str, str] = {}

Decode: TypeAlias = Callable[[list[bytes]], list[Any]]
"""Encoded files → uint8 tensors (height, width, 3), RGB, on the CPU."""

BATCH = 16
"""Most files of a batch."""
RGB_INTERLEAVED = 5
"""``NVJPEG_OUTPUT_RGBI``."""
NVJPEG_BACKENDS = {"default": 0, "hybrid": 1, "gpu-hybrid": 2, "hardware": 3}
INTERPOLATION = 32
"""``NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION``, since CUDA 12.1."""
JPEG_ENGINE = "hardware JPEG engine"
CORES = "CUDA cores"


@dataclass(frozen=True)
class Way:
    """One way to decode on this machine."""

    decoder: str
    engine: str
    """The part of the machine that decodes, as far as the library's documentation tells."""
    make: Callable[[], Decode]
    flags: int = 0
    batch: int = 1
    """Most files of one call."""
    module: str = ""
    """Library that must be installed."""


def torchvision_on(device: str) -> Decode:
    """Decode by torchvision, all files in one call if there are several."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    def decode(files: list[bytes]) -> list[Any]:
        data = [torch.frombuffer(bytearray(each), dtype=torch.uint8) for each in files]
        given = data if len(data) > 1 else data[0]
        found = decode_jpeg(given, mode=ImageReadMode.RGB, device=device)
        images = found if isinstance(found, list) else [found]
        return [each.cpu().permute(1, 2, 0).contiguous() for each in images]

    return decode


class NvjpegImage(ctypes.Structure):
    """``nvjpegImage_t``."""

    _fields_ = [("channel", ctypes.c_void_p * 4), ("pitch", ctypes.c_size_t * 4)]


def nvjpeg_library() -> ctypes.CDLL:
    """Load the nvJPEG that torchvision carries, or that of the CUDA packages or the system."""
    import torchvision  # loads the CUDA libraries that nvJPEG needs

    packages = Path(torchvision.__file__).parents[1]
    names = ("torchvision.libs/libnvjpeg*", "nvidia/*/lib/libnvjpeg.so*", "torch/lib/libnvjpeg*")
    found = [str(each) for name in names for each in sorted(packages.glob(name))]
    return ctypes.CDLL(found[0] if found else "libnvjpeg.so")


def called(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    """Call a function of nvJPEG; raise `RuntimeError` with its status if it fails."""
    if status := getattr(library, name)(*arguments):
        raise RuntimeError(f"{name} returned status {status}")


def nvjpeg_on(backend: str, flags: int = 0) -> Decode:
    """Decode by nvJPEG itself on one backend; the hardware engine takes batches, here of one."""
    import torch

    torch.cuda.init()  # type: ignore[no-untyped-call]
    library = nvjpeg_library()
    handle, state = ctypes.c_void_p(), ctypes.c_void_p()
    flagged = ctypes.c_uint(flags)
    called(
        library,
        "nvjpegCreateEx",
        NVJPEG_BACKENDS[backend],
        None,
        None,
        flagged,
        ctypes.byref(handle),
    )
    called(library, "nvjpegJpegStateCreate", handle, ctypes.byref(state))
    header, unsupported = ctypes.c_void_p(), ctypes.c_int()
    called(library, "nvjpegJpegStreamCreate", handle, ctypes.byref(header))

    def decode(files: list[bytes]) -> list[Any]:
        (data,) = files
        length = ctypes.c_size_t(len(data))
        parts, kind = ctypes.c_int(), ctypes.c_int()
        widths, heights = (ctypes.c_int * 4)(), (ctypes.c_int * 4)()
        sizes = (ctypes.byref(parts), ctypes.byref(kind), widths, heights)
        called(library, "nvjpegGetImageInfo", handle, data, length, *sizes)
        if backend == "hardware":
            # for a file that is not for it the engine may report success and write nothing
            called(library, "nvjpegJpegStreamParseHeader", handle, data, length, header)
            asked = (handle, header, ctypes.byref(unsupported))
            called(library, "nvjpegDecodeBatchedSupported", *asked)
            if unsupported.value:
                raise RuntimeError("nvjpegDecodeBatchedSupported: not for the JPEG engine")
        pixels = torch.zeros((heights[0], widths[0], 3), dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        image = NvjpegImage()
        image.channel[0], image.pitch[0] = pixels.data_ptr(), 3 * widths[0]
        if backend == "hardware":
            called(library, "nvjpegDecodeBatchedInitialize", handle, state, 1, 1, RGB_INTERLEAVED)
            one = (ctypes.c_char_p * 1)(data), (ctypes.c_size_t * 1)(len(data))
            called(library, "nvjpegDecodeBatched", handle, state, *one, ctypes.byref(image), None)
        else:
            target = (RGB_INTERLEAVED, ctypes.byref(image), None)
            called(library, "nvjpegDecode", handle, state, data, length, *target)
        torch.cuda.synchronize()
        return [pixels.cpu()]

    return decode


def nvimgcodec_on(*kinds: str) -> Decode:
    """Decode by nvImageCodec with repeated chroma, on backends of these kinds."""
    import torch
    from nvidia import nvimgcodec

    backends = [nvimgcodec.Backend(getattr(nvimgcodec.BackendKind, kind)) for kind in kinds]
    decoder = nvimgcodec.Decoder(backends=backends, options=":fancy_upsampling=0")
    # like every other way here; without it the image is turned
    unturned = nvimgcodec.DecodeParams(apply_exif_orientation=False)

    def decode(files: list[bytes]) -> list[Any]:
        image = decoder.decode(nvimgcodec.CodeStream(files[0]), params=unturned)
        if image is None:
            raise RuntimeError("nvImageCodec gave no image")
        return [torch.as_tensor(image.cpu())]

    return decode


def dali_mixed() -> Decode:
    """Decode by DALI's mixed decoder, repeated chroma as is its default."""
    import numpy as np
    import nvidia.dali.experimental.dynamic as dali
    import torch

    def decode(files: list[bytes]) -> list[Any]:
        data = np.frombuffer(files[0], np.uint8)
        found = dali.decoders.image(data, adjust_orientation=False, device="mixed")
        return [torch.from_numpy(np.array(found.cpu()))]

    return decode


def nvjpeg_way(backend: str, flags: int = 0) -> Way:
    """Describe nvJPEG on one backend."""
    engine = JPEG_ENGINE if backend == "hardware" else CORES
    return Way(f"nvJPEG, backend {backend}", engine, lambda: nvjpeg_on(backend, flags), flags)


ON_CUDA = "torchvision.io.decode_jpeg(device='cuda')"
EITHER = f"{JPEG_ENGINE} for baseline files where the GPU has one, else {CORES}"
GPU_WAYS = {
    "torchvision-one": Way(ON_CUDA, EITHER, lambda: torchvision_on("cuda")),
    "torchvision-batch": Way(
        f"{ON_CUDA}, in batches", EITHER, lambda: torchvision_on("cuda"), batch=BATCH
    ),
    **{f"nvjpeg-{backend}": nvjpeg_way(backend) for backend in NVJPEG_BACKENDS},
    "nvjpeg-default-interpolation": nvjpeg_way("default", INTERPOLATION),
    "nvjpeg-hardware-interpolation": nvjpeg_way("hardware", INTERPOLATION),
    "nvimgcodec-cuda": Way(
        "nvImageCodec, fancy_upsampling=0", CORES,
        lambda: nvimgcodec_on("GPU_ONLY", "HYBRID_CPU_GPU"), module="nvidia.nvimgcodec",
    ),
    "nvimgcodec-hardware": Way(
        "nvImageCodec, fancy_upsampling=0", JPEG_ENGINE, lambda: nvimgcodec_on("HW_GPU_ONLY"),
        module="nvidia.nvimgcodec",
    ),
    "dali-mixed": Way("DALI decoders.image, mixed", EITHER, dali_mixed, module="nvidia.dali"),
}  # fmt: skip
CPU_WAYS = {
    "torchvision-cpu": Way(
        "torchvision.io.decode_jpeg on the CPU; no GPU took part", "CPU",
        lambda: torchvision_on("cpu"),
    ),
}  # fmt: skip
WAYS = GPU_WAYS | CPU_WAYS


def machine(device: str) -> dict[str, Any]:
    """Collect what decides the pixels: GPU, driver, versions."""
    import torch
    import torchvision

    facts: dict[str, Any] = {
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "gpu": None,
    }
    if device == "cuda":
        major, minor = torch.cuda.get_device_capability()
        facts |= {"gpu": torch.cuda.get_device_name(), "capability": f"{major}.{minor}"}
        driver = Path("/proc/driver/nvidia/version")
        facts["driver"] = driver.read_text().splitlines()[0] if driver.exists() else "unknown"
        facts |= nvjpeg_facts()
    return facts


def nvjpeg_facts() -> dict[str, Any]:
    """Ask nvJPEG for its version, and whether the GPU has a JPEG engine (status 0: it has)."""
    try:
        library, number, handle = nvjpeg_library(), ctypes.c_int(), ctypes.c_void_p()
        parts = []
        for part in range(3):
            called(library, "nvjpegGetProperty", part, ctypes.byref(number))
            parts.append(str(number.value))
        arguments = (
            NVJPEG_BACKENDS["hardware"],
            None,
            None,
            ctypes.c_uint(0),
            ctypes.byref(handle),
        )
        status = library.nvjpegCreateEx(*arguments)
    except (OSError, RuntimeError, AttributeError) as error:
        return {"nvjpeg": f"unknown: {error}"}
    return {"nvjpeg": ".".join(parts), "engine_status": status}


def carried(own: Path | None, out: Path) -> dict[str, bytes]:
    """Return the files to decode by name: those carried here, and those of the folder.

    Files below ``out`` are left out: an earlier way wrote them.
    """
    files = {name: base64.b64decode(text) for name, text in JPEGS.items()}
    for file in sorted(own.rglob("*") if own else ()):
        if out.resolve() in file.resolve().parents:
            continue
        if own and file.suffix.lower() in (".jpg", ".jpeg", ".jpe", ".jfif"):
            files[f"own/{file.relative_to(own).as_posix()}"] = file.read_bytes()
    if not files:
        raise SystemExit("no JPEG file: print this file by `alignkit calibrate --recorder`, "
                         "or name a folder of JPEG files")  # fmt: skip
    return files


def batches(names: Iterable[str], most: int) -> Iterator[list[str]]:
    """Divide the names; a batch holds one kind of file, so that another kind's failure is its own.

    The kind is the name up to the second hyphen.
    """
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault("-".join(name.split("-")[:2]), []).append(name)
    for of_kind in kinds.values():
        for start in range(0, len(of_kind), most):
            yield of_kind[start : start + most]


def write_pair(folder: Path, name: str, jpeg: bytes, pixels: Any) -> None:
    """Write a JPEG file and its pixels, uint8 (height, width, 3), as PPM."""
    height, width, channels = pixels.shape
    if channels != 3 or str(pixels.dtype) != "torch.uint8":
        raise RuntimeError(f"gave {pixels.dtype} of shape {tuple(pixels.shape)}")
    whole = pixels.contiguous()
    content = ctypes.string_at(whole.data_ptr(), whole.numel())
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(jpeg)
    target.with_suffix(".ppm").write_bytes(b"P6\n%d %d\n255\n" % (width, height) + content)


def record(way: Way, name: str, folder: Path, files: dict[str, bytes], device: str) -> None:
    """Decode all files in one way; write the pairs and the facts, failures included."""
    facts: dict[str, Any] = {
        "format": 1, "way": name, "decoder": way.decoder, "engine": way.engine,
        "flags": way.flags, "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(device), "failures": {},
    }  # fmt: skip
    failures: dict[str, str] = facts["failures"]
    decode = way.make()
    for batch in batches(files, way.batch):
        written: list[str] = []
        try:
            found = decode([files[each] for each in batch])
            for each, pixels in zip(batch, found, strict=True):
                write_pair(folder, each, files[each], pixels)
                written.append(each)
        except Exception as error:  # noqa: BLE001 - a failure is a fact, whatever its kind
            reason = f"{type(error).__name__}: {error}"
            within = f"in a batch of {len(batch)}: " if len(batch) > 1 else ""
            failures |= {each: within + reason for each in batch if each not in written}
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")


def in_process(name: str, given: argparse.Namespace) -> str:
    """Record one way in a process of its own; return how it ended, and keep a failure as facts."""
    way, folder = WAYS[name], given.out / name
    if way.module and util.find_spec(way.module.partition(".")[0]) is None:
        return f"skipped, {way.module} is not installed"
    own = [str(given.folder)] if given.folder else []
    command = [sys.executable, __file__, *own, "--out", str(given.out), "--device", given.device]
    folder.mkdir(parents=True)
    ended = subprocess.run([*command, "--way", name], check=False, capture_output=True, text=True)  # noqa: S603
    facts = folder / "facts.json"
    if ended.returncode or not facts.exists():
        last = " / ".join(ended.stderr.strip().splitlines()[-3:]) or "no message"
        reason = f"the process ended with {ended.returncode}: {last}"
        failed = {"way": name, "decoder": way.decoder, "engine": way.engine, "flags": way.flags}
        facts.write_text(json.dumps({"format": 1, **failed, "failed": reason}, indent=1) + "\n")
        return f"failed, {reason}"
    failures = json.loads(facts.read_text())["failures"]
    pairs = len(list(folder.rglob("*.ppm")))
    return f"{pairs} pairs" + (f", {len(failures)} failed" if failures else "")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="JPEG files of your own")
    parser.add_argument("--out", type=Path, default=Path("pairs"), help="a folder to make")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="cpu: torchvision on the CPU, to try this file")  # fmt: skip
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Record every way, pack the folder, and print how each way ended."""
    given = arguments()
    files = carried(given.folder, given.out)
    if given.way:
        record(WAYS[given.way], given.way, given.out / given.way, files, given.device)
        return 0
    if given.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise SystemExit("torch sees no CUDA GPU; --device cpu tries this file without one")
    if given.out.exists():
        raise SystemExit(f"{given.out} exists; name another folder with --out")
    ways = GPU_WAYS if given.device == "cuda" else CPU_WAYS
    for name in ways:
        print(f"{name}: {in_process(name, given)}", flush=True)
    if not any(given.out.rglob("*.ppm")):
        raise SystemExit("nothing was decoded; the reasons are above and in the facts.json files")
    print(f"send back {shutil.make_archive(str(given.out), 'zip', given.out)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
