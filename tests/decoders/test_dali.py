"""`DALIDecoder` against a DALI pipeline, and against libjpeg-turbo elsewhere."""

import numpy as np
import pytest

pytest.importorskip("nvidia.dali", reason="needs the extra dali")

from nvidia.dali import fn, pipeline_def
from PIL import Image

from alignkit.decoders.dali import DALIDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from tests.photos import encoded, make_jpegs, make_pngs, photo


@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def decoding(file, use_fast_idct):
    data = fn.external_source(source=[[np.frombuffer(file, np.uint8)]], cycle=True)
    return fn.decoders.image(data, adjust_orientation=False, use_fast_idct=use_fast_idct)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kind", ["420", "444", "progressive", "grey", "cmyk", "exif-6"])
def test_equals_a_pipeline_with_the_same_options(jpegs, kind, fast):
    (batch,) = decoding(jpegs[kind], use_fast_idct=fast).run()
    direct = np.array(batch.at(0))
    assert np.array_equal(DALIDecoder(use_fast_idct=fast).decode(jpegs[kind]).image, direct)


@pytest.mark.parametrize("kind", make_jpegs())
def test_equals_pillow_on_every_kind_of_jpeg(jpegs, kind):
    expected = PillowDecoder().decode(jpegs[kind]).image
    assert np.array_equal(DALIDecoder().decode(jpegs[kind]).image, expected)


def test_its_fast_transform_is_libjpeg_turbos(jpegs):
    expected = SimpleJPEGDecoder(dct="ifast").decode(jpegs["420"]).image
    assert np.array_equal(DALIDecoder(use_fast_idct=True).decode(jpegs["420"]).image, expected)


def test_scales_16_bits_and_rounds():
    grey = PillowDecoder().decode(encoded(Image.fromarray(photo()).convert("L"), "PNG")).image
    decoded = DALIDecoder().decode(make_pngs()["grey-16"])  # 256 · grey + 7, in 0..65535
    assert np.array_equal(decoded.image, np.rint((grey * 256.0 + 7) / 257))


def test_says_that_a_format_is_unsupported():
    assert DALIDecoder().decode(encoded(photo(), "GIF")).outcome == "unsupported"


def test_refuses_a_truncated_file(jpegs):
    assert DALIDecoder().decode(jpegs["420"][:-200]).outcome == "failed"
