"""`NvImageCodecDecoder` against libjpeg-turbo with the same switches."""

import numpy as np
import pytest

pytest.importorskip("nvidia.nvimgcodec", reason="needs the extra nvimgcodec")

from nvidia import nvimgcodec

from alignkit.decoders.nvimgcodec import NvImageCodecDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from tests.photos import CMYK, encoded, make_jpegs, photo

KINDS = tuple(kind for kind in make_jpegs() if kind not in CMYK)


@pytest.mark.parametrize("kind", make_jpegs())
def test_the_default_equals_pillow(jpegs, kind):
    expected = PillowDecoder().decode(jpegs[kind]).image
    assert np.array_equal(NvImageCodecDecoder().decode(jpegs[kind]).image, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fast", [False, True])
def test_equals_simplejpeg_with_nearest_chroma(jpegs, kind, fast):
    expected = SimpleJPEGDecoder("nearest", "ifast" if fast else "islow").decode(jpegs[kind])
    decoded = NvImageCodecDecoder(fancy_upsampling=False, fast_idct=fast).decode(jpegs[kind])
    assert np.array_equal(decoded.image, expected.image)


def test_equals_the_library_called_directly(jpegs):
    backends = [nvimgcodec.Backend(nvimgcodec.BackendKind.CPU_ONLY)]
    decoder = nvimgcodec.Decoder(nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY, backends=backends)
    direct = np.array(decoder.decode(nvimgcodec.CodeStream(jpegs["420"])))
    assert np.array_equal(NvImageCodecDecoder().decode(jpegs["420"]).image, direct)


def test_an_unknown_format_ends_as_failed():
    assert NvImageCodecDecoder().decode(encoded(photo(), "GIF")).outcome == "failed"
