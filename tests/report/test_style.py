"""Contrast of the style sheet's colours, by WCAG 2.2's own formula."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

STYLE = files("alignkit.report").joinpath("assets", "report.css").read_text()
LIGHT, DARK, PAPER = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
SCHEMES = {"light": LIGHT, "dark": DARK, "print": LIGHT + PAPER}
ASSETS = files("alignkit.report").joinpath("assets")
GENERATED = re.compile(r"[np][1-5]|h[0-9]|l[1-3]|panel-\w+|of-differing")
TONES = [f"{side}{depth}" for side in "np" for depth in range(1, 6)]


def colours(scheme):
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", SCHEMES[scheme]))
    return {
        name: value if len(value) == 7 else "#" + "".join(c * 2 for c in value[1:])
        for name, value in found.items()
    }


def luminance(colour):
    levels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in levels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    bright, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("ground", ["page", "sheet", "tint"])
@pytest.mark.parametrize("ink", ["ink", "soft", "link"])
def test_text_is_readable(scheme, ground, ink):
    if scheme == "print" and ground == "page":
        ground = "sheet"
    assert contrast(colours(scheme)[ink], colours(scheme)[ground]) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("tone", [*TONES, "line"])
def test_cells_are_readable(scheme, tone):
    assert contrast(colours(scheme)["ink"], colours(scheme)[tone]) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("state", ["pass", "warn", "fail", "error"])
def test_states_are_readable(scheme, state):
    assert contrast(colours(scheme)[state], colours(scheme)["sheet"]) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("side", ["n", "p"])
def test_the_scale_grows_away_from_zero(scheme, side):
    known = colours(scheme)
    steps = [contrast(known[f"{side}{depth}"], known["sheet"]) for depth in range(1, 6)]
    assert steps == sorted(steps)


def test_the_picture_stage_is_neutral_grey_in_every_scheme():
    grey = re.findall(r"--grey: (#[0-9a-f]+)", STYLE)
    assert grey == ["#767676"]


def test_style_sheets_are_small_and_have_no_rule_for_what_no_page_has():
    sheets = [ASSETS.joinpath(name).read_text() for name in ("report.css", "viewer.css")]
    # of them 2,200 for answers drawn on pictures, 1,100 for a task's figures and neighbours,
    # 200 for heads that sort a table
    assert sum(len(sheet.encode()) for sheet in sheets) <= 27_150
    named = {name for sheet in sheets for name in re.findall(r"\.([a-z][\w-]*)(?![^{]*\})", sheet)}
    folder = Path(str(files("alignkit.report")))
    written = [
        *folder.glob("templates/*.j2"),
        *folder.glob("assets/src/*.js"),
        *folder.rglob("*.py"),
    ]
    words = set(re.findall(r"[\w-]+", " ".join(each.read_text() for each in written)))
    states = {"pass", "warn", "fail", "error", "inconclusive", "skipped", "failed", "built"}
    assert {name for name in named if not GENERATED.fullmatch(name)} - words - states == set()
