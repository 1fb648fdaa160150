"""`UserModel`: a trained model that the user brings, and its `Checkpoint`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import StringConstraints, ValidatorFunctionWrapHandler, WrapValidator

from alignkit.errors import ConfigError, DataError
from alignkit.models.architectures import USER_BUILT, model_version, unknown_model
from alignkit.models.checkpoint import Checkpoint, CheckpointFormat
from alignkit.models.entry_faults import entry_faults
from alignkit.models.file_headers import read_weights_header
from alignkit.models.joined_graph import weights_beside
from alignkit.models.named_outputs import ClassNames, matched_by_name, names_in
from alignkit.models.onnx_header import in_text, read_onnx_header
from alignkit.models.pretrained import identity, is_file, published_file, published_outputs
from alignkit.plugins import did_you_mean
from alignkit.preprocess.stages import Name
from alignkit.stored_file import file_sha256, irregular
from alignkit.tasks import OutputShape, Task, usual_task
from alignkit.tasks.own_code import own_source
from alignkit.workspace import Workspace, content_key

if TYPE_CHECKING:
    from alignkit.preprocess import Preprocess
    from alignkit.tasks import ScoreScale

LONE_OUTPUT = "output"
"""Name of the output of a torch module that returns one tensor."""


def _null_is_none(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
    return "" if given is None else read(given)


_Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Optional = Annotated[_Words, WrapValidator(_null_is_none)]
_FORMATS: tuple[CheckpointFormat, ...] = ("weights", "torchscript", "exported", "onnx")


@dataclass(frozen=True)
class UserModel:
    """Entry of ``models:``: a model by its file, or one for torch and one for ONNX runtimes, by the
    name of published weights, or by a script; and the path it was trained with.
    """

    name: Name
    """Name of its row."""
    preprocess: Name
    """The path it was trained with, which its row is compared with."""
    weights: Path | None = None
    """A ``state_dict`` saved by ``torch.save``, for ``model``; nothing in it is executed."""
    model: _Optional = ""
    """With ``weights``: a torchvision name, ``timm:NAME``, or ``module:function`` of your own; with
    ``pretrained``: one of the first two."""
    pretrained: _Optional = ""
    """Name of the published weights of ``model``, as torchvision (``IMAGENET1K_V1``) or timm
    (``a1_in1k``) has it; they are downloaded once."""
    torchscript: Path | None = None
    """A file of ``torch.jit.save``."""
    exported: Path | None = None
    """An archive of ``torch.export.save``."""
    onnx: Path | None = None
    """Exported ONNX file; it runs in backends that take one, not in torch. Beside another file it
    is the same model exported: ONNX runtimes run it as it is, and torch runs the other file."""
    made_by: _Words = ""
    """In place of a file: a Python script beside this file, with arguments of its own. A run that
    finds no stored model calls it with the name of the ONNX file to write as the last argument."""
    classes: ClassNames = ()
    """Name of each output in order, as the folders are named: a list, a file with one name a line,
    or ``imagenet`` for the 1,000 WordNet ids of ImageNet-1k. An output that is no class is null, or
    ``N/A`` if several are. A model may have more outputs than the data has classes. Without it, the
    names are those in the file, as Ultralytics writes them; without these, the outputs are the
    data's classes in their order, and of images without labels numbered from 0."""
    outputs: tuple[str, ...] = ()
    """Names of the outputs that the task reads, where the model has others too; by default it finds
    them among all."""
    task: Task = field(default_factory=usual_task)
    """The task that the model solves, which decides how its outputs are read."""

    def faults(self, _written: object = None) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with the entry itself, whatever its files hold."""
        named = [each for each in (*_FORMATS, "pretrained", "made_by") if getattr(self, each)]
        others = [each for each in named if each != "onnx"]
        # a function of the user's own is not imported by a check of the file
        own = USER_BUILT.fullmatch(self.model)
        if not named or len(others) > 1 or (self.made_by and self.onnx):
            files = "weights, pretrained, torchscript, exported, onnx, made_by"
            yield "", f"give one of {files}; onnx may stand beside one of the first four"
        elif bool(self.model) != bool({"weights", "pretrained"} & {*others}):
            yield "", "'model' belongs to 'weights' or 'pretrained'"
        elif is_file(self.pretrained):
            yield "", "'pretrained' is a name of published weights; give a file as 'weights'"
        elif self.pretrained and own and not self.model.startswith("timm:"):
            yield "", "'pretrained' names weights of torchvision or timm, and 'model' is neither's"
        elif self.model and not own and (reason := unknown_model(self.model)):
            yield "", reason
        elif repeated := [name for name, count in Counter(self.classes).items() if count > 1]:
            yield "", f"'classes': {', '.join(map(repr, repeated[:3]))} stands there twice"

    @property
    def format(self) -> CheckpointFormat:
        """The format of the file that torch runs, or of the only one."""
        if self.made_by or self.pretrained:
            return "onnx" if self.made_by else "weights"
        return next(each for each in _FORMATS if getattr(self, each) is not None)

    @property
    def file(self) -> Path:
        """The path of that file; published weights that are not `fetched`, and a file to make, have
        none.
        """
        found: Path | None = getattr(self, self.format)
        return found.expanduser() if found else Path()

    @property
    def beside(self) -> Path | None:
        """The ONNX file beside a file of torch's."""
        return self.onnx.expanduser() if self.onnx and self.format != "onnx" else None

    @property
    def files(self) -> tuple[Path, ...]:
        """The paths of its files: none that are fetched or made, and an ONNX file beside them."""
        own = () if self.pretrained or self.made_by else (self.file,)
        return (*own, self.beside) if self.beside else own

    @property
    def graph(self) -> Path | None:
        """The ONNX file, if there is one."""
        return self.file if self.format == "onnx" else self.beside

    @property
    def is_code(self) -> bool:
        """Whether code of the user's own computes the outputs of a torch module."""
        return self.format in ("torchscript", "exported") or self.runs_own_code

    @cached_property  # a plan asks often
    def in_file(self) -> tuple[str, ...]:
        """The names of the outputs that its file holds; empty if it holds none, or is not here."""
        file = self.graph or self.file
        return names_in(file, "onnx" if self.graph else self.format) if file.is_file() else ()

    @property
    def named(self) -> tuple[str, ...]:
        """The names of the outputs by the entry, or else by the file; empty if neither has any."""
        return self.classes or self.in_file

    def declared(self) -> tuple[OutputShape, ...] | None:
        """Describe the outputs; ``None`` if they are known only once code of the user's own runs.

        Raise `DataError` if an ONNX file cannot be read.
        """
        if self.graph:
            return read_onnx_header(self.graph).declared
        # torchvision's and timm's classifiers give a row of logits an image
        return None if self.is_code else (OutputShape(LONE_OUTPUT, (None, None), scale="logits"),)

    def recognised(self, classes: Sequence[str]) -> str:
        """Say in words which outputs the task reads, and how, and how its classes are found.

        ``classes`` are the data's, empty if not known. Raise `ConfigError` if it cannot,
        `DataError` as `declared` does.
        """
        if (outputs := self.declared()) is None:
            by_name = "" if self.classes else matched_by_name(self.in_file, classes)
            return "its outputs are known when its code runs, at the beginning of a run" + by_name
        return self.reads(outputs, classes)

    def unlike_bytes(self, path: Preprocess) -> str:
        """Say that the model takes bytes, and a path gives other numbers; empty if it does not."""
        inputs = read_onnx_header(self.graph).inputs if self.graph else ()
        if not inputs or not inputs[0].takes_bytes or path.normalise.keeps_levels:
            return ""
        return (
            f"{self.graph} takes bytes, 0 to 255, and normalises them itself, and {path.name} "
            "normalises too; give the path 'normalise: {mean: [0, 0, 0], std: "
            "[0.00392156862745098, 0.00392156862745098, 0.00392156862745098]}', which keeps levels"
        )

    def fitted(self) -> UserModel:
        """Return it with the task as its outputs need it; as it is if they cannot be read."""
        try:
            task = self.task.fitting(self.chosen(self.declared() or ()))
        except (ConfigError, DataError):  # `entry_faults` says why
            return self
        return replace(self, task=task)

    def reads(self, declared: Sequence[OutputShape], classes: Sequence[str]) -> str:
        """Say what `recognised` does of these outputs, and how an unusual input is given images.

        Raise `ConfigError` if the task cannot read them.
        """
        inputs = read_onnx_header(self.graph).inputs if self.graph else ()
        takes = f"takes {inputs[0].unusual}; " if inputs and inputs[0].unusual else ""
        by_name = "" if self.classes else matched_by_name(self.in_file, classes)
        return takes + self.task.recognise(self.chosen(declared), self._count(classes)) + by_name

    def assumes(self, declared: Sequence[OutputShape], classes: Sequence[str]) -> bool:
        """Tell whether neither these outputs nor a name shows how the task reads them."""
        return self.task.assumes(self.chosen(declared), self._count(classes))

    def _count(self, classes: Sequence[str]) -> int | None:
        return len(self.named) or len(classes) or None

    @cached_property  # a plan asks often, and hashing a large file takes seconds
    def parts(self) -> dict[str, Any]:
        """Return all that the outputs depend on, without the location on this machine.

        Raise `ConfigError` if there is no such file or it is not regular, `DataError` if an ONNX
        file lacks the weights beside it.
        """
        if self.beside:
            self._require_file(self.beside)
        parts: dict[str, Any] = {
            **self._weights,
            "format": self.format,
            "model": self.model,
            "classes": list(self.classes),
        }
        if self.model:  # the library's code, not the file, decides how the weights are used
            parts["library"] = model_version(self.model)
        if self.runs_own_code:
            parts["source"] = own_source(self.model, "model")
        if self.outputs:
            parts["outputs"] = list(self.outputs)
        if self.beside:
            parts["onnx"] = file_sha256(self.beside)
        if self.graph and not self.made_by and (beside := weights_beside(self.graph)):
            parts["weights beside it"] = beside
        return parts

    def _require_file(self, file: Path) -> None:
        if file.is_file():
            return
        if file.exists():
            kind = irregular(file.stat())
            raise ConfigError(f"model {self.name}: {file} is {kind}; name another file")
        raise ConfigError(
            f"model {self.name}: no file {file}; paths are relative to where alignkit is started"
        )

    @property
    def _weights(self) -> dict[str, str]:
        """Identify the weights; published ones need not be here."""
        if self.pretrained:
            return {"pretrained": identity(self.pretrained, self.model)}
        if self.made_by:
            return {"made by": self.made_by}
        self._require_file(self.file)
        return {"file": file_sha256(self.file)}

    @property
    def is_known(self) -> bool:
        """Whether its weights are published or in a file of this machine, as is an ONNX file."""
        beside = self.beside is None or self.beside.is_file()
        return beside and (bool(self.pretrained) or self.file.is_file())

    def fetched(self, workspace: Workspace) -> UserModel:
        """Return the model with its published weights in a stored file, downloaded if need be.

        Raise as `alignkit.models.pretrained.read_pretrained` does.
        """
        if not self.pretrained:
            return self
        return replace(self, weights=published_file(self.pretrained, self.model, workspace))

    @property
    def runs_own_code(self) -> bool:
        """Whether a function of the user's own builds the module."""
        return ":" in self.model and not self.model.startswith("timm:")

    def parts_for(self, size: tuple[int, int]) -> dict[str, Any]:
        """Return ``parts`` with the (height, width) of the inputs."""
        return {**self.parts, "size": list(size)}

    def described(self) -> str:
        """Describe the weights in words by their header, and the ONNX file beside them.

        Raise `DataError` if they have no header.
        """
        said = f"{self.file}, {self.format}"
        if self.pretrained:
            published = published_outputs(self.pretrained, self.model)
            said = f"{self.model} {self.pretrained}, published, gives {published} outputs"
        elif self.made_by:
            said = f"a run first makes it with {self.made_by}, unless it is stored"
        elif self.format == "onnx":
            header = read_onnx_header(self.file)
            taken = in_text(header.inputs[0].shape or ()) if header.inputs else "nothing"
            shape = header.outputs[0].shape if header.outputs else None
            outputs = shape[1] if shape and len(shape) == 2 and shape[1] else "?"
            said = f"{self.file}, takes {taken}, gives {outputs} outputs"
        elif self.format == "weights":
            weights = read_weights_header(self.file)
            under = f" under its key {weights.key!r}" if weights.key else ""
            said = f"{self.file}, {len(weights.tensors)} tensors{under}, for {self.model}"
        return said + (f"; the ONNX runtimes run {self.beside} as it is" if self.beside else "")

    def unsuitable(self, backend: str, *, needs_onnx: bool) -> str:
        """Explain why a backend cannot run this kind of file; empty if it can."""
        if self.format == "onnx" and not needs_onnx:
            return (
                f"{backend} runs torch modules, and {self.name} is an ONNX file; evaluate it in "
                "onnxruntime or openvino"
            )
        return ""

    def checkpoint(self, classes: Sequence[str], size: tuple[int, int]) -> Checkpoint:
        """Build the checkpoint for these classes and inputs of (height, width).

        Raise `DataError` for the first of its `entry_faults`.
        """
        for fault in entry_faults(self, classes, size):
            raise DataError(fault.message)
        height, width = size
        named = self.named or tuple(classes)
        known, declared = {*classes}, self.declared()
        outside = tuple(name for name in named if name not in known)
        order = tuple(map(named.index, (*classes, *outside)))
        return Checkpoint(
            model=self.model or self.name,
            classes=len(named),
            height=height,
            width=width,
            weights=self.file,
            key=content_key(self.parts_for(size)),
            format=self.format,
            order=() if order == tuple(range(len(order))) else order,
            outside=outside,
            onnx=self.beside,
            # what a module of torch returns is known when it runs: its names are the user's
            outputs=self.wanted(declared) if self.graph and declared else self.outputs,
            scale=self._scale(declared or ()),
            task=self.task,
        )

    def chosen(self, declared: Sequence[OutputShape]) -> list[OutputShape]:
        """Return the outputs that the entry names, by default all.

        Raise `ConfigError` for a name that none has.
        """
        known = {each.name: each for each in declared}
        for name in self.outputs:
            if name not in known:
                raise ConfigError(f"it has no output {name!r}{did_you_mean(name, known)}")
        return [known[name] for name in self.outputs or known]

    def _scale(self, declared: Sequence[OutputShape]) -> ScoreScale:
        """Tell what the values of the first output are that the task decodes."""
        if not declared:
            return ""
        first = self.task.wanted(self.chosen(declared))[0]
        found = next(each for each in declared if each.name == first)
        return "ids" if found.whole else found.scale

    def wanted(self, declared: Sequence[OutputShape]) -> tuple[str, ...]:
        """Name the outputs that the task decodes; none if there is only one.

        Raise `ConfigError` if they fit none of its decoders.
        """
        found = self.task.wanted(self.chosen(declared))
        return found if len(declared) > 1 else ()
