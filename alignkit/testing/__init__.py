"""Contracts of the plugin families as tests: a subclass with ``plugin`` runs them under pytest.

    class TestMine(DecoderContract):
        plugin = MyDecoder()

The rules stand at the top of `alignkit.decoders`, `alignkit.resizers`, `alignkit.backends`,
`alignkit.datasets` and `alignkit.tasks`.
"""

import pytest

# a failed check then shows both sides of its comparison, as in a test file
pytest.register_assert_rewrite(
    *(f"alignkit.testing.{each}_contract" for each in ("backend", "image", "task"))
)

from alignkit.testing.backend_contract import BackendContract  # noqa: E402
from alignkit.testing.image_contracts import (  # noqa: E402
    DatasetContract,
    DecoderContract,
    ResizerContract,
)
from alignkit.testing.task_contract import TaskContract  # noqa: E402

__all__ = [
    "BackendContract",
    "DatasetContract",
    "DecoderContract",
    "ResizerContract",
    "TaskContract",
]
