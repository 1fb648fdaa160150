"""A small gate on disk: images made here, a YAML file, and rules to choose."""

from dataclasses import dataclass
from pathlib import Path

from tests.photos import encoded, make_jpegs, photo

KINDS = ("420", "444", "grey", "low-quality")
PATHS = """\
  pillow: {decode: pillow, resize: {name: opencv, size: 32}}
  opencv: {decode: opencv, resize: {name: opencv, size: 32}}
"""
ONE_PATH = "  serving: {decode: pillow, resize: {name: opencv, size: 32}}\n"


@dataclass(frozen=True)
class GateCase:
    folder: Path

    @property
    def images(self) -> Path:
        return self.folder / "images"

    @property
    def reports(self) -> Path:
        return self.folder / "reports"

    @property
    def baselines(self) -> Path:
        return self.folder / "alignkit.baseline" / "small"

    def write(
        self, *rules: str, paths: str = PATHS, also: str = "", name: str = "gate.yaml"
    ) -> Path:
        """A gate file; without rules, its defaults."""
        lines = ["# Is it aligned?", "name: small", f"data: {{name: images, root: {self.images}}}"]
        lines += ["preprocess:", paths.rstrip()]
        gate = ["gate:"] if rules or also else []
        gate += [f"  {line}" for line in also.splitlines()]
        gate += ["  rules:", *(f"    - {rule}" for rule in rules)] if rules else []
        path = self.folder / name
        path.write_text("\n".join([*lines, *gate]) + "\n")
        return path


def make_case(folder: Path, kinds: tuple[str, ...] = KINDS) -> GateCase:
    """Images of several kinds and sizes below ``folder/images``."""
    case = GateCase(folder)
    case.images.mkdir()
    jpegs = make_jpegs()
    for kind in kinds:
        (case.images / f"{kind}.jpg").write_bytes(jpegs[kind])
    (case.images / "flower.jpg").write_bytes(encoded(photo("flower", 80, 120), quality=85))
    return case
