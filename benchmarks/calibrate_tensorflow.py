"""How far the preset tensorflow-surrogate is from TensorFlow itself, as JSON on stdout:
what `alignkit/calibration` holds under the preset's name.

    pip install tensorflow-cpu
    python benchmarks/calibrate_tensorflow.py FOLDER > tensorflow-surrogate.json

Each stage is compared alone: decode on the file's bytes, resize on TensorFlow's own decoded image.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.resizers.torch import TorchResizer

SIZE = (224, 224)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="photographs, JPEG")
    files = sorted(parser.parse_args().folder.glob("*.jp*g"))
    decoder, resizer = SimpleJPEGDecoder(dct="ifast"), TorchResizer()
    of_decode, of_resize = [], []
    for file in files:
        encoded = file.read_bytes()
        reference = tf.image.decode_image(encoded, channels=3, expand_animations=False).numpy()
        candidate = decoder.decode(encoded).image
        of_decode.append(int(np.abs(candidate.astype(int) - reference).max()))
        resized = tf.image.resize(reference, SIZE).numpy()
        of_resize.append(float(np.abs(resizer.resize(reference, *SIZE) - resized).max()))
    print(
        json.dumps(
            calibration(of_decode, of_resize, [decoder.version(), resizer.version()]), indent=2
        )
    )


def calibration(of_decode: list[int], of_resize: list[float], candidate: list[str]) -> dict:
    """What `alignkit.presets.calibration` reads; greatest differences in grey levels."""
    equal = sum(levels == 0 for levels in of_decode)
    return {
        "summary": f"of {len(of_decode)} photographs {equal} decode equal bit for bit; resize to "
        f"{SIZE[0]} px within {max(of_resize):.4f} grey levels of TensorFlow {tf.__version__} "
        "on a CPU",
        "reference": f"tensorflow {tf.__version__}: tf.image.decode_image, tf.image.resize",
        "candidate": ", ".join(candidate),
        "images": len(of_decode),
        "decode": {"images_equal": equal, "max_levels": max(of_decode)},
        "resize": {"size": SIZE, "max_levels": max(of_resize)},
    }


if __name__ == "__main__":
    main()
