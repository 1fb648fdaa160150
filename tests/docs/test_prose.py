"""The check of the prose finds a banned sentence wherever it is read, and reads every help text."""

import pytest
import typer

from alignkit.cli import app
from tests.prose import ROOT, docstrings, findings

PLANTED = {
    "page.md": ("# Title\n\nPlain text.\n- All is drawn\n  anew.\n", 4, "All is drawn anew."),
    "table.md": ("| a | b |\n|---|---|\n| one | what is left |\n", 3, "what is left"),
    "file.yaml": ("name: x\nsize: 3  # of equals\n", 2, "of equals"),
    "code.py": ('def f():\n    """Do it.\n\n    What it does.\n    """\n', 4, "What it does."),
    "help.py": ('Option(\n    1,\n    help="Be told.",\n)\n', 3, "Be told."),
    "page.j2": ("<h1>{{ title }}</h1>\n<p>All but for one.</p>\n", 2, "All but for one."),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_sentence_is_found_with_its_line(tmp_path, name):
    text, line, sentence = PLANTED[name]
    (tmp_path / name).write_text(text)
    (found,) = findings(tmp_path, [name])
    assert found.startswith(f"{name}:{line}: ")
    assert found.removeprefix(f"{name}:{line}: ").strip(" |") == sentence


def test_every_help_text_of_the_command_line_is_read():
    read = {
        " ".join(part.split())
        for file in (ROOT / "alignkit" / "cli").glob("*.py")
        for _, text in docstrings(file.read_text())
        for part in [text, text.split("\n\n")[0]]
    }
    shown = set(helps(typer.main.get_command(app)))
    assert len(shown) > 80
    assert shown <= read


def helps(command):
    """Help of a command, its options, and its commands; without those that typer brings."""
    if command.help:
        yield " ".join(command.help.split())
    for parameter in command.params:
        if getattr(parameter, "help", None) and "completion" not in parameter.name:
            yield " ".join(parameter.help.split())
    for each in getattr(command, "commands", {}).values():
        yield from helps(each)
