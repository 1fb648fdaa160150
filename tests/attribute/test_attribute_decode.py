"""Inside decode, each switch of libjpeg-turbo and of nvJPEG's rule gets its own blame."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from alignkit.attribute import DecodeModels, attribute_decode
from alignkit.attribute.attribute_paths import attribute_runs
from alignkit.attribute.attributed_cells import draw_by_class
from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.decoders.torchpipe import TorchpipeDecoder
from alignkit.outcome import Skipped
from tests.attribute.test_attribute import Projection, share_of
from tests.attribute.test_attribute_paths import TORCH
from tests.photos import make_pngs
from tests.stacks import opencv, samples_of, turned_photos

LIBJPEG = NvjpegModelDecoder("interpolate", "islow", "round")
NVJPEG = {"upsampling": "repeat", "dct": "float", "colour": "truncate"}


def decoded_by(decoder):
    return replace(opencv(), name="candidate", decode=decoder)


@pytest.mark.parametrize(
    ("switches", "blamed"),
    [({"chroma": "nearest"}, "decode.upsampling"), ({"dct": "ifast"}, "decode.dct")],
)
@pytest.mark.parametrize("decoder", [OpenCVDecoder(), PillowDecoder(), TorchpipeDecoder()])
def test_the_planted_switch_gets_all_the_blame(decoder, switches, blamed):
    reference = opencv(decode=decoder)
    found = attribute_decode(
        reference, decoded_by(SimpleJPEGDecoder(**switches)), turned_photos(), resamples=200
    )
    (pixels,) = found
    assert share_of(pixels) == {blamed: pixels.total.value}
    assert pixels.total.value > 0.05


def test_two_planted_switches_are_both_named_and_add_up():
    both = decoded_by(SimpleJPEGDecoder(chroma="nearest", dct="ifast"))
    (pixels,) = attribute_decode(opencv(), both, turned_photos(), resamples=200)
    shares = share_of(pixels)
    assert set(shares) == {"decode.upsampling", "decode.dct"}
    assert min(shares.values()) > 0.05
    assert sum(shares.values()) == pytest.approx(pixels.total.value, abs=1e-12)


@pytest.mark.parametrize("planted", [*combinations(NVJPEG, 1), *combinations(NVJPEG, 2)])
@pytest.mark.parametrize("decoder", [OpenCVDecoder(), TorchpipeDecoder()])
def test_the_planted_part_of_nvjpegs_rule_gets_all_the_blame(decoder, planted):
    served = replace(LIBJPEG, **{switch: NVJPEG[switch] for switch in planted})
    found = attribute_decode(
        opencv(decode=decoder), decoded_by(served), turned_photos(), resamples=200
    )
    (pixels,) = found
    shares = share_of(pixels)
    assert set(shares) == {f"decode.{switch}" for switch in planted}
    # the two DCTs round some samples in a hundred differently
    assert all(share > (0.005 if "dct" in name else 0.05) for name, share in shares.items())
    assert sum(shares.values()) == pytest.approx(pixels.total.value, abs=1e-12)


@pytest.mark.parametrize("files", ["420", "444", "grey"])
def test_nvjpegs_rule_is_divided_into_what_changes_a_file_of_each_kind(jpegs, files):
    found = attribute_decode(
        opencv(), decoded_by(NvjpegModelDecoder()), samples_of([jpegs[files]] * 3), resamples=50
    )
    (pixels,) = found
    shares = share_of(pixels)
    assert set(shares) == {"decode.upsampling", "decode.dct", "decode.colour"}
    assert sum(shares.values()) == pytest.approx(pixels.total.value, abs=1e-12)
    # grey has no colours, and only subsampled chroma is upsampled
    assert (shares["decode.upsampling"] > 0.1) == (files == "420")
    assert (shares["decode.colour"] > 0.1) == (files != "grey")
    # the stack of libjpeg with repeated chroma comes near in no file that has colours
    assert shares["decode.dct"] < 0.5


@pytest.mark.parametrize("planted", NVJPEG)
def test_the_planted_switch_gets_all_the_blame_for_predictions(planted):
    served = replace(LIBJPEG, **{planted: NVJPEG[planted]})
    models = DecodeModels([Projection(), Projection(seed=1)], "torch", "fp32")
    rows = attribute_decode(opencv(), decoded_by(served), turned_photos(), models, resamples=50)
    assert [row.metric for row in rows] == [
        "pixels.decode", "logits.decode", "churn.decode", "recall.macro.decode",
    ]  # fmt: skip
    for row in rows:
        assert share_of(row) == {f"decode.{planted}": row.total.value}
        assert (row.backend, row.precision) == (
            ("", "") if row.metric == "pixels.decode" else ("torch", "fp32")
        )
    assert rows[1].total.value > 0


def test_decode_is_divided_on_some_of_the_images_and_equals_every_mixture_of_these():
    samples = turned_photos()
    rows = attribute_runs(
        opencv(),
        decoded_by(NvjpegModelDecoder()),
        samples,
        [{TORCH: Projection()}],
        inside_decode=True,
        inside_images=6,
        resamples=50,
    )
    rows = [row for row in rows if row.metric.endswith(".decode")]
    assert [row.images for row in rows] == [6, 6, 6, 6]
    drawn = samples.take(draw_by_class(samples, 6))
    logits = []
    for decoder in (OpenCVDecoder(), NvjpegModelDecoder()):
        path = opencv(decode=decoder)
        tensors = [path.normalise(path.taps(drawn.read(index)).last) for index in range(6)]
        logits.append(Projection().logits(np.stack(tensors)))
    apart = np.abs(logits[1].astype(np.float64) - logits[0]).mean()
    assert rows[1].total.value == pytest.approx(apart, rel=1e-12)
    assert sum(share_of(rows[1]).values()) == pytest.approx(apart, rel=1e-12)


@pytest.mark.parametrize(
    ("reference", "served"),
    [
        (OpenCVDecoder(), NvjpegModelDecoder()),
        (SimpleJPEGDecoder(), SimpleJPEGDecoder(chroma="nearest")),
    ],
)
def test_predictions_are_divided_on_images_that_both_decoders_decode(jpegs, reference, served):
    samples = samples_of([make_pngs()["rgb"]] * 30 + [jpegs["420"]] * 2)
    rows = attribute_runs(
        opencv(decode=reference),
        decoded_by(served),
        samples,
        [{TORCH: Projection()}],
        inside_decode=True,
        inside_images=2,
        resamples=20,
    )
    inside = [row for row in rows if row.metric.endswith(".decode")]
    assert [row.metric for row in inside] == [
        "pixels.decode", "logits.decode", "churn.decode", "recall.macro.decode",
    ]  # fmt: skip
    assert {row.images for row in rows} == {2}


def test_the_fast_dct_and_nvjpegs_rule_have_no_decoder_in_common():
    reference = opencv(decode=SimpleJPEGDecoder(dct="ifast"))
    found = attribute_decode(reference, decoded_by(NvjpegModelDecoder()), turned_photos(3))
    assert found == Skipped(
        "nvjpeg-model has no fast DCT (dct: ifast), so that the two cannot be mixed"
    )


@pytest.mark.parametrize(
    ("decoder", "reason"),
    [
        (OpenCVDecoder(), "the two decoders are the same"),
        (PillowDecoder(), "libjpeg-turbo with the same switches"),
    ],
)
def test_decoders_without_a_difference_are_skipped_with_a_reason(decoder, reason):
    found = attribute_decode(opencv(), decoded_by(decoder), turned_photos())
    assert isinstance(found, Skipped)
    assert reason in found.reason


def test_the_switches_are_said_to_be_the_same_on_the_images_that_prove_it(jpegs):
    samples = samples_of([jpegs["420"], make_pngs()["rgba"], jpegs["444"]])
    found = attribute_decode(opencv(), decoded_by(PillowDecoder()), samples)
    assert "the same switches, their pixels equal simplejpeg's on 2 of 3 images" in found.reason


@pytest.mark.parametrize("candidate", [PillowDecoder(), SimpleJPEGDecoder(chroma="nearest")])
def test_nothing_is_said_of_the_switches_where_no_image_proves_them(candidate):
    samples = samples_of([make_pngs()["rgba"]] * 3)
    found = attribute_decode(opencv(), decoded_by(candidate), samples)
    assert isinstance(found, Skipped)
    assert found.reason.startswith("none of 3 images is decoded by both decoders and by simplejpeg")


def test_a_decoder_that_is_not_what_it_is_said_to_be_is_not_split(jpegs):
    candidate = decoded_by(SimpleJPEGDecoder(chroma="nearest"))
    samples = samples_of([jpegs["420"], jpegs["cmyk"]])
    found = attribute_decode(opencv(decode=PillowDecoder()), candidate, samples)
    assert isinstance(found, Skipped)
    assert "decode 1.jpg differently" in found.reason


def test_an_unknown_decoder_is_not_split():
    class Unknown(OpenCVDecoder):
        pass

    found = attribute_decode(opencv(), decoded_by(Unknown()), turned_photos())
    assert isinstance(found, Skipped)
    assert "Unknown has no switches" in found.reason
