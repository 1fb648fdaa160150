"""A snapshot by workers of an engine is that of this process."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

import alignkit.lots
from alignkit.baseline.golden import GoldenStore
from alignkit.baseline.snapshot import take_snapshot
from alignkit.baseline.tapped_lots import TapLots
from alignkit.compare.pixel_sums import StoredSums
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.errors import EngineMissing, ExitCode
from alignkit.lots import lot_of
from alignkit.lots.kept_lots import KeptLots
from alignkit.lots.remote import RemoteEngine
from alignkit.preprocess import Colour
from alignkit.workspace import Workspace
from tests.lots.test_lots import Threads
from tests.photos import encoded, photo
from tests.stacks import REFERENCE, opencv, samples_of

FILES = [encoded(photo("flower", 50 + n % 3, 60 - n % 4), quality=85) for n in range(20)]
SUMS = TypeAdapter(StoredSums)
SAMPLES = samples_of([*FILES[:5], b"no image", *FILES[5:]])
PATHS = [opencv(name="serving"), replace(REFERENCE, name="float32")]
CHANGED = [replace(each, decode=SimpleJPEGDecoder(chroma="nearest")) for each in PATHS]


class Elsewhere(Threads):
    """Workers that are sent pickles, and see other folders of golden tensors than the driver."""

    def __init__(self, root=None):
        super().__init__()
        self.root = root
        self.most_lines = 0

    def submit(self, work, lot, processes):
        work, lot = pickle.loads(pickle.dumps((work, lot)))
        own = work.work
        self.most_lines = max(self.most_lines, len(own.approved.lines) if own.approved else 0)
        if self.root and own.golden:
            work = replace(work, work=replace(own, golden=GoldenStore(self.root)))
        return super().submit(work, lot, processes)


@pytest.fixture(autouse=True)
def small_lots(monkeypatch):
    monkeypatch.setattr(alignkit.lots, "IMAGES_A_LOT", 8)


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return GoldenStore(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def approved(golden):
    return take_snapshot("small", PATHS, SAMPLES, golden=golden, keep=["decode"]).as_baseline()


@pytest.mark.parametrize("first_changed", [{}, {"serving": "resize", "float32": "decode"}])
def test_workers_take_the_snapshot_of_this_process(approved, golden, first_changed):
    options = {"approved": approved, "golden": golden, "first_changed": first_changed}
    here = take_snapshot("small", CHANGED, SAMPLES, **options)
    cluster = Elsewhere()
    there = take_snapshot("small", CHANGED, SAMPLES, **options, engine=RemoteEngine(cluster))
    assert list(there.lines.items()) == list(here.lines.items())
    assert (there.head, there.measured) == (here.head, here.measured)
    assert there.golden.keys() == here.golden.keys() != set()
    for place, sums in here.golden.items():
        assert SUMS.dump_json(there.golden[place]) == SUMS.dump_json(sums)
    # no lot is sent the lines of other images
    assert 0 < cluster.most_lines < len(approved.lines) / 2


def test_workers_keep_golden_tensors(approved, golden, tmp_path):
    store = GoldenStore(tmp_path)
    engine = RemoteEngine(Elsewhere())
    made = take_snapshot("small", PATHS, SAMPLES, golden=store, keep=["decode"], engine=engine)
    assert made.as_baseline() == approved
    names = [{file.name for file in each.root.iterdir()} for each in (store, golden)]
    assert names[0] == names[1]


def test_a_worker_that_does_not_see_golden_tensors_is_one_message(approved, golden, tmp_path):
    engine = RemoteEngine(Elsewhere(tmp_path / "elsewhere"))
    with pytest.raises(EngineMissing, match="give --baselines a folder") as raised:
        take_snapshot("small", CHANGED, SAMPLES, approved=approved, golden=golden, engine=engine)
    assert raised.value.exit_code == ExitCode.MISSING
    store = GoldenStore(tmp_path / "here")
    with pytest.raises(EngineMissing, match="a worker does not see"):
        take_snapshot("small", PATHS, SAMPLES, golden=store, keep=["decode"], engine=engine)


def test_without_a_path_no_engine_is_asked():
    class NoEngine:
        def parts(self, work, lots, advance):
            raise AssertionError("nothing is to be tapped")

    assert take_snapshot("small", [], SAMPLES, engine=NoEngine()).lines == {}


HOME = "alignkit.baseline.tapped_lots"
MADE_OTHERWISE = {
    "processor": (f"{HOME}.cpu_name", lambda: "another"),
    "kernels": (f"{HOME}.vector_extensions", lambda: "none"),
    "gpu": (f"{HOME}.baseline_environment", lambda _: {"gpu": "another"}),
    "code": (f"{HOME}.code_version", lambda _: "other"),
    "codec": ("alignkit.decoders.simplejpeg.SimpleJPEGDecoder.version", lambda _: "another"),
    "library": ("alignkit.plugins._distribution_version", lambda _: "99"),
}
OF_ANOTHER_WORK = {
    "path": lambda work: tapping(
        work, paths=(replace(CHANGED[0], colour=Colour("bgr")), CHANGED[1])
    ),
    "name": lambda work: tapping(work, paths=(replace(CHANGED[0], name="served"), CHANGED[1])),
    "begin": lambda work: tapping(work, first_changed={}),
    "golden": lambda work: tapping(work, golden=GoldenStore(Path("none"))),
    "approved": lambda work: tapping(work, approved=moved(work.work.approved, 0)),
}
BEGIN = {"float32": "resize"}


def tapping(work, **changes):
    return replace(work, work=replace(work.work, **changes))


def moved(approved, place):
    """The approved lines, of which one of an image is another."""
    key = next(key for key in approved.lines if key[1] == SAMPLES.ids[place])
    line = approved.lines[key].model_copy(update={"least": 77.0})
    return replace(approved, lines={**approved.lines, key: line})


@pytest.fixture
def stored(approved, golden, tmp_path):
    store = KeptLots(Workspace(tmp_path))
    take_snapshot("small", CHANGED, SAMPLES, approved=approved, golden=golden, store=store,
                  first_changed=BEGIN)  # fmt: skip
    return store


@pytest.mark.parametrize("change", [*MADE_OTHERWISE, *OF_ANOTHER_WORK, "data"])
def test_a_lot_is_stored_under_everything_that_its_lines_depend_on(
    approved, golden, stored, monkeypatch, change
):
    lot, data = lot_of(SAMPLES, 0), SAMPLES.fingerprint
    same = TapLots.of(CHANGED, approved, golden, first_changed=BEGIN)
    assert stored.find(same, lot, data)
    if change in MADE_OTHERWISE:
        monkeypatch.setattr(*MADE_OTHERWISE[change])
    other = OF_ANOTHER_WORK[change](same) if change in OF_ANOTHER_WORK else same
    assert stored.find(other, lot, "other" if change == "data" else data) is None


def test_a_line_of_an_image_of_another_lot_changes_no_key(approved, golden, stored):
    work = TapLots.of(CHANGED, moved(approved, -1), golden, first_changed=BEGIN)
    assert [each.number for each in stored.stored(work, SAMPLES)] == [0, 1]


def test_kept_golden_tensors_are_put_into_their_folder_by_every_command(golden, tmp_path):
    store = KeptLots(Workspace(tmp_path))
    for folder in (tmp_path / "one", tmp_path / "other"):
        tensors = GoldenStore(folder)
        take_snapshot("small", PATHS, SAMPLES, golden=tensors, keep=["decode"], store=store)
        assert {each.name for each in folder.iterdir()} == {e.name for e in golden.root.iterdir()}
