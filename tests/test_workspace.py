"""Nothing half-written, nothing lost, every refusal of the system explained."""

import hashlib
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from alignkit.errors import WorkspaceError
from alignkit.plan.outlooks import changed_parts
from alignkit.stored_file import DamagedError, explained, file_sha256, sealed, write_atomically
from alignkit.version import code_version
from alignkit.workspace import Workspace, content_key

PARTS = {"recipe": {"epochs": 2}, "data": "abc"}


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(tmp_path / "reports")


def fill(workspace: Workspace, parts: dict = PARTS, label: str = "train a") -> Path:
    with workspace.store("trainings", parts, label) as folder:
        (folder / "weights").write_bytes(b"12345")
    return folder_of(workspace, "trainings", parts)


def folder_of(workspace: Workspace, kind: str, parts: dict = PARTS) -> Path:
    return workspace.root / ".cache" / kind / content_key(parts)


def test_stored_work_is_found_by_its_key_and_described(workspace):
    assert not workspace.stored("trainings", content_key(PARTS))
    folder = fill(workspace)
    assert workspace.stored("trainings", content_key(PARTS))
    assert (folder / "weights").read_bytes() == b"12345"
    (finished,) = workspace.finished("trainings")
    assert (finished.folder, finished.label, finished.parts) == (folder, "train a", PARTS)
    assert 0 <= finished.seconds < 60


def test_the_folder_keeps_itself_out_of_git_unless_its_user_says_otherwise(workspace):
    with workspace.store("cells", PARTS, "cell"):
        pass
    ignored = workspace.root / ".gitignore"
    assert ignored.read_text() == "*\n"
    ignored.write_text("!mine\n")
    with workspace.lock(workspace.root / "run"):
        assert ignored.read_text() == "!mine\n"


def test_work_that_ends_in_an_error_leaves_nothing(workspace):
    def broken() -> None:
        with workspace.store("cells", PARTS, "x") as folder:
            (folder / "half").write_text("…")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert not folder_of(workspace, "cells").exists()
    assert list(workspace.root.rglob("half")) == []


def test_the_first_of_two_that_finish_the_same_work_stays(workspace):
    with workspace.store("cells", PARTS, "x") as slow:
        with workspace.store("cells", PARTS, "x") as quick:
            (quick / "who").write_text("quick")
        (slow / "who").write_text("slow")
    assert (folder_of(workspace, "cells") / "who").read_text() == "quick"


def test_finishing_clears_the_unfinished_parts(workspace):
    unfinished = workspace.unfinished("trainings", content_key(PARTS))
    (unfinished / "epoch-1").write_text("…")
    fill(workspace)
    assert not unfinished.exists()


