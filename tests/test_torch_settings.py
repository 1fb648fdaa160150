"""Loggers that are quiet for as long as a block runs."""

import logging
import os
import subprocess
import sys

from alignkit.torch_settings import quiet

IMPORT = """
from alignkit.torch_settings import TORCH_EXTENSIONS, quiet
with quiet(TORCH_EXTENSIONS):
    import torch.utils.cpp_extension
"""


def test_errors_pass_and_the_level_is_put_back(caplog):
    logger = logging.getLogger("alignkit.test")
    logger.setLevel(logging.INFO)
    with quiet("alignkit.test"):
        logger.warning("no news")
        logger.error("news")
    logger.info("afterwards")
    assert caplog.messages == ["news", "afterwards"]


def test_a_cuda_toolkit_on_a_machine_without_a_gpu_is_not_announced(tmp_path):
    environment = {**os.environ, "CUDA_HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT], env=environment, check=True,
        capture_output=True,
    )  # fmt: skip
    assert ended.stderr == b""
