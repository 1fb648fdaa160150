"""Every kind of stored file is damaged in four ways; the same command finds it, names it and mends.

A kind is found by walking what a run stores, so that none can be forgotten: a file without a row
fails `test_every_stored_file_has_a_row`. The record must then equal the undamaged one. With ``-s``
the tests print what was tried.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from alignkit.datasets import listed_images
from alignkit.experiment import load_experiment
from alignkit.gate import run_or_check
from alignkit.progress import NoProgress
from alignkit.record import RunRecord
from alignkit.report.write_report import ReportOptions, kept_report
from alignkit.workspace import Context, Workspace
from tests.photos import encoded, photo
from tests.runner.test_run import differences, settled

TRAINED = """
name: trained
data: {name: digits-on-photos, train: 60, eval: 40, seed: 0}
preprocess:
  opencv: {decode: opencv, resize: {name: opencv, size: 32}}
  other: {decode: simplejpeg, resize: {name: opencv, size: 32, interpolation: area}}
train: {model: small-cnn, epochs: 2, seeds: [0], batch_size: 20}
evaluate:
  backends: [torch, {name: onnxruntime, precision: [fp32, int8], builds: 2}]
  resamples: 200
advise: {change: serving, decoders: [opencv], resizers: [opencv], images: 20}
report: {worst: 2}
"""
PIXELS = """
name: pixels
data: {{name: images, root: {root}}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
  other: {{decode: simplejpeg, resize: {{name: opencv, size: 32}}}}
gate: {{rules: [{{metric: colour.mean_abs, fail: 5}}]}}
"""
OTHER_RUN = ("data.seed=1", "train.seeds=[1]", "train.learning_rate=0.003")


@dataclass(frozen=True)
class Row:
    """A kind of stored file, and what happens when it is damaged."""

    pattern: str
    """A regular expression of its path below the folder of a `Case`."""
    forget: tuple[str, ...] = ()
    """Kinds of finished work that are removed as well, so that the run reads this file."""
    ends: str = "named"
    """``named``: in one line, and made again. ``rewritten``: in silence, as what it
    was made of is there. ``unread``: it holds nothing."""
    base: str = "trained"
    """``trained``, without its record if that would answer; ``killed``; or ``pixels``."""


KEY = "[0-9a-f]{64}"
STORED = [
    # engines too, as only they read the images of a calibration
    *(Row(f"reports/.cache/prepared/{KEY}/{name}", ("trainings", "engines", "cells"))
      for name in (r"key\.json", r"outcomes\.json", r"pixels\.npy")),
    *(Row(f"reports/.cache/trainings/{KEY}/{name}")
      for name in (r"key\.json", r"weights\.pt", r"log\.json", r"log\.csv", r"classification\.json")),
    *(Row(f"reports/.cache/exports/{KEY}/{name}", ("engines", "cells"))
      for name in (r"key\.json", r"model\.onnx", r"check\.json")),
    *(Row(f"reports/.cache/engines/{KEY}/{name}", ("cells",))
      for name in (r"key\.json", r"model\.onnx", r"calibration\.txt", r"checked\.npy",
                   r"weights\.txt")),
    *(Row(f"reports/.cache/cells/{KEY}/{name}")
      for name in (r"key\.json", r"session\.json", r"predictions\.parquet")),
    *(Row(f"reports/.cache/spreads/{KEY}/{name}") for name in (r"key\.json", r"spread\.json")),
    *(Row(f"reports/.cache/comparisons/{KEY}/{name}")
      for name in (r"key\.json", r"comparison\.json", r"images\.parquet", r"attributions\.json",
                   r"advice\.json")),
    *(Row(f"reports/.cache/lots/{KEY}/{name}", ("comparisons",), base="pixels")
      for name in (r"key\.json", r"part\.json\.gz")),
    Row(rf"reports/.cache/unfinished/trainings-{KEY}/state\.pt", base="killed"),
]  # fmt: skip
DATA = [
    Row(r"data/digits-on-photos/\w+-\w+/index\.json"),
    Row(r"data/digits-on-photos/\w+-\w+/\d/\d+\.jpg"),
    Row(r"data/hashes/\w+\.json", base="pixels"),
]
RUN = "reports/trained/[0-9a-f]{12}"
SHOWN = [
    Row(rf"{RUN}/record\.json"),
    Row(rf"{RUN}/predictions/.+\.parquet"),
    Row(rf"{RUN}/trainings/.+-log\.csv"),
    Row(rf"{RUN}/trainings/.+-classification\.json"),
    Row(rf"{RUN}/data/images-\w+\.parquet"),
    Row(rf"{RUN}/cells\.parquet"),
    Row(rf"{RUN}/data/[0-9a-f]{{16}}\.js"),
    Row(rf"{RUN}/img/\w+\.png"),
    *(Row(f"{RUN}/{name}", ends="rewritten")
      for name in (r"index\.html", r"summary\.md", r"results\.json", r"report\.json", r"data/run\.js",
                   "assets/.+")),
    Row(f"{RUN}/tensorboard/.+", ends="unread"),
    Row(r"(reports|data)/(.*\.lock|\.gitignore)", ends="unread"),
    # what a gate of pixels stores besides: its record, which every run makes again
    Row(r"reports/pixels/\w+/.+", ends="rewritten", base="pixels"),
]  # fmt: skip
TABLE = [*STORED, *DATA, *SHOWN]


def flip_bit(content: bytes, _: bytes) -> bytes:
    middle = len(content) // 2
    return (
        content[:middle] + bytes(each ^ 1 for each in content[middle:][:1]) + content[middle + 1 :]
    )


def cut(content: bytes, _: bytes) -> bytes:
    return content[: len(content) // 2]


def empty(content: bytes, _: bytes) -> bytes:
    return b""


def replace(_: bytes, other: bytes) -> bytes:
    return other


DAMAGES: tuple[Callable[[bytes, bytes], bytes], ...] = (flip_bit, cut, empty, replace)


@dataclass(frozen=True)
class Case:
    """A folder with an experiment, its reports, a cache of data sets and images."""

    folder: Path
    name: str
    overrides: tuple[str, ...] = ()

    @property
    def workspace(self) -> Workspace:
        """Of a new process, which has verified nothing."""
        return Workspace(self.folder / "reports")

    def run(self, progress: NoProgress | None = None) -> RunRecord:
        """Run the experiment with its report, as the command does; return its record."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ALIGNKIT_CACHE_DIR", str(self.folder / "data"))
            # the images of a test are younger than those whose hashes are kept
            patch.setattr(listed_images, "SETTLED_SECONDS", 0.0)
            experiment = load_experiment(self.folder / "experiment.yaml", self.overrides)
            context = Context(self.workspace, progress or NoProgress())
            record, folder = run_or_check(experiment, context)
            kept_report(folder, ReportOptions())
        return record

    def copied(self, to: Path) -> Case:
        shutil.copytree(self.folder, to)
        return Case(to, self.name)

    def files(self) -> list[str]:
        """Every stored file; the experiment and the images are the user's."""
        found = (each for name in ("reports", "data") for each in (self.folder / name).rglob("*"))
        return sorted(str(each.relative_to(self.folder)) for each in found if each.is_file())

    def matching(self, row: Row) -> list[Path]:
        return [self.folder / each for each in self.files() if re.fullmatch(row.pattern, each)]


