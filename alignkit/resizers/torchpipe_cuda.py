"""torchpipe's ``ResizeTensor`` on a CUDA tensor. **Not yet run on hardware.**

``upsample_bilinear2d(align_corners=True)``, unrounded ``float32``; refuses a side of one pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alignkit.arrays import Pixels


@dataclass(frozen=True, slots=True)
class TorchpipeCudaResizer:
    """``ResizeTensor`` on the current CUDA device; pixels are copied there and back."""

    def resize(self, image: Pixels, height: int, width: int) -> Pixels:
        """Resample (h, w, 3) ``uint8`` → (height, width, 3) ``float32``.

        Raise `RuntimeError` where torchpipe refuses the size.
        """
        import numpy as np
        import torch
        from torch.utils.dlpack import from_dlpack

        from alignkit.decoders.torchpipe import backend

        planes = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))[None]).cuda()
        request: dict[str, Any] = {"data": planes}
        backend("ResizeTensor", resize_h=str(height), resize_w=str(width))(request)
        resized = from_dlpack(request["result"])[0].cpu().permute(1, 2, 0)
        return np.ascontiguousarray(resized.numpy())

    def version(self) -> str:
        """Return ``torchpipe 0.2.25, omniback 0.2.24, CUDA 13.0``."""
        from alignkit.decoders.torchpipe_cuda import TorchpipeCudaDecoder

        return TorchpipeCudaDecoder().version()
