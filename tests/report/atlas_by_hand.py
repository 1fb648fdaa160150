"""Swaps of the atlas computed without alignkit: decoders, resizers and runtimes called as they are.

    python tests/report/atlas_by_hand.py IMAGES WEIGHTS

IMAGES holds a folder for each WordNet id, WEIGHTS is the file of benchmarks/lite0_weights.py.
"""

import io
import sys
import warnings
from importlib import metadata
from pathlib import Path

import numpy as np

REFERENCE = "lite0-eval"
OWN = (0.498039, 0.498039, 0.498039), (0.501961, 0.501961, 0.501961)
OTHER = {"imagenet-mean-std": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}
"""Mean and standard deviation, in units of 255 levels."""


def fast(encoded):
    import simplejpeg

    return simplejpeg.decode_jpeg(encoded, "RGB", fastdct=True)


def pillow(encoded):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))


def opencv(encoded):
    import cv2

    return cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)[..., ::-1].copy()


def shorter(image, side=256):
    height, width = image.shape[:2]
    if height <= width:
        return side, int(side * width / height)
    return int(side * height / width), side


def centre(image, side=224):
    top, left = (round((length - side) / 2) for length in image.shape[:2])
    return image[top : top + side, left : left + side]


def interpolated(image, size, **options):
    import torch

    planes = torch.from_numpy(image.copy()).permute(2, 0, 1)[None].float()
    return torch.nn.functional.interpolate(planes, size, **options)[0].permute(1, 2, 0).numpy()


def cubic(image):
    return centre(interpolated(image, shorter(image), mode="bicubic", align_corners=False))


def letterbox(encoded):
    import cv2

    image = opencv(encoded)
    height, width = image.shape[:2]
    scale = min(224 / height, 224 / width)
    inner = round(height * scale), round(width * scale)
    top, left = (round((224 - side) / 2 - 0.1) for side in inner)
    canvas = np.full((224, 224, 3), 114, np.uint8)
    canvas[top : top + inner[0], left : left + inner[1]] = cv2.resize(image, inner[::-1])
    return canvas


def pillow_bilinear(encoded):
    from PIL import Image

    return np.asarray(
        Image.fromarray(pillow(encoded)).resize((224, 224), Image.Resampling.BILINEAR)
    )


STACKS = {
    REFERENCE: lambda encoded: cubic(fast(encoded)),
    "decode-opencv": lambda encoded: cubic(opencv(encoded)),
    "imagenet-mean-std": lambda encoded: cubic(fast(encoded)),
    "bgr": lambda encoded: cubic(fast(encoded))[..., ::-1],
    "ultralytics-letterbox": letterbox,
    "pillow-train": pillow_bilinear,
    "squash-to-224": lambda encoded: interpolated(
        fast(encoded), (224, 224), mode="bicubic", align_corners=False
    ),
}


def photographs(images):
    """Contents and ImageNet labels of all photographs, by the order of timm's list."""
    order = metadata.distribution("timm").locate_file("timm/data/_info/imagenet_synsets.txt")
    place = {wnid: index for index, wnid in enumerate(Path(str(order)).read_text().split())}
    files = sorted(Path(images).glob("*/*"))
    return [each.read_bytes() for each in files], [place[each.parent.name] for each in files]


def tensors(stack, encoded):
    pixels = np.stack([np.float32(STACKS[stack](each)) for each in encoded])
    mean, std = np.float32(OTHER.get(stack, OWN))
    normalised = (pixels / 255 - mean) / std
    return np.ascontiguousarray(normalised.transpose(0, 3, 1, 2), np.float32)


def model(weights):
    import timm
    import torch

    module = timm.create_model("tf_efficientnet_lite0")
    module.load_state_dict(torch.load(weights, weights_only=True))
    return module.eval()


def by_torch(module, inputs):
    import torch

    with torch.inference_mode():
        parts = [module(part) for part in torch.from_numpy(inputs).split(50)]
    return torch.cat(parts).argmax(1).numpy()


def by_onnxruntime(module, inputs):
    import onnxruntime
    import torch

    file = io.BytesIO()
    axes = {"images": {0: "n"}, "logits": {0: "n"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch advises its newer exporter
        torch.onnx.export(
            module, (torch.zeros(1, 3, 224, 224),), file, input_names=["images"],
            output_names=["logits"], dynamic_axes=axes, dynamo=False,
        )  # fmt: skip
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    parts = np.array_split(inputs, 8)
    return np.concatenate([session.run(None, {"images": part})[0] for part in parts]).argmax(1)


def changes(before, after, labels):
    """Count images whose class changes, those that were right alone, and those that are now."""
    right, now = before == labels, after == labels
    return int((before != after).sum()), int((right & ~now).sum()), int((now & ~right).sum())


def swapped(name, images, weights):
    """Count the changes of the swap of a line, named as the atlas names it."""
    encoded, labels = photographs(images)
    module, own = model(weights), tensors(REFERENCE, encoded)
    before = by_torch(module, own)
    if name == "onnxruntime fp32":
        return changes(before, by_onnxruntime(module, own), labels)
    return changes(before, by_torch(module, tensors(name, encoded)), labels)


if __name__ == "__main__":
    for line in [*list(STACKS)[1:], "onnxruntime fp32"]:
        changed, lost, gained = swapped(line, *sys.argv[1:3])
        print(f"{line}: {changed} change, {lost} lost, {gained} gained")
