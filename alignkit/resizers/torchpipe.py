"""torchpipe's two resizes on the CPU, and one of them on a GPU.

``mat`` is ``ResizeMat``: ``cv2.resize``, linear, ``uint8``. ``tensor`` is ``ResizeTensor``:
``upsample_bilinear2d(align_corners=True)``, unrounded ``float32``, which refuses a side of one
pixel. The two differ by some 4 grey levels in the mean when a photo is shrunk to 224 pixels.

``torchpipe-cuda`` is ``ResizeTensor`` on a CUDA tensor; on an H100 it gave the CPU's bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from alignkit.arrays import Image, Pixels


@dataclass(frozen=True, slots=True)
class TorchpipeResizer:
    """torchpipe's own CPU backends, called as torchpipe calls them."""

    op: Literal["mat", "tensor"] = "mat"
    """``mat`` is ResizeMat, OpenCV with 8-bit results · ``tensor`` is ResizeTensor, unrounded
    floats."""

    def resize(self, image: Image, height: int, width: int) -> Pixels:
        """Resample (h, w, 3) ``uint8`` → (height, width, 3), ``uint8`` or ``float32`` by ``op``.

        Raise `RuntimeError` where torchpipe refuses the size.
        """
        import numpy as np
        import torch
        from torch.utils.dlpack import from_dlpack

        from alignkit.decoders.torchpipe import backend

        size = {"resize_h": str(height), "resize_w": str(width)}
        if self.op == "mat":
            resize = backend("S[Tensor2Mat,ResizeMat,Mat2Tensor]", device="cpu", **size)
            # a copy, because the image may be read-only
            request: dict[str, Any] = {"data": np.array(image, order="C")}
            resize(request)
            return from_dlpack(request["result"]).numpy()
        planes = np.ascontiguousarray(image.transpose(2, 0, 1))[None]
        request = {"data": torch.from_numpy(planes)}
        backend("ResizeTensor", **size)(request)
        return np.ascontiguousarray(from_dlpack(request["result"])[0].permute(1, 2, 0).numpy())

    def version(self) -> str:
        """Return ``torchpipe 0.2.25, omniback 0.2.24, …``."""
        from alignkit.decoders.torchpipe import TorchpipeDecoder

        return TorchpipeDecoder().version()


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
        from alignkit.decoders.torchpipe import TorchpipeCudaDecoder

        return TorchpipeCudaDecoder().version()
