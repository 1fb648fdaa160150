"""The processor: what its flags say, and where nothing says it; messages of C libraries."""

import os
import re
from pathlib import Path

import pytest

from alignkit import machine
from alignkit.machine import cpu_name, processor_flags, vector_extensions, without_messages

X86 = "model name\t: A Xeon\nflags\t\t: fpu sse2 smep avx2 avx_vnni amx_int8\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd aes asimddp sve i8mm bf16\n"


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


def test_the_extensions_of_x86_are_told_without_what_computes_nothing(cpuinfo):
    cpuinfo.write_text(X86 * 2)
    assert vector_extensions() == "amx_int8 avx2 avx_vnni sse2"
    assert "smep" in processor_flags()
    assert cpu_name() == "A Xeon"


def test_the_extensions_of_arm_are_told(cpuinfo):
    cpuinfo.write_text(ARM)
    assert vector_extensions() == "asimd asimddp bf16 i8mm sve"
    assert cpu_name()


def test_where_the_system_does_not_say_they_are_unknown(cpuinfo, monkeypatch):
    monkeypatch.setattr(machine.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(machine.platform, "machine", lambda: "arm64")
    assert vector_extensions() == "unknown on Darwin arm64"
    assert processor_flags() == frozenset()


@pytest.fixture(autouse=True)
def asked_again():
    machine.gpu_name.cache_clear()
    yield
    machine.gpu_name.cache_clear()


def test_without_a_driver_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    monkeypatch.setattr(machine, "DRIVER", Path("/nowhere"))
    assert machine.gpu_name() == "none"


@pytest.mark.gpu
def test_the_gpu_of_this_machine_is_named_with_its_driver():
    assert re.search(r"\w+.*, driver \d+\.\d+", machine.gpu_name())


def test_gpus_are_named_with_their_driver(monkeypatch):
    monkeypatch.setattr(machine.shutil, "which", lambda name: f"/usr/bin/{name}")
    answer = "NVIDIA L4, 580.65.06\nNVIDIA L4, 580.65.06"
    monkeypatch.setattr(machine, "command_output", lambda command: answer)
    assert machine.gpu_name() == "NVIDIA L4, driver 580.65.06; NVIDIA L4, driver 580.65.06"


def test_without_nvidia_smi_the_drivers_files_name_the_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    monkeypatch.setattr(machine, "DRIVER", tmp_path)
    card = tmp_path / "gpus" / "0000:01:00.0"
    card.mkdir(parents=True)
    (card / "information").write_text("Model: \t\t NVIDIA T4\nIRQ:   0\n")
    assert machine.gpu_name() == "NVIDIA T4"


def test_a_control_group_that_leaves_less_is_what_counts(tmp_path, monkeypatch):
    assert machine._group_rest(tmp_path) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("30\n")
    assert machine._group_rest(tmp_path) is None
    (tmp_path / "memory.max").write_text("100\n")
    assert machine._group_rest(tmp_path) == 70
    monkeypatch.setattr(machine, "_group_rest", lambda: 70)
    assert machine.available_bytes() == (70 if Path("/proc/meminfo").exists() else None)


def test_lines_of_c_libraries_are_dropped_and_ours_are_kept(capfd):
    with without_messages():
        os.write(1, b"a library's line\n")
        os.write(2, b"another\n")
    os.write(1, b"ours\n")
    assert capfd.readouterr() == ("ours\n", "")
