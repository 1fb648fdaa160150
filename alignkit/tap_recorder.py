"""Record arrays between the stages of any preprocessing code, for `alignkit match --taps`.

This file needs Python 3.8 or newer and nothing else. Copy it beside your serving code if alignkit
is not installed there: `alignkit match --tap-source python > alignkit_tap.py`. The header for C++
is `--tap-source cpp > alignkit_tap.h`.

    from alignkit_tap import tap        # or: from alignkit import tap

    image = cv2.imdecode(data, cv2.IMREAD_COLOR)
    tap("after_decode", image, name)    # name: the image's file, e.g. "cats/1.jpg"
    image = tap("after_resize", cv2.resize(image, (224, 224)), name)    # returns the array

Nothing is recorded until a folder is set: ALIGNKIT_TAPS=DIR in the environment, or `tap.to(DIR)`.
Each array becomes DIR/<stage>/<image>.npy, each record a line of DIR/taps-<process>.jsonl. Of each
stage and image the first array of a process is kept, of the first 100 images
(ALIGNKIT_TAPS_IMAGES=N, `tap.to(DIR, images=N)`). Threads and processes may share a folder.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any, TypeVar

Array = TypeVar("Array")

FOLDER, IMAGES = "ALIGNKIT_TAPS", "ALIGNKIT_TAPS_IMAGES"
"""Environment variables, read when this file is imported."""
FORMAT = 1
"""Version of the lines."""
_KINDS = {"B": "u", "H": "u", "I": "u", "L": "u", "Q": "u", "b": "i", "h": "i", "i": "i",
          "l": "i", "q": "i", "e": "f", "f": "f", "d": "f", "?": "b"}  # fmt: skip
"""Letter of `struct` → letter of the .npy format; the size follows it."""
_NARROW = ("bfloat16", "float8")
_WORDS = {"u": "uint", "i": "int", "f": "float"}
_FORBIDDEN = {*map(chr, range(32)), *'<>:"|?*\\/%', chr(127)}
"""Characters that some file system forbids in a name, and the one that replaces them."""
_LONGEST = 200
"""Bytes of a file's name, below every file system's limit."""


class Tap:
    """The recorder. Off, a call costs one comparison; on, a copy and a file for each record."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._images = 100
        self._start()
        if os.environ.get(FOLDER):
            self.to(os.environ[FOLDER], images=int(os.environ.get(IMAGES, "100")))

    def to(self, folder: str | os.PathLike[str], *, images: int = 100) -> None:
        """Record into ``folder``, the first ``images`` of this process; use an empty folder."""
        if images < 1:
            raise ValueError(f"images is {images}; give 1 or more, or call tap.off()")
        Path(folder).mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._images = images
            self._start()
            self._folder = Path(folder)

    def off(self) -> None:
        """Record nothing more."""
        self._folder = None

    def __call__(self, stage: str, array: Array, image: Any) -> Array:
        """Record ``array`` as ``stage`` of ``image``, and return it as it is.

        ``array`` is NumPy's, torch's or another library's, of real numbers, in any layout.
        ``image`` is the image's file name or path; for a batch a list of them, one for each
        ``array[i]``.
        Raises `TypeError` for what is no array, and `OSError` if the folder cannot be written.
        """
        folder = self._folder
        if folder is not None:
            if isinstance(image, (list, tuple)):
                # `strict` is newer than Python 3.8, and the lengths are compared
                for each, part in zip(image, _parts(stage, array, len(image))):  # noqa: B905
                    self._record(folder, stage, part, os.fspath(each))
            else:
                self._record(folder, stage, array, os.fspath(image))
        return array

    def _start(self) -> None:
        self._process, self._log = os.getpid(), f"taps-{uuid.uuid4().hex[:12]}.jsonl"
        self._seen: dict[str, set[str]] = {}

    def _wanted(self, stage: str, image: str) -> bool:
        with self._lock:
            if self._process != os.getpid():  # forked: a log of its own
                self._start()
            if image not in self._seen and len(self._seen) >= self._images:
                return False
            stages = self._seen.setdefault(image, set())
            new = stage not in stages
            stages.add(stage)
            return new

    def _record(self, folder: Path, stage: str, array: Any, image: str) -> None:
        if not self._wanted(stage, image):
            return
        content, dtype = _on_the_cpu(stage, array)
        parts = [_name(part) for part in image.split("/") if part]
        if not stage or not parts:
            raise ValueError(f"tap {stage!r} of {image!r}: give a stage and the image's file name")
        file = Path(_name(stage), *parts)
        file = file.with_name(f"{file.name}.npy")
        _write(folder / file, content)
        low, high = _extremes(content)
        line = {
            "tap": FORMAT, "stage": stage, "image": image, "file": file.as_posix(),
            "shape": list(content.shape or ()), "dtype": dtype, "min": low, "max": high,
            "time": time.time(), "process": f"{os.getpid()}",
        }  # fmt: skip
        text = json.dumps(line, ensure_ascii=False) + "\n"
        with self._lock, (folder / self._log).open("ab", buffering=0) as log:
            log.write(text.encode("utf-8", "surrogateescape"))


