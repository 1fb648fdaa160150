"""Y, Cb and Cr of the probes as nvJPEG gives them before it converts colours: each backend of both libraries.

    python planes.py             every way, in processes of their own
    python planes.py --way W     one way, into WORK/planes/W.npz (channels by file) and W.json

With them a rule is fitted step by step: the inverse transform from the planes, the size of chroma and the colours
from the planes and the pixels that nvjpeg.py kept. No alignkit.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from common import files, folder, has_cuda, require_cuda, said, save
from nvjpeg import POISON, Image, Nvjpeg

PART = "planes"
YUV = 1
"""``NVJPEG_OUTPUT_YUV``."""
WAYS = {
    f"{library}-{backend}": (library, backend)
    for library in ("bundled", "carried")
    for backend in ("default", "gpuhybrid", "hardware")
}


def one_way(name: str) -> int:
    import torch

    opened = Nvjpeg(*WAYS[name])
    kept, said_of = {}, {}
    for file, data in files("probes").items():
        try:
            kind, sizes = opened.sizes(data)
            image, planes = Image(), []
            for number, (height, width) in enumerate(sizes):
                # room for a whole block more: an engine may write full blocks
                room = (height + 16, width + 64)
                planes.append(torch.full(room, POISON, dtype=torch.uint8, device="cuda"))
                image.channel[number], image.pitch[number] = planes[-1].data_ptr(), room[1]
            opened.decode(data, YUV, image)
            for number, (plane, (height, width)) in enumerate(zip(planes, sizes)):
                kept[f"{file}:{number}"] = plane.cpu().numpy()[:height, :width]
            said_of[file] = {"components": len(sizes), "subsampling": kind, "sizes": sizes}
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
