"""What a runtime's logits depend on is in the keys of its cells."""

import alignkit.engines.export
from alignkit import machine as processor
from alignkit.backends.kserve import KServeBackend
from alignkit.backends.onnxruntime import ONNXRuntimeBackend
from alignkit.backends.torch import TorchBackend
from alignkit.plan.work import Runtime


def parts(backend):
    return Runtime("r", backend, "fp32", "1.0").parts


def test_another_compiler_is_another_cell_where_one_is_used(tmp_path, monkeypatch):
    def key(version, *, generated):
        compiler = tmp_path / version
        compiler.write_text(f"#!/bin/sh\necho g++ {version}\necho and more\n")
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        return parts(TorchBackend(compile=generated))

    assert key("12.2", generated=True)["compiler"] == "g++ 12.2"
    assert key("12.2", generated=True) != key("14.1", generated=True)
    assert key("12.2", generated=False) == key("14.1", generated=False)


def test_without_a_compiler_the_plan_is_still_made(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "compiler" not in parts(TorchBackend(compile=True))


def test_what_exports_a_model_is_part_of_the_cells_that_run_the_export(monkeypatch):
    before = parts(ONNXRuntimeBackend()), parts(TorchBackend())
    monkeypatch.setattr(alignkit.engines.export, "OPSET", 18)
    after = parts(ONNXRuntimeBackend()), parts(TorchBackend())
    assert [one != other for one, other in zip(before, after, strict=True)] == [True, False]
    libraries = before[0]["export"]["libraries"]
    assert [each.split()[0] for each in libraries] == ["torch", "onnx"]


def test_other_vector_extensions_are_another_cell_wherever_the_processor_computes(
    tmp_path, monkeypatch
):
    def keys(flags):
        file = tmp_path / flags
        file.write_text(f"flags : {flags}")
        monkeypatch.setattr(processor, "CPUINFO", file)
        return [
            parts(TorchBackend()),
            parts(ONNXRuntimeBackend()),
            parts(TorchBackend(device="cuda")),
            parts(ONNXRuntimeBackend(provider="cuda")),
            parts(KServeBackend(url="http://x:1", model="m")),
        ]

    plain, vnni = keys("avx2"), keys("avx2 avx_vnni")
    differ = [one != other for one, other in zip(plain, vnni, strict=True)]
    assert differ == [True, True, False, False, False]
