"""Published figures on the page, in the summary and on the terminal: always named as such."""

from pathlib import Path

import html5lib

from alignkit.experiment.report_option import Published
from alignkit.findings.published import published_facts
from alignkit.report.published_view import published_section, tally
from alignkit.report.results import results_from_record
from alignkit.report.summary_view import summary_view
from alignkit.report.terminal_view import summary
from alignkit.text.names import Names

LABEL = "published, internal data set, 3080 Ti"


def with_published(record):
    def row(inference, path, recall, **options):
        return {"training": "cpu decode", "inference": inference, "trained_with": "opencv",
                "evaluated_with": path, "metrics": {"recall.macro": recall}} | options  # fmt: skip

    rows = (row("cpu decode", "opencv", 0.9476), row("<b>gpu</b> decode", "torchpipe-gpu", 0.9509),
            row("gpu, 5 %", "opencv", 0.8856, fraction=0.05))  # fmt: skip
    published = Published(source="torchpipe", label="internal data set, 3080 Ti", rows=rows)
    facts = published_facts(
        published,
        matrix=record.matrix,
        floors=record.noise_floor,
        curves=record.training_sizes,
        names=Names(record.paths),
    )
    return record.model_copy(update={"published": facts})


def test_published_columns_say_whose_they_are_and_stand_apart(record):
    section = published_section(with_published(record), Names(record.paths))
    assert [(group.text, group.span) for group in section.rows.groups] == [
        (LABEL, 3), ("this run", 3),
    ]  # fmt: skip
    first = [shown.text.replace("\N{NO-BREAK SPACE}", " ") for shown in section.rows.rows[0].cells]
    assert first[2] == "94.76 %"
    assert first[5] != first[2]
    assert section.rows.rows[2].cells[5].mark
    assert "not part of this run" in [note.text for note in section.rows.notes]


def test_no_published_figure_is_in_the_matrix(record, rendered):
    folder = rendered(with_published(record))
    page = (folder / "index.html").read_text()
    html5lib.HTMLParser(strict=True).parse(page)
    start = page.index('id="published"')
    end = page.index("</section>", start)
    assert "94.76" in page[start:end]
    assert "94.76" not in page[:start] + page[end:]
    assert "<b>gpu</b>" not in page
    assert LABEL in page[start:end]


def test_the_summaries_name_the_source_and_count_the_readings(record):
    published = with_published(record)
    told = tally(published.published)
    assert told.startswith("Of 1\N{NO-BREAK SPACE}published difference 1 ")
    assert f"{LABEL}: {told}" in summary(published, Path("index.html")).splitlines()
    (section,) = [each for each in summary_view(published)["sections"] if "published" in each.title]
    assert any(LABEL in header.text for header in section.table.columns)
    assert "Source: torchpipe." in section.words
    assert results_from_record(published).published == published.published


def test_a_claim_that_is_read_against_a_surrogate_says_so(record):
    published = with_published(record)
    (claim,) = published.published.claims
    label = "torchpipe-gpu is a surrogate of torchpipe's GPU path (nvJPEG, ResizeTensor)"
    assert claim.emulated
    assert claim.why.endswith(f"; {label}")
    assert "Read against a surrogate or a simulation: 1." in summary(published, Path("x"))
    (section,) = [each for each in summary_view(published)["sections"] if "published" in each.title]
    assert [row.cells[-1].text for row in section.table.rows] == [claim.why]


def test_a_published_table_without_a_difference_leaves_no_empty_heading(record):
    published = with_published(record)
    bare = published.published.model_copy(update={"claims": (), "note": "Two epochs"})
    alone = published.model_copy(update={"published": bare})
    assert LABEL not in summary(alone, Path("index.html"))
    assert not [each for each in summary_view(alone)["sections"] if "published" in each.title]
    section = published_section(alone, Names(record.paths))
    assert section.words == "Source: torchpipe. Two epochs."
