"""Make probes/: small JPEG files of every kind that a decoder on a GPU may treat in its own way.

    python make_probes.py            (cjpeg of libjpeg-turbo 2.1 or newer on the PATH, Pillow, scikit-learn)

The files are part of the kit; run this only to change them. Names: SUBSAMPLING-CODING-CONTENT-qQUALITY[-MORE].
"""

import io
import subprocess
from pathlib import Path

import numpy as np
from PIL import Image

OUT = Path(__file__).parent / "probes"
SAMPLE = {"444": "1x1", "422": "2x1", "420": "2x2", "440": "1x2", "411": "4x1", "410": "4x2"}


def contents() -> dict[str, np.ndarray]:
    from sklearn.datasets import load_sample_image

    draw = np.random.default_rng(0)
    china, flower = (Image.fromarray(load_sample_image(f"{n}.jpg")) for n in ("china", "flower"))
    rows, columns = np.mgrid[:61, :97]
    discs = np.zeros((61, 97, 3), np.uint8) + np.array([20, 30, 200], np.uint8)
    discs[np.hypot(rows - 30, columns - 40) < 22] = (250, 10, 10)
    discs[np.hypot(rows - 20, columns - 70) < 14] = (10, 240, 20)
    return {
        "china": np.asarray(china.resize((97, 61))),
        "flower": np.asarray(flower.resize((97, 61))),
        "noise": draw.integers(0, 256, (61, 97, 3), dtype=np.uint8),
        "discs": discs,
    }


def cjpeg(image: np.ndarray, *options: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PPM")
    done = subprocess.run(
        ["cjpeg", *options], input=file.getvalue(), capture_output=True, check=True
    )
    return done.stdout


def pillow(image: Image.Image, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    return file.getvalue()


def probes() -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    images = contents()
    for sub, sample in SAMPLE.items():
        for content in ("china", "flower", "noise", "discs"):
            for quality in (30, 75, 95) if content in ("china", "noise") else (90,):
                for coding, more in {"baseline": (), "progressive": ("-progressive",)}.items():
                    if coding == "progressive" and quality not in (75, 90):
                        continue
                    name = f"{sub}-{coding}-{content}-q{quality}"
                    found[name] = cjpeg(
                        images[content], "-sample", sample, "-quality", str(quality), *more
                    )
        for quality in (50, 60, 85, 100):
            found[f"{sub}-baseline-china-q{quality}"] = cjpeg(
                images["china"], "-sample", sample, "-quality", str(quality)
            )
    for sub in ("444", "420"):
        sample = ("-sample", SAMPLE[sub])
        found[f"{sub}-baseline-china-q85-restart1row"] = cjpeg(
            images["china"], *sample, "-quality", "85", "-restart", "1"
        )
        found[f"{sub}-baseline-china-q85-restart2mcu"] = cjpeg(
            images["china"], *sample, "-quality", "85", "-restart", "2B"
        )
        found[f"{sub}-baseline-china-q85-optimized"] = cjpeg(
            images["china"], *sample, "-quality", "85", "-optimize"
        )
        found[f"{sub}-arithmetic-china-q85"] = cjpeg(
            images["china"], *sample, "-quality", "85", "-arithmetic"
        )
        found[f"{sub}-extended-china-q5-16bitqt"] = cjpeg(images["china"], *sample, "-quality", "3")
        for height, width in (
            (1, 1),
            (1, 40),
            (40, 1),
            (7, 9),
            (8, 8),
            (15, 17),
            (16, 16),
            (17, 33),
            (33, 31),
            (64, 64),
        ):
            part = np.ascontiguousarray(
                np.asarray(Image.fromarray(images["flower"]).resize((width, height)))
            )
            found[f"{sub}-baseline-size{height}x{width}-q85"] = cjpeg(
                part, *sample, "-quality", "85"
            )
    for content in ("china", "noise"):
        for coding, more in {"baseline": (), "progressive": ("-progressive",)}.items():
            found[f"grey-{coding}-{content}-q85"] = cjpeg(
                images[content], "-grayscale", "-quality", "85", *more
            )
        found[f"rgb-baseline-{content}-q85"] = cjpeg(images[content], "-rgb", "-quality", "85")
    large = np.asarray(
        Image.fromarray(images["china"]).resize((640, 427), Image.Resampling.BICUBIC)
    )
    found["420-baseline-large-q90"] = cjpeg(large, "-quality", "90")
    found["444-baseline-large-q90"] = cjpeg(large, "-sample", "1x1", "-quality", "90")
    photo = Image.fromarray(images["china"])
    found["cmyk-baseline-china-q85"] = pillow(photo.convert("CMYK"), quality=85)
    for turn in (3, 6, 8):
        tags = Image.Exif()
        tags[0x0112] = turn
        found[f"420-baseline-china-q85-exif{turn}"] = pillow(photo, quality=85, exif=tags.tobytes())
    whole = found["420-baseline-china-q85"]
    for share in (30, 60, 95):
        found[f"420-truncated-china-q85-{share}percent"] = whole[: len(whole) * share // 100]
    found["420-noend-china-q85"] = whole[:-2]
    for place in (50, 80):
        broken = bytearray(whole)
        broken[len(whole) * place // 100] ^= 0xFF
        found[f"420-broken-china-q85-byte{place}percent"] = bytes(broken)
    found["none-empty"] = b""
    found["none-text"] = b"this is no JPEG file"
    return found


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for old in OUT.glob("*.jpg"):
        old.unlink()
    every = probes()
    for name, data in every.items():
        (OUT / f"{name}.jpg").write_bytes(data)
    print(len(every), "files,", sum(map(len, every.values())), "bytes")