def _parts(stage: str, array: Any, count: int) -> Any:
    size = len(array)
    if size != count:
        raise ValueError(f"tap {stage!r}: {count} images for a batch of {size}; give one for each")
    return (array[index] for index in range(size))


def _on_the_cpu(stage: str, array: Any) -> tuple[memoryview, str]:
    """Return an array's numbers, and the dtype that its library names."""
    kind = type(array).__name__
    if isinstance(array, (list, tuple, dict, str, bytes, bytearray, memoryview, int, float)):
        raise TypeError(f"tap {stage!r}: a {kind} is no array; give a NumPy array or a tensor")
    # NumPy's masked arrays would lose their mask below
    if hasattr(array, "filled") and array.mask.any():
        raise TypeError(f"tap {stage!r}: a {kind} with masked values; give array.filled(…)")
    dtype = str(getattr(array, "dtype", "")).rpartition(".")[2]
    if hasattr(array, "detach"):  # torch
        array = array.detach().cpu()
        # NumPy has none of these, and float32 holds all of their numbers
        if dtype.startswith(_NARROW):
            array = array.float()
    elif hasattr(array, "get") and hasattr(array, "device"):  # CuPy
        array = array.get()
    if hasattr(array, "numpy"):
        array = array.numpy()
    elif hasattr(array, "__array__"):
        array = array.__array__()
    try:
        content = memoryview(array)
    except (TypeError, ValueError) as error:
        raise TypeError(f"tap {stage!r}: a {kind} is no array: {error}") from None
    letter = _KINDS.get(content.format.lstrip("@=<>!"))
    if letter is None or not content.shape:
        numbers = dtype or content.format
        raise TypeError(f"tap {stage!r}: a {kind} of {numbers} holds no real numbers")
    own = "bool" if letter == "b" else f"{_WORDS[letter]}{8 * content.itemsize}"
    return content, dtype if dtype.startswith(_NARROW) else own


def _write(file: Path, content: memoryview) -> None:
    """Write a .npy file of format 1.0, whole or not at all."""
    code = content.format.lstrip("@=<>!")
    big = content.format[0] in ">!" or (content.format[0] != "<" and sys.byteorder == "big")
    order = "|" if content.itemsize == 1 else ">" if big else "<"
    descr = f"{order}{_KINDS[code]}{content.itemsize}"
    header = (
        f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(content.shape or ())}, }}"
    )
    # magic, version and length are 10 bytes; numbers begin at a multiple of 64
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode("latin-1")
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{uuid.uuid4().hex}.unfinished")
    try:
        with unfinished.open("wb") as out:
            out.write(start)
            out.write(content.tobytes())  # in C order, also of a strided array
        unfinished.replace(file)
    except BaseException:
        if unfinished.exists():
            unfinished.unlink()
        raise


def _extremes(content: memoryview) -> tuple[float | None, float | None]:
    """Return the least and the greatest number; ``None`` if there is none, or one is not finite."""
    numbers = content.obj
    if hasattr(numbers, "min") and hasattr(numbers, "max") and content.nbytes:
        low, high = numbers.min().item(), numbers.max().item()
    elif content.nbytes:
        letter: Any = content.format.lstrip("@=<>!")
        flat: Any = memoryview(content.tobytes()).cast(letter)
        low, high = min(flat), max(flat)
    else:
        return None, None
    finite = math.isfinite(low) and math.isfinite(high)
    return (low, high) if finite else (None, None)


def _name(part: str) -> str:
    """Return a file's name for a part of a path; different parts get different names."""
    name = "".join(f"%{ord(each):02X}" if each in _FORBIDDEN else each for each in part)
    if not name.strip("."):
        name = name.replace(".", "%2E") or "%"
    if len(name.encode("utf-8", "surrogateescape")) > _LONGEST:
        raise ValueError(f"the name {part[:40]!r}… has more than {_LONGEST} bytes")
    return name


tap = Tap()
