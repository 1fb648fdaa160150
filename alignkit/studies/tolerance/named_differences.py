"""Named differences of pixels: one switch of a decoder or resize, from a path's own setting.

Decoders and resizes that have a switch take the place of the path's own ones, with its settings,
on both sides of the difference: libraries' rounding is then on neither side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from alignkit.decoders import DECODERS
from alignkit.decoders.decoder_switches import Switches, as_libjpeg, as_model
from alignkit.plugins import name_of
from alignkit.preprocess import Orient, Preprocess, Quantise
from alignkit.record.tolerance_facts import DifferenceName
from alignkit.resizers.resampling import aligns_corners, filters, kernel
from alignkit.resizers.torch import TorchResizer

_OTHER = {
    "smooth": "nearest", "nearest": "smooth", "interpolate": "repeat", "repeat": "interpolate",
    "truncate": "round", "round": "truncate", "even": "truncate",
}  # fmt: skip
_OTHER_DCT = {
    "simplejpeg": {"islow": "ifast", "ifast": "islow"},
    "nvjpeg-model": {"islow": "float", "float": "islow", "float-up": "islow"},
}
"""Decoder → its two inverse transforms."""


@dataclass(frozen=True, slots=True)
class NamedSwitch:
    """A path in a library with a switch, before and after it is switched."""

    begin: Preprocess
    end: Preprocess
    by: str
    """The switch, as ``simplejpeg chroma: smooth → nearest``."""


def named_switches(path: Preprocess) -> dict[DifferenceName, NamedSwitch | str]:
    """Return every named difference of pixels that starts at a path, or why it has none."""
    return {
        "chroma upsampling": _decoder_switch(path, "chroma", "upsampling"),
        "inverse DCT": _decoder_switch(path, "dct", "dct"),
        "colour rounding": _colour(path),
        "antialias": _resize_switch(path, "antialias"),
        "half pixel": _resize_switch(path, "align_corners"),
        "8-bit rounding": _rounding(path),
    }


def _decoder_switch(path: Preprocess, libjpegs: str, models: str) -> NamedSwitch | str:
    switches = as_libjpeg(path.decode) or as_model(path.decode)
    if switches is None:
        return _no_switches(path)
    return _switched(path, switches, libjpegs if hasattr(switches, libjpegs) else models)


def _colour(path: Preprocess) -> NamedSwitch | str:
    switches = as_model(path.decode)
    if switches is None and as_libjpeg(path.decode) is not None:
        return "nvjpeg-model, which has this switch, has no fast inverse DCT"
    return _no_switches(path) if switches is None else _switched(path, switches, "colour")


def _no_switches(path: Preprocess) -> str:
    name = name_of(path.decode, DECODERS)
    return f"{name} has no switches and is not known to be libjpeg-turbo or nvJPEG's rule"


def _switched(path: Preprocess, switches: Switches, option: str) -> NamedSwitch:
    name = name_of(switches, DECODERS)
    own = getattr(switches, option)
    other = (_OTHER_DCT[name] if option == "dct" else _OTHER)[own]
    # these decoders do not turn, and the path's own may
    orient = Orient("exif") if path.decode.orients else path.orient
    by = f"{name} {option}: {own} → {other}"
    return _both(
        replace(path, decode=switches, orient=orient),
        lambda begin: replace(begin, decode=replace(switches, **{option: other})),  # type: ignore[arg-type]
        by,
    )


def _unrounded(path: Preprocess) -> Preprocess | str:
    """Return the path with torch's resize of the same kernel, filter and grid, unrounded."""
    resizer = path.resize.resizer
    own, filtered = kernel(resizer), filters(resizer)
    if own not in ("linear", "cubic") or filtered is None:
        return f"torch has no resize with the kernel {own or 'of this resizer'}"
    torch = TorchResizer(
        "bilinear" if own == "linear" else "bicubic", aligns_corners(resizer), antialias=filtered
    )
    return replace(path, resize=replace(path.resize, resizer=torch), quantise=Quantise("none"))


def _resize_switch(path: Preprocess, option: str) -> NamedSwitch | str:
    begin = _unrounded(path)
    if isinstance(begin, str):
        return begin
    torch = begin.resize.resizer
    own = getattr(torch, option)
    words = ("on", "off") if own else ("off", "on")
    return _both(
        begin,
        lambda each: replace(
            each,
            resize=replace(each.resize, resizer=replace(torch, **{option: not own})),  # type: ignore[type-var]
        ),
        f"torch {option}: {words[0]} → {words[1]}",
    )


def _rounding(path: Preprocess) -> NamedSwitch | str:
    begin = _unrounded(path)
    if isinstance(begin, str):
        return begin
    return _both(
        begin, lambda each: replace(each, quantise=Quantise("round")), "torch: unrounded → bytes"
    )


def _both(begin: Preprocess, end: Callable[[Preprocess], Preprocess], by: str) -> NamedSwitch:
    first = replace(begin, name=by.split(" → ", maxsplit=1)[0], surrogate_of="", replaced=())
    return NamedSwitch(first, replace(end(first), name=by), by)
