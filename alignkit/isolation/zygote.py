"""The zygote: a process that imports the libraries once and forks a worker on request.

Started by `alignkit.isolation` with one end of a socket. A worker that a library has killed is
then replaced in milliseconds, the caller's own process never holds that library, and no worker
inherits the caller's threads. Messages go over a stream, each behind its length: macOS has no
sequenced packets.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from typing import NoReturn

BORN, DIED = b"born", b"died"
DESCRIPTORS = 5
_LENGTH = struct.Struct("!I")
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def serve(control: int) -> NoReturn:
    """Fork workers until the other end of the socket is closed.

    Each request is a pickled (``sys.path``, modules to import first, working directory) with
    `DESCRIPTORS` for the worker: its channel, its heartbeat, the file for its output, and the
    slots for images.
    The answers are ``born PID`` and, at the end, ``died PID STATUS``.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # the caller's to handle, who ends this process
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=control) as caller:
        children: set[int] = set()
        # becomes readable when a child ends
        deaths, writer = os.pipe()
        for end in (deaths, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            while _handle(caller, deaths, children):
                pass
        finally:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    sys.exit()


def _handle(caller: socket.socket, deaths: int, children: set[int]) -> bool:
    """Wait for one event and handle it; return false once the caller is gone."""
    either: list[socket.socket | int] = [caller, deaths]
    readable, _, _ = select.select(either, [], [])
    if deaths in readable:
        os.read(deaths, 4096)
        for pid, status in _ended(children):
            children.remove(pid)
            send_message(caller, b"%s %d %d" % (DIED, pid, status))
    if caller in readable:
        request, descriptors = receive_message(caller)
        if not request:
            return False
        sys.path[:], modules, folder = pickle.loads(request)  # noqa: S301 - our own
        os.chdir(folder)  # relative paths mean what they mean to the caller
        for module in modules:
            importlib.import_module(module)
        pid = os.fork()
        if pid == 0:
            _become_worker(caller, deaths, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        children.add(pid)
        send_message(caller, b"%s %d" % (BORN, pid))
    return True


def send_message(to: socket.socket, message: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send a message, and with its first bytes the descriptors."""
    data = _LENGTH.pack(len(message)) + message
    sent = socket.send_fds(to, [data], descriptors) if descriptors else to.send(data)
    to.sendall(data[sent:])


def receive_message(source: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a message and its descriptors; an empty one once the other end is closed.

    Raises `BlockingIOError` if there is none and the socket does not block. Afterwards the socket
    blocks.
    """
    head, descriptors, _, _ = socket.recv_fds(source, _LENGTH.size, DESCRIPTORS)
    if not head:
        return b"", []
    source.setblocking(True)
    (length,) = _LENGTH.unpack(head)
    message = b""
    while len(message) < length and (part := source.recv(length - len(message))):
        message += part
    return message, descriptors


def _ended(children: set[int]) -> list[tuple[int, int]]:
    """Return (pid, exit status) of each ended child; minus the signal if one ended it."""
    ended: list[tuple[int, int]] = []
    while len(ended) < len(children):
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        ended.append((pid, os.waitstatus_to_exitcode(status)))
    return ended


def _become_worker(caller: socket.socket, deaths: int, descriptors: Sequence[int]) -> NoReturn:
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # a worker stuck in a library is ended by the kernel with a run that was killed
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # its death is expected
        channel, heartbeat, output, *slots = descriptors
        caller.close()
        os.close(deaths)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        from alignkit.isolation.worker import work

        work(channel, heartbeat, slots)
        status = 0
    finally:
        os._exit(status)  # without unwinding the zygote's stack
