"""No image ends the run: processes that really crash, hang and fill the memory."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.errors import BackendError, ConfigError
from alignkit.isolation import (
    IMAGES_A_TASK,
    Isolation,
    Limits,
    WarmUpDied,
    WorkFailed,
    _Crew,
    process_wide,
)
from alignkit.isolation.task import ImageTask, next_images
from alignkit.isolation.worker import Encoded
from alignkit.isolation.worker_process import WorkerProcess
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.studies.diff.diff_images import DiffImages
from tests.fatal_decoders import (
    MARK,
    BrokenDecoder,
    EachAlone,
    FatalDecoder,
    LostPaths,
    Pids,
    Raising,
    Spans,
    WornDecoder,
)
from tests.photos import encoded, photo

TRAINED = Preprocess("train", OpenCVDecoder(), Resize(OpenCVResizer(), (16, 16)))
GOOD = encoded(photo(height=24, width=32))
MODULES = ("cv2", "alignkit.studies.diff.diff_images", "tests.fatal_decoders")


def images(count, *marked):
    return [Encoded(f"{n}.jpg", GOOD + MARK if n in marked else GOOD) for n in range(count)]


def served(decoder):
    return replace(TRAINED, name=type(decoder).__name__, decode=decoder)


def facts(*candidates, given, processes=2, reference=TRAINED, seconds=3.0):
    work = EachAlone((reference, *map(served, candidates)), ssim=())
    limits = Limits(seconds, memory=256 << 20)
    # one zygote for all tests: to import the libraries takes longer than to lose an image
    parts = process_wide().run(work, given, processes=processes, limits=limits, modules=MODULES)
    return [fact for part in parts for fact in part]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("segfault", "crashed: SIGSEGV"),
        ("abort", "crashed: SIGABRT: double free or corruption"),
        ("exit", "crashed: ended with status 7"),
        ("hang", "timed out: no result after 3 s"),
        ("eat", "out of memory: "),
        ("raise", "out of memory: "),
    ],
)
def test_an_image_that_ends_its_process_fails_alone_and_on_that_path_alone(how, reason):
    patience = 3.0 if how == "hang" else 60.0  # a busy machine is slow to fill memory
    found = facts(FatalDecoder(how), FatalDecoder("none"), given=images(20, 5), seconds=patience)
    assert [fact.id for fact in found] == [f"{n}.jpg" for n in range(20)]
    for n, fact in enumerate(found):
        first, fatal, harmless = fact.outcomes
        assert first == harmless == ("ok", "")
        assert fact.identical[1] == 1
        if n == 5:
            assert fatal[0] == "failed"
            assert fatal[1].startswith(reason)
            assert fact.identical[0] is None
        else:
            assert fatal == ("ok", "")
            assert fact.identical[0] == 1


def test_an_image_may_end_several_paths_each_in_its_own_way():
    decoders = FatalDecoder("segfault"), FatalDecoder("hang"), FatalDecoder("exit")
    found = facts(*decoders, given=images(3, 1))
    assert [reason.split(":")[0] for _, reason in found[1].outcomes[1:]] == [
        "crashed", "timed out", "crashed",
    ]  # fmt: skip
    assert all(outcome == "ok" for fact in found[::2] for outcome, _ in fact.outcomes)


def test_a_reference_may_crash_too():
    reference = served(FatalDecoder("segfault"))
    (fact,) = facts(FatalDecoder("none"), given=images(1, 0), reference=reference)
    assert [outcome for outcome, _ in fact.outcomes] == ["failed", "ok"]


def test_a_crash_that_does_not_happen_again_alone_costs_nothing():
    found = facts(WornDecoder(), given=images(IMAGES_A_TASK))
    assert all(outcome == "ok" for fact in found for outcome, _ in fact.outcomes)


def test_many_fatal_images_in_a_row_all_fail():
    found = facts(FatalDecoder("segfault"), given=images(19, *range(19)))
    assert [fact.outcomes[1] for fact in found] == [("failed", "crashed: SIGSEGV")] * 19


@pytest.fixture
def crew():
    """All of its workers, one, have worked and are at rest."""
    with Isolation() as isolation:
        crew = _Crew(Pids(), 1, Limits(), isolation._started(), (), 1, 1 << 30)
        list(crew.results(iter(images(1))))
        yield crew
        crew.dismiss()


def worked_on(crew, *unspoilt):
    """The pids of the workers that a task each was given to."""
    results = [None] * len(unspoilt)
    for place, alone in enumerate(unspoilt):
        crew.waiting.append(ImageTask(tuple(images(1)), results, place, alone))
    for _ in range(400):  # rather than for ever
        crew._hand_out()
        crew._listen()
        if None not in results:
            break
    return [result and result[0] for result in results]


def test_a_used_worker_makes_room_for_the_fresh_one_that_an_image_waits_for(crew):
    used = crew.workers[0].process.pid
    first, second = worked_on(crew, True, True)
    assert None not in (first, second)
    assert len({used, first, second}) == 3
    assert len(crew.workers) == 1


def test_an_image_is_not_lost_for_one_before_it_that_returned_at_the_last_moment(monkeypatch):
    seconds, raced = WorkerProcess.seconds, []

    def too_many_just_before_it_returns(process):
        if not seconds(process) or raced:
            return 0.0
        raced.append(process.channel.poll(60))
        return float("inf")

    monkeypatch.setattr(WorkerProcess, "seconds", too_many_just_before_it_returns)
    parts = list(process_wide().run(LostPaths(), images(2 * IMAGES_A_TASK), processes=1))
    assert raced == [True]
    assert [lost for part in parts for lost in part] == [()] * 2 * IMAGES_A_TASK


def test_the_number_of_processes_changes_nothing():
    given = images(40, 3, 4, 30)
    one, three = (facts(FatalDecoder("exit"), given=given, processes=n) for n in (1, 3))
    assert one == three


def test_workers_share_files_on_disk_where_the_system_has_none_in_memory(monkeypatch):
    given = images(12, 3)
    in_memory = facts(FatalDecoder("exit"), given=given)
    monkeypatch.delattr(os, "memfd_create")
    assert facts(FatalDecoder("exit"), given=given) == in_memory


def test_a_decoder_that_always_crashes_is_refused_before_any_image():
    with pytest.raises(WarmUpDied, match="SIGABRT") as died:
        facts(BrokenDecoder(), given=images(3))
    assert died.value.path == 1


def test_a_library_whose_import_fails_is_told(tmp_path, monkeypatch):
    (tmp_path / "crashing.py").write_text("import os; os.write(2, b'bad build'); os.abort()")
    monkeypatch.syspath_prepend(tmp_path)
    work = DiffImages((TRAINED, TRAINED))
    with (
        Isolation() as isolation,
        pytest.raises(BackendError, match="cannot be started: crashed: SIGABRT: bad build"),
    ):
        list(isolation.run(work, images(1), processes=1, modules=("crashing",)))


def test_what_is_no_image_s_fault_is_raised():
    isolation = process_wide()
    with pytest.raises(ConfigError, match="as it was"):
        list(isolation.run(Raising(ConfigError("as it was")), images(1), processes=1))
    with pytest.raises(WorkFailed, match=r"(?s)Traceback.*a defect"):
        list(isolation.run(Raising(KeyError("a defect")), images(1), processes=1))


def state_of(pid: int) -> str:
    """Return the letter by which Linux names a process's state; ``gone`` without a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "gone"


