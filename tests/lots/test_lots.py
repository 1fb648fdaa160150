"""Lots: equal sums however they are cut, stored, lost and handed out."""

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import alignkit.lots
from alignkit.compare.compare_pixels import drawn_images
from alignkit.errors import BackendError, ConfigError, MissingDependency, NothingCompared
from alignkit.experiment.yaml_argument import named_paths
from alignkit.isolation import Limits
from alignkit.lots import Shard, lot_parts
from alignkit.lots.engines import EngineOption
from alignkit.lots.kept_lots import KeptLots
from alignkit.lots.local import LocalEngine
from alignkit.lots.remote import LostLot, RemoteEngine, makers_of, worked
from alignkit.progress import NoProgress
from alignkit.samples import Samples
from alignkit.studies.diff import DiffRequest, diff, diff_shard
from alignkit.studies.diff.diff_images import DiffImages, DiffLots
from alignkit.studies.diff.diff_tally import DiffTally
from alignkit.workspace import Workspace
from tests.fatal_decoders import MARK, FatalDecoder
from tests.photos import encoded, photo

PATHS = named_paths(["opencv-train", "tensorflow-surrogate"], size=32)
SUBSAMPLINGS = ("4:2:0", "4:4:4", "4:2:2")


def with_two_broken(files: list[bytes]) -> Samples:
    """Return images without labels, of which the file at 5 is cut and that at 30 is no image."""
    files[5], files[30] = files[5][:300], b"no image"
    ids = tuple(f"{place:03}.jpg" for place in range(len(files)))
    return Samples(ids, (), (), files.__getitem__, f"of {len(files)}")


# photographs of several sizes and kinds
SAMPLES = with_two_broken([
    encoded(
        photo(height=40 + place % 7, width=60 + place % 5),
        subsampling=SUBSAMPLINGS[place % 3], quality=70 + place % 25,
    )
    for place in range(40)
])  # fmt: skip


@pytest.fixture(autouse=True)
def small_lots(monkeypatch):
    monkeypatch.setattr(alignkit.lots, "IMAGES_A_LOT", 16)


def lots(paths=PATHS) -> DiffLots:
    work = DiffImages(
        tuple(each.preprocess for each in paths), ("colour",), ("colour",), drawn_images(SAMPLES)
    )
    return DiffLots(work, Limits(lossy=True))


def texts(engine, work=None, **options):
    work = work or lots()
    return [work.text(part) for part in lot_parts(work, SAMPLES, engine, **options)]


@pytest.fixture(scope="module")
def expected():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignkit.lots, "IMAGES_A_LOT", 16)
        return texts(LocalEngine(2))


def part_file(store, number):
    place = [number * 16, min(16, len(SAMPLES) - number * 16)]
    keys = (each for each in store.workspace.finished("lots") if each.parts["lot"] == place)
    return next(keys).folder / "part.json.gz"


def without_times(record):
    return record.model_copy(update={"started": "", "seconds": 0.0, "command": ""})


def request(**options):
    return DiffRequest(PATHS, SAMPLES, "files", threads=2, **options)


def test_a_stored_part_is_the_part_bit_by_bit(expected):
    work = lots()
    assert [work.text(work.parsed(text)) for text in expected] == expected
    assert len(expected) == 3


def test_parts_do_not_depend_on_the_processes(expected):
    assert texts(LocalEngine(1)) == expected


def test_lots_add_up_to_the_whole(monkeypatch, expected):
    work = lots()
    joined = DiffTally.of(work.paths)
    for text in expected:
        joined.join(work.parsed(text))
    monkeypatch.setattr(alignkit.lots, "IMAGES_A_LOT", 1 << 20)
    (whole,) = lot_parts(work, SAMPLES, LocalEngine(2))
    assert (joined.images, joined.kinds) == (whole.images, whole.kinds)
    assert joined.of_path == whole.of_path
    (one,), (other,) = joined.of_pair, whole.of_pair
    assert (one.compared, one.coverage, one.begun) == (other.compared, other.coverage, other.begun)
    assert one.worst() == other.worst()
    for a, b in zip(one.diffs, other.diffs, strict=True):
        assert (a.images, a.shape_mismatches) == (b.images, b.shape_mismatches)
        assert a.sums.histogram.tolist() == b.sums.histogram.tolist()
        for name in ("sum_abs", "sum_squares", "sums", "ssim_sum"):  # in another order
            assert getattr(a.sums, name) == pytest.approx(getattr(b.sums, name), rel=1e-12)