class Kill(NoProgress):
    """Ends a run as Ctrl-C does, after the first epoch of its first training."""

    @contextmanager
    def stage(self, name: str, total: int, detail: str = "") -> Iterator[object]:
        with super().stage(name, total, detail) as stage:
            if name == "train":
                stage.advance = self._interrupt
            yield stage

    @staticmethod
    def _interrupt(_: int = 1) -> None:
        raise KeyboardInterrupt


def trained(folder: Path, overrides: tuple[str, ...] = ()) -> Case:
    """The state of a run that was killed in its first training."""
    folder.mkdir()
    (folder / "experiment.yaml").write_text(TRAINED)
    case = Case(folder, "trained", overrides)
    with pytest.raises(KeyboardInterrupt):
        case.run(Kill())
    return case


def pixels(folder: Path, count: int) -> Case:
    images = folder / "images"
    images.mkdir(parents=True)
    for index in range(count):
        (images / f"{index}.jpg").write_bytes(encoded(photo("china", 60 + index, 80)))
    (folder / "experiment.yaml").write_text(PIXELS.format(root=images))
    return Case(folder, "pixels")


@dataclass(frozen=True)
class Base:
    """A case that tests copy and damage."""

    case: Case
    other: Case
    """Another run, whose files have the same names."""
    record: RunRecord
    """Of a run that nobody damaged."""