def test_a_process_killed_while_it_stores_leaves_no_artefact(workspace):
    code = (
        "import os, signal, sys; from pathlib import Path; from alignkit.workspace import Workspace\n"
        "with Workspace(Path(sys.argv[1])).store('cells', {}, 'x') as folder:\n"
        "    (folder / 'half').write_text('half'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, workspace.root], check=False)
    assert done.returncode == -signal.SIGKILL
    assert workspace.finished("cells") == []
    assert len(left_over(workspace)) == 1
    with workspace.store("cells", {}, "x"):
        pass
    assert folder_of(workspace, "cells", {}).exists()
    assert left_over(workspace) == []


def left_over(workspace: Workspace) -> list[Path]:
    return list((workspace.root / ".cache" / "cells").glob(".*"))


def test_what_a_live_process_fills_stays_and_other_left_overs_go(workspace):
    with workspace.store("cells", PARTS, "x") as live:
        for name in (".filling-old", ".discarded-old"):
            (live.parents[1] / name / "work").mkdir(parents=True)
        with workspace.store("cells", {}, "another"):
            assert left_over(workspace) != []
            assert live.is_dir()
    assert left_over(workspace) == []
    assert len(workspace.finished("cells")) == 2


def test_changed_parts_are_what_differs_from_the_most_similar_stored_work(workspace):
    fill(workspace, {"recipe": 1, "data": "a", "code": "x"})
    fill(workspace, {"recipe": 2, "data": "b", "code": "y"})
    wanted = {"recipe": 1, "data": "a", "code": "z"}
    stored = workspace.finished("trainings")
    assert changed_parts(stored, wanted, "train a") == "code"
    assert changed_parts(stored, wanted | {"data": "c"}, "train a") == "code, data"
    assert changed_parts(stored, wanted, "train b") == ""


@pytest.mark.parametrize(("old", "new"), [("train a", "train b"), ("2", "3"), ("}", "")])
def test_work_whose_key_file_was_changed_is_left_out_of_the_list_and_the_rest_stays(
    workspace, old, new
):
    whole = fill(workspace, {"other": "work"})
    file = fill(workspace) / "key.json"
    file.write_text(file.read_text().replace(old, new))
    assert [each.folder for each in workspace.finished("trainings")] == [whole]


def test_equal_content_has_one_key_whatever_its_order():
    assert content_key({"a": 1, "b": [1, 2]}) == content_key({"b": [1, 2], "a": 1})
    assert content_key({"a": 1}) != content_key({"a": 2})
    with pytest.raises(ValueError, match="not JSON compliant"):
        content_key({"a": float("nan")})


def test_code_version_follows_the_source_of_files_and_folders():
    assert code_version(("errors.py",)) != code_version(("workspace.py",))
    assert len(code_version(("decoders", "errors.py"))) == 64


def _replace_often(path: Path, content: bytes) -> None:
    for _ in range(200):
        write_atomically(path, content)


def test_a_reader_sees_one_whole_content_or_the_other(tmp_path):
    path = tmp_path / "record.json"
    contents = {letter * 5000 for letter in (b"a", b"b")}
    write_atomically(path, b"a" * 5000)
    fork = multiprocessing.get_context("spawn")
    writers = [fork.Process(target=_replace_often, args=(path, each)) for each in contents]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert path.read_bytes() in contents
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


def test_a_failed_write_keeps_the_old_content_and_leaves_no_temporary_file(tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    write_atomically(path, "old")

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


@pytest.fixture
def no_room():
    """Files of this process may not grow beyond 1 MiB (the log of the tests is smaller): the system refuses as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


def test_a_full_disk_is_told_and_the_old_content_kept(tmp_path, no_room):
    path = tmp_path / "record.json"
    write_atomically(path, b"old")
    with pytest.raises(WorkspaceError, match="free some space and run the same command again"):
        write_atomically(path, b"x" * 4_000_000)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


def test_a_disk_that_fills_while_work_is_stored_leaves_no_artefact(workspace, no_room):
    message = "finished work is kept"
    with (
        pytest.raises(WorkspaceError, match=message),
        workspace.store("cells", PARTS, "x") as folder,
    ):
        (folder / "logits").write_bytes(b"x" * 4_000_000)
    assert workspace.finished("cells") == []
    assert not folder.exists()


def test_a_file_elsewhere_that_stops_work_is_not_blamed_on_the_store(workspace, tmp_path):
    elsewhere = tmp_path / "model.onnx"
    elsewhere.mkdir()
    with (
        pytest.raises(IsADirectoryError, match=re.escape(str(elsewhere))),
        workspace.store("trainings", PARTS, "train a"),
    ):
        elsewhere.read_bytes()
    with pytest.raises(WorkspaceError), workspace.store("trainings", PARTS, "train a") as folder:
        folder.read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_the_systems_own_no_space_error_is_explained():
    with (
        pytest.raises(WorkspaceError, match="No space left on device"),
        explained(Path("/dev/full")),
        Path("/dev/full").open("wb", buffering=0) as full,
    ):
        full.write(b"x")


def _locked(workspace: Workspace) -> None:
    with workspace.lock(workspace.run_folder("x", "abc")):
        pass


@pytest.mark.parametrize(
    "act",
    [
        fill,
        _locked,
        lambda workspace: workspace.unfinished("trainings", "k"),
        lambda workspace: write_atomically(workspace.root / "x" / "record.json", "{}"),
    ],
    ids=["store", "lock", "unfinished", "write"],
)
def test_a_reports_folder_that_cannot_be_made_is_told_with_the_way_out(tmp_path, act):
    (tmp_path / "reports").write_text("a file stands where the folder should")
    with pytest.raises(WorkspaceError, match="choose another folder with --reports DIR"):
        act(Workspace(tmp_path / "reports"))


HOLDER = """
import sys
from pathlib import Path
from alignkit.workspace import Workspace
with Workspace(Path("unused")).lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_ends_even_by_a_kill(workspace):
    folder = workspace.run_folder("x", "0123456789abcdef")
    command = [sys.executable, "-c", HOLDER, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(WorkspaceError, match=r"another alignkit is running in .*x/0123456789ab"),
            workspace.lock(folder),
        ):
            pass
        holder.kill()
    with workspace.lock(folder):
        pass


def read_weights(folder: Path) -> bytes:
    content = (folder / "weights").read_bytes()
    if content == b"spoilt":
        raise DamagedError("spoilt")
    return content


def make_weights(folder: Path) -> None:
    (folder / "weights").write_bytes(b"12345")
    (folder / "log").write_bytes(b"epochs")


def kept(root: Path, make=make_weights) -> bytes:
    """By a process of its own, which has verified nothing yet."""
    return Workspace(root).keep("trainings", PARTS, "train a", make, read_weights)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


DAMAGES = {
    "flipped": flip,
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "emptied": lambda file: file.write_bytes(b""),
    "missing": lambda file: file.unlink(),
}


@pytest.mark.parametrize("name", ["weights", "log", "key.json"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_work_is_named_and_made_again(workspace, caplog, name, damage):
    kept(workspace.root)
    file = folder_of(workspace, "trainings") / name
    damage(file)
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        make_weights(folder)

    assert kept(workspace.root, make) == kept(workspace.root, make) == b"12345"
    assert len(made) == 1
    (message,) = caplog.messages
    assert message.startswith(f"train a: {file} is damaged and is made again (")


def nested(file: Path) -> None:
    text = json.dumps({"label": "", "parts": []}).replace("[]", "[" * 100_000 + "]" * 100_000)
    file.write_text(sealed(text))


KEY_DAMAGES = {
    "folder": os.mkdir,
    "fifo": os.mkfifo,
    "loop": lambda file: file.symlink_to(file.name),
    "nested": nested,
    "other": lambda file: file.write_text(sealed('{"label": "train a"}')),
}


@pytest.mark.parametrize("damage", KEY_DAMAGES.values(), ids=KEY_DAMAGES)
def test_a_key_file_that_cannot_be_read_is_damage(workspace, caplog, damage):
    kept(workspace.root)
    file = folder_of(workspace, "trainings") / "key.json"
    file.unlink()
    damage(file)
    assert workspace.finished("trainings") == []
    assert kept(workspace.root) == b"12345"
    (message,) = caplog.messages
    assert message.startswith(f"train a: {file} is damaged and is made again (")


def test_a_file_that_does_not_belong_to_stored_work_is_damage(workspace, caplog):
    kept(workspace.root)
    folder = folder_of(workspace, "trainings")
    (folder / ".DS_Store").write_text("of a file manager")
    kept(workspace.root)
    assert caplog.messages == []
    (folder / "besides").write_text("another's")
    kept(workspace.root)
    assert "besides is damaged and is made again (it does not belong here)" in caplog.text
    assert not (folder / "besides").exists()


def test_a_folder_that_holds_the_work_of_another_key_is_damage(workspace, caplog):
    kept(workspace.root)
    folder = folder_of(workspace, "trainings")
    other = fill(workspace, {"recipe": "another"})
    shutil.rmtree(folder)
    other.rename(folder)
    assert kept(workspace.root) == b"12345"
    assert "key.json is damaged and is made again (it is that of another key)" in caplog.text


def test_a_process_hashes_each_file_once_and_only_those_that_it_reads(workspace, monkeypatch):
    kept(workspace.root)
    hashed = []

    def counted(file: Path) -> str:
        hashed.append(file.name)
        return file_sha256(file)

    monkeypatch.setattr("alignkit.workspace.file_sha256", counted)
    reader = Workspace(workspace.root)
    key = content_key(PARTS)
    assert reader.recall("trainings", key, "train a", read_weights, ["weights"]) == b"12345"
    assert hashed == ["weights"]
    for _ in range(2):
        reader.recall("trainings", key, "train a", read_weights)
    assert hashed == ["weights", "log"]


def test_a_hash_that_the_maker_computed_is_stored_and_the_others_are_computed(
    workspace, monkeypatch
):
    def make(folder: Path) -> dict[str, str]:
        (folder / "weights").write_bytes(b"12345")
        (folder / "log").write_bytes(b"678")
        return {"weights": hashlib.sha256(b"12345").hexdigest()}

    hashed = []
    monkeypatch.setattr(
        "alignkit.workspace.file_sha256",
        lambda file: hashed.append(file.name) or file_sha256(file),
    )
    assert workspace.keep("trainings", PARTS, "train a", make, read_weights) == b"12345"
    assert hashed == ["log"]
    (finished,) = workspace.finished("trainings")
    assert finished.verify() == {finished.folder / name for name in ("weights", "log")}


def test_work_that_cannot_be_read_back_is_no_result(workspace):
    def make(folder: Path) -> None:
        (folder / "weights").write_bytes(b"spoilt")

    with pytest.raises(WorkspaceError, match="train a: it is damaged right after it was written"):
        workspace.keep("trainings", PARTS, "train a", make, read_weights)
