"""JPEG's Y'CbCr as a matrix, in which differences of RGB pixels are divided."""

from __future__ import annotations

import numpy as np

FROM_RGB = np.array(
    [
        [0.299, 0.587, 0.114],
        [-0.299 / 1.772, -0.587 / 1.772, 0.886 / 1.772],
        [0.701 / 1.402, -0.587 / 1.402, -0.114 / 1.402],
    ]
)
"""ITU-T T.871 (JFIF), 7: rows Y', Cb, Cr; offsets cancel in a difference."""
