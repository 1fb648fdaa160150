"""Print each sentence of the project's prose that uses banned wording, with its file and line.

    python tests/prose.py

It only reads files, so it needs nothing installed. Exits with 1 if it finds a sentence.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE_FOLDERS = (
    "api", "attribute", "backends", "baseline", "cli", "compare", "controls", "datasets",
    "decoders", "engines", "experiment", "findings", "gate", "isolation", "judge", "loader",
    "search", "models", "plan", "predict", "prepare", "preprocess", "record", "resizers", "runner",
    "studies", "tasks", "train",
)  # fmt: skip
"""Folders of the package whose docstrings and help texts are checked."""
SOURCES = (
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "experiments/**/*.yaml",
    "templates/*.yml", "action.yml", "noxfile.py", "benchmarks/*.py",
    "alignkit/report/templates/*.j2", "alignkit/*.py",
    *(f"alignkit/{each}/**/*.py" for each in PACKAGE_FOLDERS),
)  # fmt: skip
BANNED = re.compile(
    r"\b(anew|at\s+most\s+an|but\s+for|gravest|mended|of\s+equals|stands\s+for|stood\s+for"
    r"|to\s+be\s+had|told)\b|^what\b[^?]*\Z",  # a question may begin with "what"
    re.IGNORECASE,
)
CLAUSE = re.compile(r"\S.*?(?:[.:;!?|](?=\s)|\n\s*\n|\Z)", re.DOTALL)
CODE = re.compile(r"^ *```.*?```$|`[^`]*`|\{\{.*?\}\}", re.DOTALL | re.MULTILINE)
MARKER = re.compile(r"^\s*(#+|[-*]|\d+\.)(?=\s)|<[^>\n]*>|\{[#%].*?[#%]\}", re.MULTILINE)


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of every docstring, including those of attributes, and every ``help=``."""
    for node in ast.walk(ast.parse(text)):
        helps = isinstance(node, ast.keyword) and node.arg == "help"
        if (helps or isinstance(node, ast.Expr)) and isinstance(node.value, ast.Constant):
            yield node.value.lineno, str(node.value.value)


def prose(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each part: docstrings, comments of YAML, or the page."""
    text = file.read_text()
    if file.suffix == ".py":
        yield from docstrings(text)
    elif file.suffix in (".yaml", ".yml"):  # a comment behind a value is a part of its own
        lines = (line.partition("# ") for line in text.splitlines())
        yield 1, "\n".join(f"{'| ' * bool(value.strip())}{said}" for value, _, said in lines)
    else:
        yield 1, MARKER.sub(lambda found: "\n" * found[0].count("\n") + " | ", text)


def findings(root: Path = ROOT, sources: Iterable[str] = SOURCES) -> Iterator[str]:
    """Yield ``file:line: sentence``; a pattern that matches no file raises FileNotFoundError."""
    for pattern in sources:
        files = sorted(root.glob(pattern))
        if not files:
            raise FileNotFoundError(f"{pattern} matches no file: correct SOURCES in {__file__}")
        for file in files:
            for first, text in prose(file):
                plain = CODE.sub(lambda found: "\n" * found[0].count("\n") + "…", text)
                for clause in CLAUSE.finditer(plain):
                    if BANNED.search(clause[0]):
                        line = first + plain.count("\n", 0, clause.start())
                        yield f"{file.relative_to(root)}:{line}: {' '.join(clause[0].split())}"


if __name__ == "__main__":
    sys.exit("\n".join(findings()) or 0)