def test_no_process_is_left_behind():
    with Isolation() as isolation:
        worker, zygote, interrupt = next(isolation.run(Pids(), images(100), processes=2))
        assert interrupt is signal.SIG_IGN
        assert len(set(isolation.run(Pids(), images(100), processes=2))) <= 2
    # an ended process whose parent has not read its exit code yet (a zombie) is none
    assert {state_of(pid) for pid in (worker, zygote)} <= {"gone", "Z"}


def kept(isolation, work=None):
    return list(isolation.run(work or Pids(), images(1), processes=1, keep=True))


def test_kept_workers_serve_the_same_work_again_and_no_other():
    with Isolation() as isolation:
        ((first, *_),) = kept(isolation)
        ((again, *_),) = kept(isolation)
        assert again == first
        assert next(isolation.run(Pids(), images(1), processes=1))[0] != first
        kept(isolation, LostPaths())
        assert waited(first) in ("gone", "Z")
        ((other, *_),) = kept(isolation)
        assert other != first
    assert waited(other) == "gone"


def waited(pid):
    """The state of a process, after a moment to end in."""
    end = time.monotonic() + 10
    while (state := state_of(pid)) not in ("gone", "Z") and time.monotonic() < end:
        time.sleep(0.05)
    return state


def test_kept_workers_end_after_a_while_without_images(monkeypatch):
    monkeypatch.setattr("alignkit.isolation.REST_SECONDS", 0.1)
    with Isolation() as isolation:
        ((pid, *_),) = kept(isolation)
        assert waited(pid) in ("gone", "Z")


