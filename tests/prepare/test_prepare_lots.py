"""Preparation by workers of an engine: the files of a local one, whatever is lost on the way."""

import gc
import resource
from dataclasses import replace

import pytest

import alignkit.lots
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.errors import (
    ConfigError,
    EngineMissing,
    ExitCode,
    NothingCompared,
    WorkspaceError,
)
from alignkit.lots.remote import RemoteEngine
from alignkit.prepare import Preparation, prepare
from alignkit.prepare.prepare_lots import PrepareLots
from alignkit.preprocess import Preprocess, Resize
from alignkit.preprocess.image_taps import take_pixels
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.samples import Samples
from alignkit.workspace import Workspace
from tests.lots.test_lots import Threads
from tests.photos import encoded, photo
from tests.stacks import REFERENCE, opencv, samples_of

RECT = Resize(OpenCVResizer(), (64, 64), "letterbox", auto=True)
PATHS = {
    "uint8": opencv(),
    "float32": REFERENCE,
    "varies": Preprocess("rect", OpenCVDecoder(), RECT),
}


@pytest.fixture(autouse=True)
def small_lots(monkeypatch):
    monkeypatch.setattr(alignkit.lots, "IMAGES_A_LOT", 8)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path / "reports")


def photos(number: int = 28) -> Samples:
    """Photographs of several sizes, of which some lots lack one, and the second has none."""
    files = [encoded(photo("china", 61 + n % 5, 97 - n % 3), quality=90) for n in range(number)]
    broken = [3, *range(8, 16), number - 1]
    return samples_of([b"no image" if n in broken else each for n, each in enumerate(files)])


SAMPLES = photos()


def threads(**options) -> RemoteEngine:
    return RemoteEngine(Threads(**options))


class Counted:
    """Works on at most so many lots, which it notes, and is interrupted."""

    def __init__(self, most=99):
        self.most = most
        self.numbers = []

    def facts(self):
        return {"name": "counted"}

    def parts(self, work, lots, advance):
        for done in threads().parts(work, lots, advance):
            if len(self.numbers) == self.most:
                raise KeyboardInterrupt
            self.numbers.append(done.lot.number)
            yield done


def stored(workspace, path, engine, samples=SAMPLES):
    """The files of a preparation by name, with its key."""
    prepare(samples, path, workspace, split="eval", engine=engine)
    (kept,) = workspace.finished("prepared")
    assert kept.folder.name == Preparation(path, "eval", samples.fingerprint).key
    assert not [*workspace.root.glob(".cache/unfinished/*")]
    files = {name: (kept.folder / name).read_bytes() for name in kept.files}
    return kept.folder.name, kept.files, files


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    made = {}
    for name, path in PATHS.items():
        made[name] = stored(Workspace(tmp_path_factory.mktemp(name)), path, None)
    return made


@pytest.mark.parametrize("name", PATHS)
def test_workers_make_the_files_of_a_local_preparation(name, workspace, expected):
    # the first lot is done last, and two lose their worker
    assert stored(workspace, PATHS[name], threads(lose=2)) == expected[name]


def test_a_killed_preparation_goes_on_with_the_lots_that_are_left(workspace, expected):
    with pytest.raises(KeyboardInterrupt):
        stored(workspace, PATHS["uint8"], Counted(most=2))
    again = Counted()
    assert stored(workspace, PATHS["uint8"], again) == expected["uint8"]
    assert len(again.numbers) == 2


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "text"])
def test_a_damaged_lot_is_named_and_made_again(workspace, damage, expected, caplog):
    with pytest.raises(KeyboardInterrupt):
        stored(workspace, PATHS["uint8"], Counted(most=3))
    kind = "json" if damage == "text" else "npy"
    (file,) = workspace.root.glob(f".cache/unfinished/*/lot-16.{kind}")
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(content[:-1])
    else:
        file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    again = Counted()
    assert stored(workspace, PATHS["uint8"], again) == expected["uint8"]
    assert len(again.numbers) == 2
    assert f"{file} is damaged and is made again" in caplog.text


class Elsewhere(Threads):
    """Workers of a machine that has another disk at the driver's path."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def submit(self, work, lot, processes):
        return super().submit(replace(work, folder=self.folder), lot, processes)


@pytest.mark.parametrize("there", ["nothing", "a folder", "the folder of another command"])
def test_a_worker_without_the_folder_is_one_message(workspace, tmp_path, there):
    other = tmp_path / "elsewhere"
    if there != "nothing":
        other.mkdir()
    if there == "the folder of another command":
        (other / "driver").write_text("another mark")
    with pytest.raises(
        EngineMissing, match=r"does not see .*elsewhere.*give --reports a folder"
    ) as raised:
        stored(workspace, PATHS["uint8"], RemoteEngine(Elsewhere(other)))
    assert raised.value.exit_code == ExitCode.MISSING
    assert workspace.finished("prepared") == []
    assert not [*other.glob("lot*")]


def test_pixels_that_change_on_their_way_are_never_used(workspace, expected):
    class Damaging(Counted):
        def parts(self, work, lots, advance):
            for done in super().parts(work, lots, advance):
                if done.part.sha256:
                    with (work.folder / done.part.file).open("ab") as file:
                        file.write(b"!")
                yield done

    with pytest.raises(WorkspaceError, match=r"lot-0\.npy: .* the same command makes it again"):
        stored(workspace, PATHS["uint8"], Damaging())
    assert stored(workspace, PATHS["uint8"], threads()) == expected["uint8"]


def test_a_lot_that_found_no_room_leaves_no_file(tmp_path):
    (tmp_path / "driver").write_text("mark")
    samples, path = photos(2), PATHS["uint8"]
    lot, work = alignkit.lots.lot_of(samples, 0), PrepareLots(path, tmp_path, "mark")
    taken = [*take_pixels([path], lot.images())]
    part = work.add(work.empty(lot), [taken])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # Python ignores the signal
    try:
        with pytest.raises(WorkspaceError, match="free some space"):
            work.text(part)
        del part
        gc.collect()  # the test's frame is in the traceback
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [each.name for each in tmp_path.iterdir()] == ["driver"]


def test_errors_of_the_work_are_those_of_a_local_preparation(workspace):
    shorter = opencv(resize=Resize(OpenCVResizer(), (32, 32), "shorter"))
    with pytest.raises(ConfigError, match="add 'crop'"):
        stored(workspace, shorter, threads())
    nothing = samples_of([b"no image"] * 20)
    with pytest.raises(NothingCompared, match="none of 20 images; the first, 0"):
        stored(workspace, opencv(), threads(), nothing)


def test_two_commands_do_not_prepare_the_same_at_a_time(workspace):
    work = Preparation(PATHS["uint8"], "eval", SAMPLES.fingerprint)
    with (
        workspace.lock(workspace.unfinished(work.kind, work.key)),
        pytest.raises(WorkspaceError, match="another alignkit is running"),
    ):
        stored(workspace, PATHS["uint8"], threads())


def test_a_command_without_an_engine_leaves_the_lots_of_another_one(workspace, expected):
    class Overtaken(Counted):
        def parts(self, work, lots, advance):
            made = super().parts(work, lots, advance)
            yield next(made)
            prepare(SAMPLES, PATHS["uint8"], Workspace(workspace.root), split="eval")
            yield from made

    assert stored(workspace, PATHS["uint8"], Overtaken()) == expected["uint8"]
