"""Packages that add plugins from outside, as an installer would leave them."""

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs" / "plugins.md"


def blocks(language: str) -> list[str]:
    """The code blocks of docs/plugins.md in one language."""
    return re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


def documented_package(folder: Path) -> Path:
    """The package of docs/plugins.md, installed into ``folder``."""
    for block in blocks("python"):
        name = block.split("\n", 1)[0].removeprefix("# ")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(block, encoding="utf-8")
    return installed(folder, "alignkit-pillow-icc", {"pillow-icc": "alignkit_pillow_icc:PLUGIN"})


def installed(
    folder: Path, package: str, entries: dict[str, str], *, family: str = "decoders"
) -> Path:
    """Write the metadata of a package whose modules are in ``folder``."""
    metadata = folder / f"{package.replace('-', '_')}-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
    lines = [f"{name} = {target}" for name, target in entries.items()]
    group = "\n".join([f"[alignkit.{family}]", *lines])
    (metadata / "entry_points.txt").write_text(f"{group}\n")
    return folder
