"""The layouts that docs/data.md shows are read, and its tables are complete."""

import re
from dataclasses import fields
from pathlib import Path

import yaml

from alignkit.datasets import DATASETS
from alignkit.datasets.annotated import Annotated
from alignkit.datasets.label_table import LabelTable
from alignkit.datasets.read_boxes import COORDINATE_ROUNDING
from alignkit.experiment.option import plugin_from
from tests.datasets.annotated_case import write_images

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "data.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_every_block_is_a_data_set():
    shown = [plugin_from(DATASETS, yaml.safe_load(block)["data"]) for block in BLOCKS]
    assert {type(each).__name__ for each in shown} == {
        "Coco", "Voc", "Yolo", "Masks", "LabelTable", "ObjectsOnPhotos", "DigitIdentities", "Identities",
        "Folder",
    }  # fmt: skip


def test_every_data_set_and_every_option_of_those_with_annotations_is_named():
    table = TEXT[: TEXT.index("Options that")]
    for name, plugin in DATASETS.items():
        assert f"| `{name}` |" in table
        kind = plugin.load()
        if issubclass(kind, Annotated):
            absent = [each.name for each in fields(kind) if each.name not in TEXT]
            assert absent == []
    assert f"from {COORDINATE_ROUNDING} pixels" in TEXT


def test_both_forms_of_the_table_of_labels_are_the_same_data(tmp_path):
    write_images(tmp_path)
    (block,) = re.findall(r"^```text\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    forms = list(zip(*(line.split() for line in block.splitlines()), strict=True))
    samples = []
    for form in forms:
        (tmp_path / "labels.csv").write_text("\n".join(form))
        data = LabelTable(root=tmp_path, annotations=tmp_path / "labels.csv", eval_share=1,
                          classes=("bird", "cat", "dog"))  # fmt: skip
        samples.append(data.evaluation())
    assert samples[0].annotations == samples[1].annotations
    assert [each.labels for each in samples[0].annotations] == [(1, 2), (), (1,)]
