"""The processor: what its flags say, and where nothing says it."""

import pytest

from alignkit import machine as processor
from alignkit.machine import cpu_name, processor_flags, vector_extensions

X86 = "model name\t: A Xeon\nflags\t\t: fpu sse2 smep avx2 avx_vnni amx_int8\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd aes asimddp sve i8mm bf16\n"


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
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
    monkeypatch.setattr(processor.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(processor.platform, "machine", lambda: "arm64")
    assert vector_extensions() == "unknown on Darwin arm64"
    assert processor_flags() == frozenset()
