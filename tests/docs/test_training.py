"""docs/training.md: the loop that it shows."""

import re
from pathlib import Path

import torch

from tests.photos import encoded, photo

TEXT = (Path(__file__).parents[2] / "docs" / "training.md").read_text()


def test_the_loop_it_shows_runs_on_a_folder_of_classes(tmp_path, monkeypatch):
    (shown,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
        if "MixedLoader" in block
    ]
    for part in ("train", "val"):
        for label in ("daisy", "rose"):
            (tmp_path / "flowers" / part / label).mkdir(parents=True)
            for place in range(3):
                file = tmp_path / "flowers" / part / label / f"{place}.jpg"
                file.write_bytes(encoded(photo("flower", 70 + place, 90), quality=90))
    monkeypatch.chdir(tmp_path)
    seen = []
    names = {"epochs": 2, "train_step": lambda images, labels: seen.append((images, labels))}
    # a worker process could not import the class of a test's text
    small = shown.replace("num_workers=2", "num_workers=0").replace("224", "32")
    exec(small, names)
    assert [tuple(images.shape) for images, _ in seen] == [(6, 3, 32, 32)] * 2
    assert {images.dtype for images, _ in seen} == {torch.float32}
    assert sorted(torch.cat([labels for _, labels in seen]).tolist()) == [0] * 6 + [1] * 6
    (batch,) = names["check"]
    assert set(batch.paths) == {"torchpipe-gpu-surrogate"}
    assert all(each.endswith(".jpg") for each in batch.ids)
