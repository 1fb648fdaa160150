"""Y, Cb and Cr of the probes as nvJPEG gives them before it converts colours: each backend of both libraries.

    python planes.py             every way, in processes of their own
    python planes.py --way W     one way, into WORK/planes/W.npz (channels by file) and W.json

With them a rule is fitted step by step: the inverse transform from the planes, the size of chroma and the colours
from the planes and the pixels that nvjpeg.py kept. No alignkit.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from common import files, folder, has_cuda, require_cuda, said, save
from nvjpeg import BACKENDS, Image, nvjpeg_library

PART = "planes"
YUV, POISON = 1, 113
"""``NVJPEG_OUTPUT_YUV``; what a sample holds that nobody wrote."""
WAYS = {
    f"{library}-{backend}": (library, backend)
    for library in ("bundled", "carried")
    for backend in ("default", "gpuhybrid", "hardware")
}


def one_way(name: str) -> int:
    import torch

    which, backend = WAYS[name]
    torch.cuda.init()
    library = nvjpeg_library(which)
    handle, state, header = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()

    def call(function, *arguments):
        if status := getattr(library, function)(*arguments):
            raise RuntimeError(f"{function} returned status {status}")

    call("nvjpegCreateEx", BACKENDS[backend], None, None, ctypes.c_uint(0), ctypes.byref(handle))
    call("nvjpegJpegStateCreate", handle, ctypes.byref(state))
    call("nvjpegJpegStreamCreate", handle, ctypes.byref(header))
    kept, said_of = {}, {}
    for file, data in files("probes").items():
        try:
            length, parts, kind = ctypes.c_size_t(len(data)), ctypes.c_int(), ctypes.c_int()
            widths, heights = (ctypes.c_int * 4)(), (ctypes.c_int * 4)()
            call(
                "nvjpegGetImageInfo",
                handle,
                data,
                length,
                ctypes.byref(parts),
                ctypes.byref(kind),
                widths,
                heights,
            )
            image, planes = Image(), []
            for number in range(parts.value):
                # room for a whole block more: an engine may write full blocks
                plane = torch.full(
                    (heights[number] + 16, widths[number] + 64),
                    POISON,
                    dtype=torch.uint8,
                    device="cuda",
                )
                image.channel[number], image.pitch[number] = plane.data_ptr(), plane.shape[1]
                planes.append(plane)
            torch.cuda.synchronize()
            if backend == "hardware":
                call("nvjpegJpegStreamParseHeader", handle, data, length, header)
                answer = ctypes.c_int(-1)
                call("nvjpegDecodeBatchedSupported", handle, header, ctypes.byref(answer))
                if answer.value:
                    raise RuntimeError("not for the engine")
                call("nvjpegDecodeBatchedInitialize", handle, state, 1, 1, YUV)
                one, sizes = (ctypes.c_char_p * 1)(data), (ctypes.c_size_t * 1)(len(data))
                call("nvjpegDecodeBatched", handle, state, one, sizes, ctypes.byref(image), None)
            else:
                call("nvjpegDecode", handle, state, data, length, YUV, ctypes.byref(image), None)
            torch.cuda.synchronize()
            for number, plane in enumerate(planes):
                kept[f"{file}:{number}"] = plane.cpu().numpy()[: heights[number], : widths[number]]
            said_of[file] = {
                "components": parts.value,
                "subsampling": kind.value,
                "sizes": [[heights[n], widths[n]] for n in range(parts.value)],
            }
        except Exception as error:  # noqa: BLE001
            said_of[file] = {"error": said(error, 200)}
    np.savez_compressed(folder(PART) / f"{name}.npz", **kept)
    save(PART, f"{name}.json", said_of)
    return 0


def run_way(name: str) -> str:
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--way", name], capture_output=True, text=True, timeout=80
        )
        return f"exit {done.returncode} {done.stderr[-300:]}"
    except subprocess.TimeoutExpired:
        return "timed out"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--way"]:
        raise SystemExit(one_way(sys.argv[2]))
    require_cuda(PART)
    if has_cuda():
        with ThreadPoolExecutor(3) as pool:
            for way, words in zip(WAYS, pool.map(run_way, WAYS)):
                print(f"planes {way}: {words}", flush=True)