def test_the_death_of_a_kept_worker_at_rest_is_no_fault_of_its_next_image():
    with Isolation() as isolation:
        kept(isolation, LostPaths())
        (worker,) = isolation._rested._workers
        os.kill(worker.process.pid, signal.SIGKILL)
        assert kept(isolation, LostPaths()) == [[()]]


def test_images_are_read_a_few_ahead_only():
    read = []

    def reading():
        for image in images(1000):
            read.append(image.id)
            yield image

    next(process_wide().run(Pids(), reading(), processes=1))
    assert len(read) <= 5 * IMAGES_A_TASK


# the image is written into the script: to make one imports scikit-learn
FORKING = f"""
import multiprocessing, time
from alignkit.isolation.worker import Encoded
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import take_pixels
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.preprocess import Resize
from alignkit.resizers.opencv import OpenCVResizer
JPEG = {GOOD!r}
REFERENCE = Preprocess("train", OpenCVDecoder(), Resize(OpenCVResizer(), (16, 16)))
image = Encoded("a", JPEG)
assert [each[0].outcome for each in take_pixels([REFERENCE], [image])] == ["ok"]
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(300,), daemon=True)
child.start()
"""


def ended(script: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=200)


def test_a_process_ends_while_a_child_that_it_forked_lives():
    done = ended(FORKING)
    assert done.returncode == 0, done.stderr


def test_a_class_of_the_running_script_is_refused_with_the_next_step():
    script = (
        FORKING.partition("image =")[0]
        + """
from dataclasses import dataclass, replace
@dataclass(frozen=True)
class Mine(OpenCVDecoder):
    pass
list(take_pixels([replace(REFERENCE, decode=Mine())], []))
"""
    )
    done = ended(script)
    assert "move its class into a module" in done.stderr


def children_of(pid: int) -> list[int]:
    listed = f"/proc/{pid}/task/{pid}/children"
    return [int(child) for child in Path(listed).read_text().split()]


def test_time_that_this_process_stood_still_does_not_count():
    """A run that is suspended and goes on loses no image: SIGSTOP to the parent and its workers."""
    script = (
        FORKING.partition("image =")[0]
        + """
import os, signal, threading
from alignkit.isolation import Limits
from tests.fatal_decoders import FatalDecoder
def images():
    for number in range(40):
        if number == 20:
            print("half", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        yield Encoded(str(number), JPEG)
found = list(take_pixels([REFERENCE], images(), limits=Limits(seconds=2)))
assert [each[0].outcome for each in found] == ["ok"] * 40, found
"""
    )
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert run.stdout.readline() == "half\n"
    while state_of(run.pid) != "T":  # it stops itself next
        assert run.poll() is None
    zygotes = children_of(run.pid)
    stopped = zygotes + [worker for zygote in zygotes for worker in children_of(zygote)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(4)
    for pid in (*stopped, run.pid):
        os.kill(pid, signal.SIGCONT)
    _, errors = run.communicate(timeout=300)
    assert run.returncode == 0, errors


@pytest.mark.parametrize(("together", "most"), [(15, 1), (20, 2)])
def test_images_whose_memory_does_not_suffice_together_wait_for_each_other(together, most):
    given = [replace(image, need=10) for image in images(8)]
    limits = Limits(together=together)
    spans = process_wide().run(Spans(), given, processes=3, limits=limits, images_a_task=1)
    spans = list(spans)
    assert len(spans) == 8
    at_once = [sum(begin <= start < end for begin, end in spans) for start, _ in spans]
    assert max(at_once) <= most


def test_a_task_holds_few_images_of_many_bytes(monkeypatch):
    monkeypatch.setattr("alignkit.isolation.task.BYTES_A_TASK", 10)
    given = iter([Encoded(f"{n}", b"x" * size) for n, size in enumerate((4, 4, 4, 30, 1))])
    tasks = [next_images(given, 8) for _ in range(4)]
    assert [[image.id for image in task] for task in tasks] == [["0", "1", "2"], ["3"], ["4"], []]