def test_an_image_that_kills_its_worker_leaves_the_other_sums_as_they_are():
    files = [SAMPLES.read(place) for place in range(16)]
    killing = [*files[:3], files[3] + MARK, *files[4:]]
    fatal = replace(
        PATHS[1], preprocess=replace(PATHS[1].preprocess, decode=FatalDecoder("segfault"))
    )
    work = lots((PATHS[0], fatal))
    first, second = (
        replace(SAMPLES, ids=SAMPLES.ids[:16], read=each.__getitem__, fingerprint=str(len(each)))
        for each in (files, killing)
    )
    (whole,) = lot_parts(work, first, LocalEngine(2))
    (lacking,) = lot_parts(work, second, LocalEngine(2))
    assert lacking.of_path[1].failed == whole.of_path[1].failed + 1
    (again,) = lot_parts(work, second, LocalEngine(1))
    assert work.text(lacking) == work.text(again)


def test_stored_lots_are_not_worked_on_again(tmp_path, expected):
    class NoEngine:
        def parts(self, work, lots, advance):
            assert list(lots) == []
            return iter(())

    store = KeptLots(Workspace(tmp_path))
    assert texts(LocalEngine(2), store=store) == expected
    assert texts(NoEngine(), store=store) == expected


def test_a_damaged_part_is_made_again(tmp_path, expected):
    store = KeptLots(Workspace(tmp_path))
    texts(LocalEngine(2), store=store)
    file = sorted(tmp_path.rglob("part.json.gz"))[1]
    file.write_bytes(file.read_bytes()[:-20])
    assert texts(LocalEngine(2), store=KeptLots(Workspace(tmp_path))) == expected


@pytest.mark.parametrize("remote", [False, True])
def test_a_part_that_is_damaged_while_others_are_made_is_made_again(tmp_path, remote, expected):
    engine = RemoteEngine(Threads(place=0)) if remote else LocalEngine(2)
    texts(LocalEngine(2), store=KeptLots(Workspace(tmp_path)))
    store, work = KeptLots(Workspace(tmp_path)), lots()
    for number in (0, 2):  # work for the engine before and after
        shutil.rmtree(part_file(store, number).parent)
    parts = lot_parts(work, SAMPLES, engine, store=store)
    found = [next(parts)]
    file = part_file(store, 1)
    file.write_bytes(file.read_bytes()[:-20])
    assert [work.text(each) for each in (*found, *parts)] == expected


@pytest.mark.parametrize("change", ["path", "ssim", "limits", "data"])
def test_a_part_is_stored_under_everything_that_it_depends_on(tmp_path, change):
    store, work, samples = KeptLots(Workspace(tmp_path)), lots(), SAMPLES
    texts(LocalEngine(2), store=store)
    if change == "path":
        work = lots(named_paths(["opencv-train", "tensorflow-surrogate"], size=33))
    if change == "ssim":
        work = replace(work, work=replace(work.work, ssim=()))
    if change == "limits":
        work = replace(work, limits=Limits(seconds=9, lossy=True))
    if change == "data":
        samples = replace(SAMPLES, fingerprint="other")
    lot = alignkit.lots.lot_of(samples, 0)
    assert store.find(lots(), alignkit.lots.lot_of(SAMPLES, 0), SAMPLES.fingerprint)
    assert store.find(work, lot, samples.fingerprint) is None


def test_shards_and_engines_give_one_record(tmp_path):
    whole = diff(request(), NoProgress())
    store = KeptLots(Workspace(tmp_path))
    assert diff_shard(request(store=store), Shard(2, 2), NoProgress()) == 1
    assert diff_shard(request(store=store), Shard(1, 2), NoProgress()) == 2
    assert without_times(diff(request(store=store), NoProgress())) == without_times(whole)
    with pytest.raises(NothingCompared, match="none of the 3 lots"):
        diff_shard(request(store=store), Shard(4, 4), NoProgress())
    with pytest.raises(ConfigError, match="--reports"):
        diff_shard(request(), Shard(1, 2), NoProgress())


class Threads:
    """A cluster of threads, which loses some lots and by default is done with the first one last."""

    name = "threads"

    def __init__(self, lose=0, place=-1):
        self.lose = lose
        self.place = place
        self.under_way = []
        self.most = 0

    def workers(self):
        return 1

    def submit(self, work, lot, processes):
        handle = object()
        self.under_way.append((handle, work, lot, processes))
        self.most = max(self.most, len(self.under_way))
        return handle

    def wait(self, _seconds):
        handle, work, lot, processes = self.under_way.pop(self.place)
        if self.lose:
            self.lose -= 1
            return [(handle, LostLot("it was killed"))]
        with ThreadPoolExecutor(1) as pool:
            text = pool.submit(worked, work, lot, processes, makers_of(work)).result()
        return [(handle, text)]

    def cancel(self):
        self.under_way.clear()


