"""Text of strangers in Markdown: it is shown, and does nothing."""

import re

import pytest
from markdown_it import MarkdownIt

from alignkit.datasets.regular_file import escaped_name
from alignkit.text import code, columns, fenced, markdown_text, printable

HOSTILE = [
    "a | b",
    "<img src=x onerror=alert(1)>",
    "[click](http://host/)",
    "![x](http://host/x.png)",
    "[a][b]",
    "[a]: http://host/",
    "`code` ``more``",
    "**bold**",
    "line\n\n# heading",
    "\\`x\\`",
]


def plain(html):
    return re.sub(r"<[^>]*>", "", html).strip()


@pytest.mark.parametrize("write", [markdown_text, code, fenced])
def test_control_characters_are_written_out(write):
    shown = write("a\x1b[2J\u202eb")
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "x1b[2J" in shown


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_shown_as_it_is(text):
    page = MarkdownIt("commonmark").enable("table").render(f"x {markdown_text(text)}")
    assert not re.search(r"<(?!/?p>)", page), page
    table = f"| a | b |\n| --- | --- |\n| {markdown_text(text)} | z |\n"
    rows = MarkdownIt("commonmark").enable("table").render(table)
    assert rows.count("<td>") == 2
    assert "<a " not in rows
    assert "<img" not in rows


@pytest.mark.parametrize("text", HOSTILE)
def test_code_ends_where_the_text_ends(text):
    table = f"| a | b |\n| --- | --- |\n| {code(text)} | z |\n"
    rows = MarkdownIt("commonmark").enable("table").render(table)
    (cell, last) = re.findall(r"<td>(.*?)</td>", rows, re.DOTALL)
    assert cell.startswith("<code>")
    assert cell.endswith("</code>")
    assert cell.count("<") == 2
    assert last == "z"
    block = MarkdownIt("commonmark").render(fenced(text, "sh"))
    assert block.count("<") == 4


def test_nobody_is_notified():
    assert "@bob" not in markdown_text("ask @bob, @team/x")
    assert markdown_text("a@b.example") == "a@b.example"  # an address is none of theirs


def test_a_terminal_is_not_steered():
    assert printable("a\x1b]0;x\x07b\u202ec\r") == "a\\x1b]0;x\\x07b\\u202ec\\x0d"
    assert printable("two\nlines\tand ü − 漢") == "two\nlines\tand ü − 漢"
    assert columns([("\x1b[1m", "a"), ("b", "c")]) == "\\x1b[1m  a\nb        c"
    printable("\udcff").encode()


def test_a_terminal_and_a_file_name_have_one_spelling():
    every = "".join(map(chr, range(0x110000))).replace("\\", "").replace("\t", "").replace("\n", "")
    assert printable(every) == escaped_name(every)
