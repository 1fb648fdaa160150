"""Download, trim and pack what a machine without a network lacks; see prepare.sh."""

from __future__ import annotations

import argparse
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from zero_fatbin import zeroed

KIT, OUT = Path(__file__).resolve().parent, Path("build/gpukit")
WHEELS, TREES = OUT / "wheels", OUT / "trees"
CHUNK = 50 << 20
"""Most bytes of a folder, beside the kit: what a narrow way to the machine carries at once."""
PLATFORMS = ["2_28", "2_27", "2_24", "2_17", "2_31", "2_34", "2_35"]
SITE = {
    # alignkit's own that the machine lacks
    "pydantic": "2.14.4", "pydantic-core": "2.50.5", "annotated-types": "0.8.0", "typing-inspection": "0.4.5",
    "typing-extensions": "", "platformdirs": "4.14.8", "simplejpeg": "1.9.0", "jpeglib": "1.0.2",
    # real decoders
    "nvidia-nvjpeg": "13.3.2.43", "nvidia-nvimgcodec-cu13": "0.9.0.20",
}  # fmt: skip
TORCHPIPE = {
    "torchpipe": "0.2.25",
    "omniback": "0.2.24",
    "apache-tvm-ffi": "0.1.11",
    "fire": "0.7.1",
    "termcolor": "",
}
ORT = {"onnxruntime-gpu": "1.31.1"}
DALI = {
    "nvidia-dali-cuda130": "2.4.0",
    "astunparse": "",
    "gast": "",
    "optree": "",
    "nvtx": "",
    "makefun": "",
    "libcst": "",
}
CVCUDA = {"cvcuda-cu13": "0.19.0"}
ARCHITECTURE = {90}
"""Compute capability whose code is kept: H100 and H200."""
OPEN_SOURCE = ("onnxruntime", "dali", "cvcuda")
"""Libraries whose licences allow that a copy is changed: Apache-2.0 and MIT. NVIDIA's own are carried as they are."""
DROPPED = [
    r"/test/",
    r"/tests/",
    r"\.pyi$",
    r"cpython-3(?!12-)[0-9]+t?-",
    r"/include/(?!.*nvjpeg\.h)",
    r"\.(cpp|c|h|hpp)$",
    r"THIRD|ThirdParty|Acknowledg",
    r"abiflag0",
    r"torchpipe_core-torch(?!211-)",
    r"cjpeglib_(?!turbo210|6b)",
    r"jpeglib/cjpeglib/(?!cjpeglib_|__init__)",
    r"onnxruntime/(transformers|tools|quantization/(?!__init__)).*",
    r"libonnxruntime\.so",
    r"providers_tensorrt",
    r"omniback/plugins/",
    r"nvtiff_ext|nvjpeg2k_ext|libtiff_ext",
]
KEPT = [
    r"dist-info/",
    r"onnxruntime/(transformers|tools|quantization)/__init__\.py$",
    r"onnxruntime/quantization/.*\.py$",
    r"onnxruntime/tools/[^/]*\.py$",
    r"torchpipe/csrc/.*",
    r"nvjpeg\.h$",
]


def wheels(wanted: dict[str, str]) -> list[Path]:
    WHEELS.mkdir(parents=True, exist_ok=True)
    platforms = [word for each in PLATFORMS for word in ("--platform", f"manylinux_{each}_x86_64")]
    platforms += ["--platform", "manylinux2014_x86_64", "--platform", "manylinux1_x86_64"]
    fetch = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary=:all:",
        "--python-version",
        "3.12",
        "--implementation",
        "cp",
        *platforms,
        "-d",
        str(WHEELS),
    ]
    found = []
    for name, version in wanted.items():
        pattern = f"{name.replace('-', '_')}-{version or '*'}*.whl"
        there = sorted(
            each
            for each in WHEELS.glob("*.whl")
            if each.match(pattern)
            or each.name.lower().startswith(f"{name.replace('-', '_')}-{version}")
        )
        if not there:
            done = subprocess.run(
                [*fetch, f"{name}=={version}" if version else name], capture_output=True, text=True
            )
            there = sorted(
                each
                for each in WHEELS.glob("*.whl")
                if each.name.lower().startswith(f"{name.replace('-', '_')}-{version}")
            )
            if done.returncode or not there:
                print(
                    f"  {name} {version}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr
                )
                continue
        found.append(there[-1])
    return found


def kept(name: str) -> bool:
    return any(re.search(each, name) for each in KEPT) or not any(
        re.search(each, name) for each in DROPPED
    )


def tree(name: str, wanted: dict[str, str], extra: dict[str, Path] | None = None) -> Path:
    """Unpack wheels without what the machine does not use."""
    target = TREES / name
    if target.exists():
        return target
    unfinished = target.with_name(f"{name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for wheel in wheels(wanted):
        with zipfile.ZipFile(wheel) as archive:
            for each in archive.infolist():
                if each.is_dir() or not kept(each.filename):
                    continue
                archive.extract(each, unfinished)
        shrink = any(each in wheel.name for each in OPEN_SOURCE)
        if shrink:
            for library in unfinished.rglob("*.so*"):
                if library.stat().st_size > 10 << 20 and any(
                    part in str(library) for part in OPEN_SOURCE
                ):
                    print(" ", library.name, zeroed(library, library, ARCHITECTURE))
    for place, source in (extra or {}).items():
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, unfinished / place)
    unfinished.rename(target)
    return target


