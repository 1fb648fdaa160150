"""Contracts of the plugin families as tests: a subclass with ``plugin`` runs them under pytest.

    class TestMine(DecoderContract):
        plugin = MyDecoder()

The rules stand at the top of `alignkit.decoders`, `alignkit.resizers`, `alignkit.backends`,
`alignkit.datasets` and `alignkit.tasks`.
"""

from alignkit.testing.backend_contract import BackendContract
from alignkit.testing.image_contracts import DatasetContract, DecoderContract, ResizerContract
from alignkit.testing.task_contract import TaskContract

__all__ = [
    "BackendContract",
    "DatasetContract",
    "DecoderContract",
    "ResizerContract",
    "TaskContract",
]
