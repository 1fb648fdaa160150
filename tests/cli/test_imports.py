"""Imports as a user meets them."""

import subprocess
import sys

TOML = """\
[jpg]
backend = "S[DecodeMat,ResizeMat,CvtColorMat,Mat2Tensor,TensorrtTensor]"
resize_h = 48
resize_w = 48
mean = "124,116,104"
filter = "or"
"""


def test_a_key_that_torchpipe_ignores_is_told_on_stderr_and_the_file_is_right(file):
    toml = file.parent / "serving.toml"
    toml.write_text(TOML)
    import_into(file, toml)
    command = [sys.executable, "-m", "alignkit", "check", str(file)]  # pytest takes warnings itself
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    ignored = f"{toml}:6: torchpipe 0.2.25 ignores 'filter': no backend of [jpg] reads it"
    assert told.stderr == f"warning: {ignored}\n"


def import_into(file, toml):
    text = file.read_text()
    file.write_text(text.replace("{preset: pillow-train, size: 48}", f"{{torchpipe_toml: {toml}}}"))


def test_what_cannot_be_expressed_is_told_where_the_file_is_named(alignkit, file):
    toml = file.parent / "serving.toml"
    toml.write_text(TOML.replace("ResizeMat", "TopLeftResizeMat"))
    import_into(file, toml)
    told = alignkit("check", file)
    assert told.code == 2
    assert told.err.startswith(f"{file}:6:28: preprocess.pillow.torchpipe_toml: {toml}:2: TopLeft")
