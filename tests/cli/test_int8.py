"""A run in int8 on a processor whose kernels saturate: every output says so."""

from alignkit.backends.onnxruntime import onnxruntime_int8, onnxruntime_session
from alignkit.record.document import read_record

EXPERIMENT = """
name: saturation
data: {name: digits-on-photos, train: 40, eval: 20}
preprocess:
  a: {decode: pillow, resize: {name: pillow, size: 32}}
  b: {decode: opencv, resize: {name: opencv, size: 32}}
train: {epochs: 1, seeds: [0]}
attribute: {images: none}
report: {changed: 0, worst: 1, random: 0}
evaluate:
  backends:
    - torch
    - {name: onnxruntime, precision: int8}
"""


def test_record_page_and_terminal_say_that_int8_saturates(alignkit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module in (onnxruntime_session, onnxruntime_int8):
        monkeypatch.setattr(module, "kernels_saturate", lambda: True)
    monkeypatch.setattr(onnxruntime_int8, "_TOLERANCE", -1.0)  # even equal logits part
    (tmp_path / "int8.yaml").write_text(EXPERIMENT)
    told = alignkit("run", "int8.yaml", "--no-open").out
    (file,) = tmp_path.glob("reports/**/record.json")
    record = read_record(file)
    warned = [each for each in record.matrix if each.warning]
    assert [each.precision for each in warned] == ["int8"] * 4
    assert all(each.drift for each in warned)
    cells = [each.effective for each in record.cells if each.precision == "int8"]
    assert all(each["weights"].startswith("7 bits") for each in cells)
    words = "int8 saturates on this processor"
    assert all(each["warning"].startswith(words) for each in cells)
    assert f"warning: onnxruntime int8, 4\N{NO-BREAK SPACE}entries: {words}" in told
    page = file.with_name("index.html").read_text()
    assert words in page
    assert record.environment.extensions in page
    assert words in file.with_name("summary.md").read_text()
