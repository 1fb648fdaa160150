import pytest

from alignkit.record.document import write_record
from alignkit.report import render
from tests.report.records import quickstart


@pytest.fixture(scope="session")
def record():
    return quickstart()


@pytest.fixture(scope="session")
def page(record, tmp_path_factory):
    """The rendered quickstart page as text."""
    folder = tmp_path_factory.mktemp("run")
    write_record(record, folder)
    return render(folder).read_text()


@pytest.fixture
def rendered(tmp_path):
    """Writes a record, renders it and returns the folder."""

    def write(record):
        write_record(record, tmp_path)
        render(tmp_path)
        return tmp_path

    return write
