from pathlib import Path

import pytest

from alignkit.errors import ConfigError, DataError, NothingCompared
from alignkit.experiment import load_experiment
from alignkit.studies.diff.diff_arguments import samples_of
from tests.photos import encoded, photo


@pytest.fixture
def folder(tmp_path):
    for name in ("b.jpg", "a.jpg", "deep/c.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(encoded(photo()))
    return tmp_path


def test_a_folder_a_file_and_a_list(folder):
    (folder / "some.txt").write_text("deep/c.png\n\na.jpg\n")
    assert samples_of([folder], None)[0].ids == ("a.jpg", "b.jpg", "deep/c.png")
    assert samples_of([folder / "b.jpg"], None)[0].ids == ("b.jpg",)
    assert samples_of([folder / "some.txt"], None)[0].ids == ("a.jpg", "deep/c.png")
    assert len(samples_of([folder], None, limit=2)[0]) == 2


def test_words_name_few_and_count_the_rest(folder):
    given = [folder / "a.jpg"] * 5
    assert samples_of(given, None)[1].endswith("a.jpg and 2 more")


def test_the_data_of_an_experiment_are_used_where_nothing_is_named(folder):
    file = folder / "e.yaml"
    file.write_text(
        f"name: e\ndata: {{name: images, root: {folder}}}\n"
        "preprocess: {a: {preset: opencv-train, size: 32}, b: {preset: pillow-train, size: 32}}\n"
    )
    experiment = load_experiment(file)
    samples, words = samples_of([], experiment)
    assert len(samples) == 3
    assert words == f"the data of {file}"
    assert len(samples_of([], experiment, limit=1)[0]) == 1


def test_nothing_named_and_nothing_there_are_told(tmp_path):
    with pytest.raises(ConfigError, match="name a folder"):
        samples_of([], None)
    with pytest.raises(NothingCompared, match="no images"):
        samples_of([tmp_path], None)
    with pytest.raises(DataError, match="cannot be read"):
        samples_of([Path("missing.txt")], None)
