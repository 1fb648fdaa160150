"""A side that runs a graph in a backend, cut off behind the requested layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from alignkit.backends import Builder
from alignkit.engines import build_engine
from alignkit.errors import BackendError
from alignkit.models.checkpoint import Calibration, EngineSource
from alignkit.predict import open_session
from alignkit.studies.bisect.graph import Layer, cut, inputs_of, load_graph, tensors_of
from alignkit.studies.bisect.isolated_layer import isolated_graph, packed
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.arrays import Batch
    from alignkit.backends import Session
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan.planned_runtime import Runtime
    from alignkit.studies.bisect import Values
    from alignkit.studies.bisect.isolated_layer import Activations


@dataclass(eq=False)
class ONNXSide:
    """A graph in a backend; each cut is built, verified to run in its precision, and closed."""

    runtime: Runtime
    checkpoint: Checkpoint
    """Names, shapes and key; the weights are those of the graph."""
    file: Path
    batch: Batch
    calibration: Calibration | None = None
    label: str = ""
    """Addition to the runtime's name, e.g. the file it runs."""

    @property
    def name(self) -> str:
        """The runtime, its precision and the label, e.g. ``onnxruntime fp16``."""
        return " ".join(filter(None, (self.runtime.name, self.runtime.precision, self.label)))

    @cached_property
    def _graph(self) -> Any:
        return load_graph(self.file)

    @cached_property
    def _tensors(self) -> frozenset[str]:
        return frozenset(tensors_of(self._graph))

    def values(self, layer: Layer) -> Values | None:
        """Run the graph up to the layer: see `alignkit.studies.bisect.BisectSide`."""
        if layer.tensor not in self._tensors:
            return None
        return self._ran(cut(self._graph, layer.tensor), self.batch, layer.tensor)

    def isolated(self, layer: Layer, held: Activations) -> Values:
        """Run the layer alone: see `alignkit.studies.bisect.Candidate`."""
        backend, precision = self.runtime.backend, self.runtime.precision
        if isinstance(backend, Builder) and backend.calibration(precision):
            raise BackendError(
                f"{precision} takes its scales from images; alone, the layer would have others"
            )
        images = len(self.batch)
        [own_input] = inputs_of(self._graph)
        if own_input.name not in held.shapes:
            held.keep(own_input.name, self.batch)
        graph, fed = isolated_graph(self._graph, layer.tensor, held.shapes, images)
        return self._ran(graph, packed(held, fed, images), f"{layer.tensor} alone")

    def _ran(self, graph: Any, batch: Batch, what: str) -> Values:
        with self._session(graph, batch.shape[2:], what) as session:
            return session.predict(batch)

    @contextmanager
    def _session(self, graph: Any, size: tuple[int, ...], what: str) -> Iterator[Session]:
        import onnx

        height, width = size
        # a cut is another graph, and its outputs are no classes to reorder
        checkpoint = replace(
            self.checkpoint,
            key=f"{self.checkpoint.key} to {what}",
            order=(),
            height=height,
            width=width,
        )
        with TemporaryDirectory(prefix="alignkit-") as folder:
            file = Path(folder) / "cut.onnx"
            onnx.save(graph, file)
            source = EngineSource(checkpoint, file, self.calibration)
            engine = build_engine(
                self.runtime.backend, source, self.runtime.precision, Workspace(Path(folder))
            )
            with open_session(self.runtime, checkpoint, engine) as session:
                yield session
