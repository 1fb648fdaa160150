"""What docs/report.md says is what the page's script and the commands do."""

import re
from importlib.resources import files
from pathlib import Path

from alignkit.report.page_text import MOST_ROWS
from alignkit.report.write_report import SINGLE_FILE_BYTES, SINGLE_FILE_IMAGES
from tests.browser.test_page import JENKINS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "report.md").read_text()
SOURCES = files("alignkit.report").joinpath("assets", "src")


def source(name):
    return SOURCES.joinpath(name).read_text()


def test_every_key_of_the_viewer_is_in_its_table():
    shown = re.search(r"export const HELP = \[(.*?)\n\];", source("keys.js"), re.DOTALL)[1]
    for key, meaning in re.findall(r'\["([^"]*)", (.*)\],', shown):
        row = next(line for line in TEXT.splitlines() if line.startswith(f"| {key} |"))
        if not meaning.startswith("MODES"):
            assert row == f"| {key} | {meaning.strip(chr(34))} |"


def test_modes_channels_and_every_part_of_an_address_are_named():
    modes = re.findall(r'\["(\w+)", "([^"]+)"\]', source("keys.js").split("GRIDS")[0])
    assert len(modes) == 9
    for letter, name in modes:
        assert f"`{letter}`" in TEXT
        assert name.replace("|", "\\|") in TEXT
    for channel in re.search(r"CHANNELS = \[(.*?)\]", source("pixels.js"))[1].split(", "):
        assert f"`{channel.strip(chr(34))}`" in TEXT
    defaults = re.search(r"DEFAULTS = \{(.*?)\};", source("link.js"), re.DOTALL)[1]
    for key in re.findall(r"(\w+):", defaults):
        assert re.search(rf"`{key}`|[?&]{key}=", TEXT), key


def test_every_term_of_the_filter_is_in_its_table():
    query = source("query.js")
    names = re.search(r"NUMBERS = \[(.*?)\]", query)[1].replace('"', "").split(", ")
    terms = [*re.findall(r"^  (\w+): \(row\)", query, re.MULTILINE), "flip", "pixels"]
    for name in (*names, *terms):
        assert re.search(rf"`{name}[:><]", TEXT), name


def test_sizes_and_the_policy_are_those_of_the_code():
    assert f"at most {SINGLE_FILE_BYTES // 10**6} MB" in TEXT
    assert f"about {SINGLE_FILE_IMAGES} images over all" in TEXT
    assert f"{MOST_ROWS} rows per table" in TEXT
    assert f"`{JENKINS.replace(' allow-same-origin', '')}`" in TEXT