def archive(name: str, folder: Path, *, preset: int = 6) -> Path:
    target = OUT / f"{name}.tar.xz"
    if not target.exists():
        unfinished = target.with_name(f"{name}.unfinished")
        with (
            lzma.open(unfinished, "wb", preset=preset) as out,
            tarfile.open(fileobj=out, mode="w|") as tar,
        ):
            for each in sorted(folder.iterdir()):
                tar.add(each, each.name)
        unfinished.rename(target)
    print(f"  {target.name}: {target.stat().st_size / 1e6:.1f} MB")
    return target


def data_tree(data: Path) -> Path:
    """Images: the photographs, odd and hostile files and flowers of the shared data."""
    target = TREES / "data1"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in ("photos", "odd-jpegs", "hostile-jpegs", "flowers12"):
        if (data / name).exists():
            shutil.copytree(
                data / name, target / name, ignore=shutil.ignore_patterns("*.png", "README*")
            )
        else:
            print(
                f"  {data / name} is not there: its parts have nothing to decode", file=sys.stderr
            )
    return target


def lite0_tree(data: Path) -> Path:
    """EfficientNet-Lite0 with ImageNet's weights in timm's names, and 400 photographs of its classes."""
    target = TREES / "lite0"
    if target.exists():
        return target
    unfinished = target.with_name("lite0.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "benchmarks/lite0_weights.py", str(unfinished / "lite0.pt")], check=True
    )
    shutil.copytree(data / "imagenet400", unfinished / "imagenet400")
    unfinished.rename(target)
    return target


def parts_of(file: Path, sizes: list[int]) -> list[tuple[str, bytes]]:
    """Cut a file into pieces of these sizes, named so that the device joins them."""
    content, found, start = file.read_bytes(), [], 0
    for size in sizes:
        found.append(content[start : start + size])
        start += size
    assert start >= len(content)
    found = [each for each in found if each]
    return [
        (f"{file.name}.{index + 1:02d}of{len(found):02d}", each) for index, each in enumerate(found)
    ]


def kit_into(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    names = {
        "photos",
        "odd-jpegs",
        "hostile-jpegs",
        "flowers12",
        "imagenet400",
        "lite0.pt",
        "__pycache__",
    }
    shutil.copytree(
        KIT, folder / "kit", ignore=lambda _, found: [each for each in found if each in names]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--without", default="", help="torchpipe, ort, dali, cvcuda, lite0, separated by commas"
    )
    given = parser.parse_args()
    without = set(given.without.split(",")) - {""}
    extra, site = {}, dict(SITE)
    built = OUT / "torchpipe" / "omniback-cache"
    if "torchpipe" not in without and list(built.glob("*.so")):
        site |= TORCHPIPE
        extra["omniback-cache"] = built
    print("packing")
    first = [
        archive("site1", tree("site1", site, extra)),
        archive("data1", data_tree(given.data), preset=0),
    ]
    later = []
    for name, make in {
        "lite0": lambda: lite0_tree(given.data), "ort": lambda: tree("ort", ORT), "dali": lambda: tree("dali", DALI), "cvcuda": lambda: tree("cvcuda", CVCUDA),
    }.items():  # fmt: skip
        if name not in without:
            try:
                later.append(archive(name, make(), preset=3))
            except Exception as error:  # noqa: BLE001
                print(f"  {name} is left out: {error}", file=sys.stderr)
    for old in OUT.glob("[0-9]*"):
        shutil.rmtree(old)
    kit_into(OUT / "1")
    for file in first:
        for name, content in parts_of(file, [file.stat().st_size]):
            (OUT / "1" / name).write_bytes(content)
    # what is left of call 1 takes the beginning of what is joined later
    number, room = 1, CHUNK - sum(file.stat().st_size for file in first)
    for file in later:
        sizes, left = [], file.stat().st_size
        places = []
        while left:
            if room < min(left, 4 << 20):
                number, room = number + 1, CHUNK
                kit_into(OUT / str(number))
            piece = min(left, room)
            sizes.append(piece)
            places.append(number)
            left, room = left - piece, room - piece
        for (name, content), place in zip(parts_of(file, sizes), places, strict=True):
            (OUT / str(place) / name).write_bytes(content)
    if number > 1:
        (OUT / str(number) / "last").touch()
    print_calls(number)
    return 0


def print_calls(number: int) -> None:
    for each in range(1, number + 1):
        folder = OUT / str(each)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        names = ", ".join(sorted(file.name for file in folder.glob("*.tar*")))
        print(
            f"bash {folder}/kit/device.sh {'main' if each == 1 else 'late'}      # {size / 2**20:.1f} MiB: {names}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