@pytest.fixture(scope="module")
def pixel_base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    folder = tmp_path_factory.mktemp("pixels")
    case, other = pixels(folder / "case", 4), pixels(folder / "other", 5)
    other.run()
    return Base(case, other, case.run())


@pytest.fixture(scope="module")
def bases(pixel_base: Base, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Base]:
    folder = tmp_path_factory.mktemp("trained")
    killed, other_killed = trained(folder / "killed"), trained(folder / "other-killed", OTHER_RUN)
    done, other = killed.copied(folder / "done"), other_killed.copied(folder / "other")
    record = done.run()
    Case(other.folder, other.name, OTHER_RUN).run()
    return {
        "trained": Base(done, other, record),
        "killed": Base(killed, other_killed, record),
        "pixels": pixel_base,
    }


@pytest.fixture(scope="module")
def tried() -> Iterator[dict[str, list[str]]]:
    """The table of what was tried."""
    table: dict[str, list[str]] = {}
    yield table
    print()
    for name, ends in table.items():
        print(f"{name:60} {', '.join(ends)}")


@pytest.mark.slow
def test_every_stored_file_has_a_row(bases):
    files = {each for base in bases.values() for each in base.case.files()}
    assert [each for each in files if not any(re.fullmatch(r.pattern, each) for r in TABLE)] == []
    absent = [r.pattern for r in TABLE if not any(re.fullmatch(r.pattern, e) for e in files)]
    # the events of TensorBoard are written where it is installed
    assert [each for each in absent if "tensorboard" not in each] == []


def check(base: Base, row: Row, damage: Callable[[bytes, bytes], bytes], folder: Path,
          caplog: pytest.LogCaptureFixture) -> str:  # fmt: skip
    """Damage a file of a kind, run again, and say how that ended."""
    case = base.case.copied(folder / "case")
    if not row.pattern.startswith(RUN):
        # otherwise the record would answer, and nothing else be read
        for record in case.folder.glob("reports/*/*/record.json"):
            record.unlink()
    for kind in row.forget:
        shutil.rmtree(case.folder / "reports/.cache" / kind)
    file, *_ = case.matching(row)
    before = file.read_bytes()
    contents = (each.read_bytes() for each in base.other.matching(row))
    other = next((each for each in contents if each != before), None)
    if other is None and damage is replace:
        return "equal"
    file.write_bytes(damage(before, other))
    caplog.clear()
    record = case.run()
    assert record.verdict.exit_code == base.record.verdict.exit_code
    assert differences(settled(record), settled(base.record)) == []
    if row.ends == "named":
        (message,) = caplog.messages
        # the images of a data set are named by its folder and the path in it
        assert str(file) in message or (str(file.parents[1]) in message and file.name in message)
        assert "\n" not in message
    else:
        assert caplog.messages == []
    # the record of a gate of pixels has the time of its own run
    if row.ends == "rewritten" and case.name == "trained":
        assert file.read_bytes() == before
    if damage is replace:
        assert differences(settled(case.run()), settled(base.record)) == []
        assert len(caplog.messages) == (row.ends == "named")
    return row.ends


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("row", TABLE, ids=lambda each: each.pattern)
def test_a_damaged_file_changes_no_record(bases, row, damage, tmp_path, caplog, tried):
    base = bases[row.base]
    if not base.case.matching(row):
        pytest.skip("TensorBoard is not installed")
    ended = check(base, row, damage, tmp_path, caplog)
    tried.setdefault(row.pattern, []).append(f"{damage.__name__}: {ended}")


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    "name", ["reports/.cache/comparisons/.+/comparison.json", "data/hashes/.+"]
)
def test_a_damaged_file_of_a_gate_changes_no_record(pixel_base, name, damage, tmp_path, caplog):
    assert check(pixel_base, Row(name), damage, tmp_path, caplog) == "named"
