"""Make probes/exact-*.jpg: files written coefficient by coefficient, each of which isolates one step of a decoder.

    python make_exact_probes.py                (jpeglib; the files are part of the kit)

Quantisers are 1, so that a coefficient is the number that the inverse cosine transform receives. A block with
only a DC of 8 (v − 128) decodes to v everywhere: colour conversion then is seen alone. Eighths between show how
a plane is rounded. One AC at a time, and random ones, show the transform. Flat luma under random chroma shows
how chroma is brought to the size of luma.
"""

from pathlib import Path

import jpeglib
import numpy as np

OUT = Path(__file__).parent / "probes"
ONES = np.ones((2, 8, 8), np.uint16)
SHARES = {"444": (1, 1), "422": (1, 2), "420": (2, 2), "440": (2, 1), "411": (1, 4)}


def dc(values: np.ndarray) -> np.ndarray:
    """(rows, columns) coefficients → blocks (rows, columns, 8, 8) with nothing else."""
    blocks = np.zeros((*values.shape, 8, 8), np.int16)
    blocks[..., 0, 0] = values
    return blocks


def write(name: str, *planes: np.ndarray) -> None:
    grey = len(planes) == 1
    image = jpeglib.from_dct(
        *planes, qt=ONES[:1] if grey else ONES, quant_tbl_no=[0] if grey else [0, 1, 1]
    )
    image.write_dct(str(OUT / f"exact-{name}.jpg"))


def main() -> None:
    draw = np.random.default_rng(20261127)
    for number in range(3):
        write(
            f"444-colour-whole{number}",
            *(dc(8 * (draw.integers(0, 256, (32, 32)) - 128)) for _ in range(3)),
        )
    write("444-colour-eighths", *(dc(draw.integers(-1024, 1024, (32, 32))) for _ in range(3)))
    # nearly grey: products of small differences, where truncation and rounding part
    write(
        "444-colour-near",
        dc(8 * (draw.integers(0, 256, (32, 32)) - 128)),
        *(dc(8 * draw.integers(-6, 7, (32, 32))) for _ in range(2)),
    )
    write("grey-dc", dc(np.resize(np.arange(-1024, 1024), (46, 45))))
    single = np.zeros((63 * 9, 8, 8), np.int16)
    for place in range(1, 64):
        for step, height in enumerate((1, -1, 3, 7, -17, 50, 199, -600, 1000)):
            single[(place - 1) * 9 + step, place // 8, place % 8] = height
    write("grey-single", single.reshape(21, 27, 8, 8))
    for name, spread, count in (("low", 40, 6), ("high", 200, 20), ("full", 60, 64)):
        blocks = np.zeros((24 * 24, 64), np.int16)
        for block in blocks:
            block[draw.choice(64, count, replace=False)] = np.rint(
                draw.laplace(0, spread, count)
            ).clip(-1000, 1000)
        write(f"grey-random-{name}", blocks.reshape(24, 24, 8, 8))
    for name, (down, across) in SHARES.items():
        rows, columns = 16 // down, 16 // across
        flat = dc(np.zeros((16, 16)))
        steps = [dc(8 * draw.integers(-60, 61, (rows, columns))) for _ in range(2)]
        write(f"{name}-chroma-steps", flat, *steps)
        rough = [
            np.rint(draw.laplace(0, 25, (rows, columns, 8, 8))).clip(-300, 300).astype(np.int16)
            for _ in range(2)
        ]
        write(f"{name}-chroma-rough", flat, *rough)


if __name__ == "__main__":
    main()
