"""A preparation by workers whose driver and workers are killed ends with the files of a local one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alignkit.datasets.unlabelled_images import Images
from alignkit.prepare import prepare
from alignkit.workspace import Workspace
from tests.lots.test_killed import workers
from tests.photos import encoded, photo
from tests.stacks import opencv

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from pathlib import Path

import alignkit.lots
from alignkit.datasets.unlabelled_images import Images
from alignkit.lots.engines import EngineOption
from alignkit.prepare import prepare
from alignkit.workspace import Workspace
from tests.stacks import opencv

if __name__ == "__main__":
    alignkit.lots.IMAGES_A_LOT = 16
    samples = Images(Path(sys.argv[1])).evaluation()
    with EngineOption("dask", workers=2).open() as engine:
        prepare(samples, opencv(), Workspace(Path(sys.argv[2])), split="eval", engine=engine)
"""


def lots(reports):
    return {*reports.glob(".cache/unfinished/*/lot-*.json")}


def wait_for(reports, number):
    deadline = time.monotonic() + 120
    while len(lots(reports)) < number:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def files(workspace):
    (kept,) = workspace.finished("prepared")
    return kept.parts, {name: (kept.folder / name).read_bytes() for name in kept.files}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_a_killed_driver_and_a_killed_worker_change_no_byte(tmp_path):
    pytest.importorskip("distributed")
    images, script = tmp_path / "images", tmp_path / "again.py"
    images.mkdir()
    script.write_text(SCRIPT)
    for place in range(960):
        image = photo(height=200 + place % 9, width=240 + place % 7)
        (images / f"{place:04}.jpg").write_bytes(encoded(image, quality=60 + place % 40))
    here, there = Workspace(tmp_path / "here"), Workspace(tmp_path / "there")
    prepare(Images(images).evaluation(), opencv(), here, split="eval")

    command = [sys.executable, str(script), str(images), str(there.root)]
    options = {"env": {**os.environ, "PYTHONPATH": str(ROOT)}, "stderr": subprocess.PIPE}
    driver = subprocess.Popen(command, **options)
    wait_for(there.root, 3)
    os.kill(workers(driver.pid, "dask")[0], signal.SIGKILL)
    wait_for(there.root, 9)
    driver.kill()
    driver.communicate()
    assert 9 <= len(lots(there.root)) < 60
    ended = subprocess.run(command, timeout=300, check=False, **options)
    assert ended.returncode == 0, ended.stderr.decode()
    assert files(there) == files(here)
    assert lots(there.root) == set()
