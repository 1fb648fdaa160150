"""The report that lies in the repository, and its pictures in the README."""

import re
from pathlib import Path

from alignkit.report.results import Results

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "reports" / "sample"
LOADED = re.compile(r'(?:src|href)="(?!data:|#)([^"]*)"')
SHOWN = re.findall(
    r"\]\((docs/[^)]*\.(?:png|webp))\)|src=\"(docs/[^\"]*)\"", (ROOT / "README.md").read_text()
)


def test_it_is_small():
    sizes = {path: path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 2_000_000
    assert sizes[SAMPLE / "index.html"] < 500_000


def test_it_holds_everything_it_links_to_and_nothing_of_the_machine():
    page = (SAMPLE / "index.html").read_text()
    links = {link for link in LOADED.findall(page) if link}
    assert {"results.json", "summary.md", "data/run.js", "assets/report.js"} <= links
    assert [link for link in links if not (SAMPLE / link).is_file()] == []
    for name in ("index.html", "results.json", "summary.md"):
        assert not re.search(r"/(?:home|root|tmp|work|Users)/", (SAMPLE / name).read_text()), name


def test_its_results_keep_the_published_schema():
    found = Results.model_validate_json((SAMPLE / "results.json").read_text())
    assert found.name == "quickstart"


def test_pictures_of_the_readme_are_small():
    names = [ROOT / (first or second) for first, second in SHOWN]
    assert names
    assert all(0 < path.stat().st_size < 200_000 for path in names)
