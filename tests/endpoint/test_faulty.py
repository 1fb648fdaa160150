"""The server that tests of endpoints talk to."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.endpoint.faulty import Handler, Server

SOMAXCONN = Path("/proc/sys/net/core/somaxconn")


@pytest.mark.skipif(
    not SOMAXCONN.exists() or int(SOMAXCONN.read_text()) < 256, reason="the system keeps fewer"
)
def test_no_connection_is_dropped_while_the_server_is_kept_from_accepting():
    with Server(("127.0.0.1", 0), Handler) as server, ExitStack() as opened:
        for _ in range(256):
            opened.enter_context(socket.create_connection(server.server_address, timeout=0.9))
