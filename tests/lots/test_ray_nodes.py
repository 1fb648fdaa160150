"""A running Ray of two nodes: by its address, by its client port, and beside an engine of its own."""

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lots.test_killed import ENGINES, WORKERS, diff_of, facts, named

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]


def free_ports(number: int) -> list[int]:
    """Ports that nothing listens to."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture
def cluster(tmp_path) -> Iterator[tuple[int, dict[str, str]]]:
    """The process of its head, and its addresses."""
    pytest.importorskip("ray")
    ray = Path(sysconfig.get_path("scripts")) / "ray"
    port, client = free_ports(2)
    # Ray's own sockets lie below its folder, and their paths must be short
    head = ["--head", f"--port={port}", f"--ray-client-server-port={client}",
            "--include-dashboard=false", "--min-worker-port=0", "--max-worker-port=0"]  # fmt: skip
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    nodes = []
    for option in (head, [f"--address=127.0.0.1:{port}"]):
        log = tmp_path / f"node-{len(nodes)}.log"
        started = [str(ray), "start", *option, "--num-cpus=1", "--block"]
        with log.open("w") as said:
            nodes.append(subprocess.Popen(started, stdout=said, stderr=said, env=environment))
        deadline = time.monotonic() + 120
        while "Ray runtime started" not in log.read_text():
            assert nodes[-1].poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
    addresses = {"address": f"127.0.0.1:{port}", "client": f"ray://127.0.0.1:{client}"}
    yield nodes[0].pid, addresses
    for node in reversed(nodes):
        node.terminate()
    for node in nodes:
        node.wait(60)


def test_nodes_give_the_record_of_one_machine(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    command = diff_of(tmp_path / "images")
    options = {"local": [], "beside": ENGINES["ray"]}
    options |= {
        name: ["--engine", "ray", "--address", address] for name, address in cluster[1].items()
    }
    records = {}
    for name, engine in options.items():
        out = tmp_path / f"{name}.json"
        subprocess.run([*command, *engine, "--out", f"json={out}"], check=True, timeout=300,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        records[name] = facts(out)
    assert all(record == records["local"] for record in records.values())


@pytest.mark.parametrize("name", ["address", "client"])
def test_a_head_elsewhere_that_stands_still_never_hangs_the_command(
    cluster, tmp_path, monkeypatch, name
):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    head, addresses = cluster
    again = [*diff_of(tmp_path / "images"), "--engine", "ray", "--address", addresses[name],
             "--reports", str(tmp_path / "reports")]  # fmt: skip
    driver = subprocess.Popen(again, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not named(head, WORKERS["ray"]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (store,) = named(head, b"gcs_server")
    os.kill(store, signal.SIGSTOP)
    try:
        _, said = driver.communicate(timeout=240)
    finally:
        driver.kill()
        os.kill(store, signal.SIGCONT)
    assert "Traceback" not in said
    if driver.returncode:  # lots were left that no worker had
        assert (driver.returncode, "ray: the head does not answer" in said) == (3, True)
