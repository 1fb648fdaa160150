"""TensorFlow's own decode and resize, which the preset ``tensorflow-surrogate`` replaces.

``tf.image.decode_image`` with its defaults and ``tf.image.resize``: bilinear, no antialias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from alignkit.decoders import Decoded

if TYPE_CHECKING:
    from alignkit.arrays import Image, Pixels


@dataclass(frozen=True, slots=True)
class TensorFlowDecoder:
    """A decoder by the contract of `alignkit.decoders`."""

    orients: ClassVar[bool] = False

    def decode(self, encoded: bytes) -> Decoded:
        """Decode; a file that TensorFlow refuses is ``failed``."""
        import numpy as np
        import tensorflow as tf

        try:
            image = tf.image.decode_image(encoded, channels=3, expand_animations=False)
        except tf.errors.InvalidArgumentError as error:
            return Decoded("failed", reason=error.message)
        return Decoded("ok", np.array(image))

    def version(self) -> str:
        """Return e.g. ``tensorflow 2.21.0, tf.image.decode_image``."""
        import tensorflow as tf

        return f"tensorflow {tf.__version__}, tf.image.decode_image"


@dataclass(frozen=True, slots=True)
class TensorFlowResizer:
    """A resizer by the contract of `alignkit.resizers`."""

    def resize(self, image: Image, height: int, width: int) -> Pixels:
        """Resize (h, w, 3) ``uint8`` to (height, width, 3) ``float32``."""
        import numpy as np
        import tensorflow as tf

        return np.array(tf.image.resize(image, (height, width)))

    def version(self) -> str:
        """Return e.g. ``tensorflow 2.21.0, tf.image.resize``."""
        import tensorflow as tf

        return f"tensorflow {tf.__version__}, tf.image.resize"
