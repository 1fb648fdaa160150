"""Small data sets with boxes, masks and labels, written as each format has them."""

import io
import json

import numpy as np
from PIL import Image

SIZES = {"a": (40, 30), "b": (30, 50), "c": (64, 64), "d": (32, 20)}
"""Stem → width and height."""


def jpeg(size, colour=(90, 120, 60), orientation=1):
    exif = Image.Exif()
    if orientation != 1:
        exif[0x0112] = orientation
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "JPEG", exif=exif)
    return file.getvalue()


def write_images(folder, sizes=SIZES):
    folder.mkdir(parents=True, exist_ok=True)
    for number, (stem, size) in enumerate(sizes.items()):
        (folder / f"{stem}.jpg").write_bytes(jpeg(size, (number * 20, 40, 90)))
    return folder


def coco(root, boxes, sizes=SIZES, name="instances.json", **changes):
    """Write images and a COCO file; ``boxes`` are stem → [(category, x, y, width, height), …]."""
    write_images(root, sizes)
    ids = {stem: number * 7 + 3 for number, stem in enumerate(sizes)}
    content = {
        "images": [
            {"id": ids[stem], "file_name": f"{stem}.jpg", "width": size[0], "height": size[1]}
            for stem, size in sizes.items()
        ],
        "annotations": [
            {"id": number, "image_id": ids[stem], "category_id": box[0], "bbox": [*box[1:5]],
             "area": box[3] * box[4], "iscrowd": int(len(box) > 5)}
            for number, (stem, box) in enumerate(
                ((stem, box) for stem, own in boxes.items() for box in own), start=1)
        ],
        "categories": [{"id": 5, "name": "dog"}, {"id": 2, "name": "cat"}],
    } | changes  # fmt: skip
    file = root / name
    file.write_text(json.dumps(content))
    return file


def voc_xml(size, objects):
    """Write the XML of an image; objects are (name, xmin, ymin, xmax, ymax[, difficult])."""
    text = "".join(
        f"<object><name>{each[0]}</name><difficult>{int(len(each) > 5)}</difficult><bndbox>"
        f"<xmin>{each[1]}</xmin><ymin>{each[2]}</ymin><xmax>{each[3]}</xmax><ymax>{each[4]}</ymax>"
        "</bndbox></object>"
        for each in objects
    )
    sides = f"<size><width>{size[0]}</width><height>{size[1]}</height><depth>3</depth></size>"
    return f"<annotation><filename>x.jpg</filename>{sides}{text}</annotation>"


def voc(root, objects, sizes=SIZES, **sets):
    write_images(root / "JPEGImages", sizes)
    (root / "Annotations").mkdir()
    for stem, own in objects.items():
        (root / "Annotations" / f"{stem}.xml").write_text(voc_xml(sizes[stem], own))
    for name, stems in sets.items():
        (root / "ImageSets/Main").mkdir(parents=True, exist_ok=True)
        (root / "ImageSets/Main" / f"{name}.txt").write_text("\n".join(stems) + "\n")
    return root


def yolo(root, lines, sizes=SIZES, folder="val", names=("cat", "dog")):
    write_images(root / "images" / folder, sizes)
    (root / "labels" / folder).mkdir(parents=True)
    for stem, own in lines.items():
        (root / "labels" / folder / f"{stem}.txt").write_text("\n".join(own) + "\n")
    (root / "data.yaml").write_text(f"val: images/{folder}\nnames: {json.dumps([*names])}\n")
    return root


def mask(width, height, *values, mode="L"):
    """Return a mask with a stripe of each value."""
    stripes = np.array_split(np.zeros((height, width), np.uint8), len(values), axis=1)
    pixels = np.concatenate(
        [np.full_like(each, v) for each, v in zip(stripes, values, strict=True)], 1
    )
    image = Image.fromarray(pixels)
    if mode == "P":
        image.putpalette([*range(256)] * 3)
    return image


def masks(root, values, sizes=SIZES):
    """Write images and masks; ``values`` are stem → values of the stripes."""
    write_images(root / "images", sizes)
    (root / "masks").mkdir()
    for stem, own in values.items():
        mask(*sizes[stem], *own).save(root / "masks" / f"{stem}.png")
    return root