def test_lots_that_are_done_out_of_order_or_lost_give_the_same_parts(expected, caplog):
    cluster = Threads(lose=2)
    engine = RemoteEngine(cluster)
    assert texts(engine) == expected
    assert engine.lost == 2
    assert "lot 3 (images 33 to 40) (it was killed); it is tried again, 2 of 3" in caplog.text
    engine.tell_lost()
    assert "threads: 2 lots were tried again, as a worker ended" in caplog.text


def test_few_lots_are_under_way(monkeypatch, expected):
    monkeypatch.setattr("alignkit.lots.remote.UNDER_WAY", 2)
    cluster = Threads()
    assert texts(RemoteEngine(cluster)) == expected
    assert cluster.most == 2


def test_a_lot_that_ends_every_worker_ends_the_command():
    with pytest.raises(
        BackendError, match=r"lot 3 \(images 33 to 40\) lost its worker 3 times .* 032\.jpg"
    ):
        texts(RemoteEngine(Threads(lose=9)))


def test_a_cluster_without_workers_ends_the_command(monkeypatch):
    monkeypatch.setattr("alignkit.lots.remote.WITHOUT_WORKER", 0.0)
    cluster = Threads()
    cluster.workers = lambda: 0
    cluster.wait = lambda _: ()
    with pytest.raises(BackendError, match="no worker for 0 s"):
        texts(RemoteEngine(cluster))


def test_a_worker_with_other_libraries_is_refused():
    work = lots()
    other = ("alignkit 0.0 of code x", *makers_of(work)[1:])
    with pytest.raises(MissingDependency, match=r"alignkit 0\.0"):
        worked(work, alignkit.lots.lot_of(SAMPLES, 0), 1, other)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 2}, "--workers belongs to"),
        ({"address": "tcp://x"}, "--address belongs to"),
        ({"name": "dask", "address": "tcp://x", "workers": 2}, "leave --workers out"),
        ({"name": "spark"}, "local, dask or ray"),
        ({"name": "dask", "workers": 0}, "--workers 0: give at least 1"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        EngineOption(**options)


@pytest.mark.slow
def test_dask_gives_the_same_parts_when_a_worker_is_killed(expected):
    pytest.importorskip("distributed")
    threads = os.environ.get("MKL_NUM_THREADS")
    with EngineOption("dask", workers=2).open() as engine:
        # records hold this variable, and are those of the local engine
        assert os.environ.get("MKL_NUM_THREADS") == threads
        client = engine.cluster._client
        victim = next(iter(client.run(os.getpid).values()))
        made = lot_parts(lots(), SAMPLES, engine)
        first = next(made)
        os.kill(victim, signal.SIGKILL)
        work = lots()
        assert [work.text(each) for each in (first, *made)] == expected


@pytest.mark.slow
def test_a_cancelled_future_is_a_lost_lot(expected):
    pytest.importorskip("distributed")
    with EngineOption("dask", workers=1).open() as engine:
        made = lot_parts(lots(), SAMPLES, engine)
        first = next(made)
        # as a scheduler does when it restarts
        engine.cluster._client.cancel(list(engine.cluster._futures.values()), force=True)
        work = lots()
        assert [work.text(each) for each in (first, *made)] == expected
        assert engine.lost == 2


def test_a_slow_disk_is_no_failure(monkeypatch):
    """Dask warns of a folder that took a second; warnings are errors here."""
    core = pytest.importorskip("distributed.core")
    slow = core.warn_on_duration

    def slower(_duration, message):
        return slow("0s", message)

    monkeypatch.setattr(core, "warn_on_duration", slower)
    with EngineOption("dask", workers=1).open() as engine:
        assert engine.cluster.workers() == 1


def test_a_scheduler_that_does_not_answer_is_one_line(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("alignkit.lots.dask.ANSWER_SECONDS", 1.0)
    option = EngineOption("dask", address="tcp://127.0.0.1:9")
    with pytest.raises(MissingDependency, match="no scheduler answers at tcp://127"), option.open():
        pass


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9"])
def test_a_head_of_ray_that_does_not_answer_is_one_line(address):
    pytest.importorskip("ray")
    with (
        pytest.raises(MissingDependency, match=f"no cluster answers at {address}: .*refused"),
        EngineOption("ray", address=address).open(),
    ):
        pass


@pytest.mark.slow
def test_ray_gives_the_same_parts(expected):
    pytest.importorskip("ray")
    try:
        with EngineOption("ray", workers=1).open() as engine:
            assert texts(engine) == expected
    except MissingDependency as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_a_process_that_uses_ray_itself_keeps_its_connection():
    ray = pytest.importorskip("ray")
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        with (
            pytest.raises(MissingDependency, match="is connected to Ray already"),
            EngineOption("ray").open(),
        ):
            pass
        assert ray.cluster_resources()["CPU"] == 1
    finally:
        ray.shutdown()
