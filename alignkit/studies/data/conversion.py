"""`alignkit data convert`: images of identities and their pairs in another form, byte for byte.

The source is only read. The target is written beside its place, read back, compared image by image
by SHA-256, and then renamed: it appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from alignkit.datasets.identities import Identities, IdentityForm, ListColumn, form_of
from alignkit.datasets.identity_images import (
    IdentityImages,
    ImagePair,
    is_digest,
    require_once,
)
from alignkit.datasets.labelled import EVAL_DIRS, listed, strays, subfolders
from alignkit.datasets.regular_file import escaped_name
from alignkit.datasets.verification_bin import SUFFIXES
from alignkit.errors import ConfigError, DataError, WorkspaceError
from alignkit.progress import Progress
from alignkit.stored_file import file_sha256
from alignkit.studies.data.identity_writers import (
    PAIRS,
    Content,
    FolderWriter,
    IdentityWriter,
    ListWriter,
    PairsWriter,
    ShardWriter,
    in_folds,
    require_pair_names,
    write_pairs,
)
from alignkit.studies.data.whole_target import appearing_whole, require_new

_FILES = ("folder", "list")
"""Forms with a file for each image."""


@dataclass(frozen=True, slots=True)
class ConversionSource:
    """The images to convert, and how they are read."""

    root: Path
    form: IdentityForm | None = None
    """By default it follows from the name."""
    images: Path | None = None
    """Folder at which the paths of a list begin."""
    pairs: Path | None = None
    """File of pairs; by default ``pairs.txt`` in the folder, if it is there."""
    columns: tuple[ListColumn, ListColumn] | None = None
    """Order in the lines of a list or a shard; by default image, label."""

    def found_form(self) -> IdentityForm:
        """Return the form that is named, or else that of the name."""
        return self.form or form_of(self.root)

    def found_pairs(self) -> Path | None:
        """Return the file of pairs that is named, or else that of the folder, if it has one."""
        beside = self.root.expanduser() / PAIRS
        return self.pairs or (beside if beside.is_file() else None)

    def begin(self) -> Path:
        """Return the folder at which the names of the images begin."""
        root = self.root.expanduser()
        return (self.images or (root if root.is_dir() else root.parent)).expanduser()

    def read(self) -> IdentityImages:
        """Read the images and pairs; raise `ConfigError` or `DataError` where they are wrong."""
        form = self.found_form()
        if self.images and form != "list":
            raise ConfigError(f"--images is for a list, and {self.root} is read as {form}")
        if self.columns and form not in ("list", "base64"):
            raise ConfigError(f"--columns is for a list or shards, not for a {form}")
        if form == "folder" and self.root.expanduser().is_dir():
            _refuse_splits(self.root)
        data = Identities(
            root=self.root, images=self.images, pairs=self.found_pairs(), format=form,
            columns=self.columns or ("image", "label"), eval_share=1,
        )  # fmt: skip
        return data.whole()


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of `alignkit data convert`."""

    source: str
    source_form: IdentityForm
    target: str
    form: IdentityForm
    images: int
    """Images that were written, each counted once."""
    bytes: int
    """Of these images, as they are encoded."""
    identities: int | None
    """``None`` if the target holds none."""
    pairs: int
    left_out: dict[str, str]
    """Image → the reason why it cannot be read."""
    notes: tuple[str, ...]
    data: dict[str, str | int]
    """The ``data:`` of an experiment that reads the target."""


def convert(
    source: ConversionSource,
    target: Path,
    form: IdentityForm | None,
    *,
    progress: Progress,
    shards: int | None = None,
    leave_out: bool = False,
) -> Converted:
    """Write the images of ``source`` to ``target`` in another form, or in the same one again.

    ``form`` is that of the target's name by default, ``shards`` the number of Base64 shards, by
    default 1; with ``leave_out``, images that cannot be read are left out, and their pairs. Memory
    holds the names and hashes of all images and the bytes of one. Raise `ConfigError` for a wrong
    option, `DataError` for a source that cannot be read or that the form cannot hold, and
    `WorkspaceError` if the target cannot be written.
    """
    form = form or _form_of_target(target)
    writer = _writer(form, shards)
    _check(source, target, form)
    images = source.read()
    _require_held(images, writer, form)
    with progress.stage("hash", len(images)) as stage:
        content, left_out = _readable(source, images, leave_out=leave_out)
        stage.advance(len(images))
    notes = [*images.notes, *_left_behind(source, content.images, form)]
    if lost := len(images.pairs) - len(content.images.pairs):
        notes.append(f"pairs left out, as an image of each cannot be read: {lost}")
    if form == "bin":
        content = _taken(content, {at for each in content.images.pairs for at in each[:2]})
    names = _planned(source, content, writer, form)
    with appearing_whole(target.expanduser()) as whole:
        written = _write(whole, content, names, writer, form, progress)
        _verify(written, content, names, form, progress)
    return Converted(
        source=str(source.root),
        source_form=source.found_form(),
        target=str(target),
        form=form,
        images=len(names),
        bytes=written.bytes,
        identities=None if form == "bin" else len(content.images.classes()),
        pairs=len(content.images.pairs),
        left_out=left_out,
        notes=tuple(notes),
        data=_data(target, form, paired=written.pairs is not None),
    )


def _form_of_target(target: Path) -> IdentityForm:
    if target.suffix.lower() in SUFFIXES:
        return "bin"
    raise ConfigError(f"{target}: name its form, --to folder, --to list or --to base64")


def _writer(form: IdentityForm, shards: int | None) -> IdentityWriter:
    if shards is not None and form != "base64":
        raise ConfigError(f"--shards is for base64, and {form} has none")
    writers: dict[IdentityForm, IdentityWriter] = {
        "folder": FolderWriter(),
        "list": ListWriter(),
        "base64": ShardWriter(1 if shards is None else shards),
        "bin": PairsWriter(),
    }
    return writers[form]


def _resolved(path: Path) -> Path:
    """Return where a path of the user leads; raise `ConfigError` if that cannot be found out."""
    try:
        found = path.expanduser().resolve()
        (found / PAIRS).exists()  # it fails for a folder that may not be searched
    except (OSError, RuntimeError) as error:  # pathlib raises the latter for ~nobody and for loops
        fault = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{path}: {fault}; name another path, or change its permissions"
        ) from error
    return found


def _check(source: ConversionSource, target: Path, form: IdentityForm) -> None:
    for each in filter(None, (source.images, source.pairs)):
        _resolved(each)
    here, there = _resolved(source.root), _resolved(target)
    if here == there:
        raise ConfigError(f"{target} is the source, which never changes; name another place")
    require_new(target.expanduser())
    if there.is_relative_to(here):
        raise ConfigError(f"{target} lies in {source.root}, which never changes; name one outside")
    if form != "bin" and source.found_form() == "bin":
        raise ConfigError(
            f"{source.root} holds pairs and no identities, and '{form}' needs one for each image; "
            "only 'bin' can hold it"
        )


def _refuse_splits(root: Path) -> None:
    names = {each.name for each in subfolders(root.expanduser())}
    splits = sorted(names & {"train", *EVAL_DIRS})
    if "train" in splits or (splits and len(splits) == len(names)):
        folders = " and ".join(f"{each}/" for each in splits)
        raise DataError(
            f"{root} is divided into {folders}; convert one at a time, e.g. {root / splits[0]}"
        )


def _readable(
    source: ConversionSource, images: IdentityImages, *, leave_out: bool
) -> tuple[Content, dict[str, str]]:
    """Hash the images; return those that can be read, and the reasons of the others."""
    digests = images.contents()
    faults = {
        escaped_name(name): content.removeprefix("unreadable: ")
        for name, content in zip(images.names, digests, strict=True)
        if not is_digest(content)
    }
    if faults and not leave_out:
        raise DataError(
            f"{len(faults)} of {len(images)} images of {source.root} cannot be read: "
            f"{listed([f'{name} ({reason})' for name, reason in faults.items()])}; repair or "
            "remove them, or write --leave-out-unreadable"
        )
    whole = Content(images, digests, source.begin(), source.found_form() in _FILES)
    found = {at for at, content in enumerate(digests) if is_digest(content)}
    return _taken(whole, found) if faults else whole, faults


def _taken(content: Content, indices: set[int]) -> Content:
    if len(indices) == len(content.images):
        return content
    chosen = sorted(indices)
    digests = tuple(content.digests[index] for index in chosen)
    return replace(content, images=content.images.take(chosen), digests=digests)


def _left_behind(
    source: ConversionSource, images: IdentityImages, form: IdentityForm
) -> Iterator[str]:
    """Say what of a source has no place in the target."""
    if source.found_form() == "folder":
        yield from strays(source.root.expanduser(), [""])
    if form != "bin":
        return
    paired = {at for each in images.pairs for at in each[:2]}
    if alone := len(images) - len(paired):
        yield f"images that are in no pair, and have no place in a .bin file: {alone}"
    if images.identities:
        yield "a .bin file holds no identities, only whether those of a pair are the same"


def _require_held(images: IdentityImages, writer: IdentityWriter, form: IdentityForm) -> None:
    """Raise `DataError` for labels that the target cannot hold, and for pairs that it lacks."""
    if form == "bin" and not images.pairs:
        raise DataError("a .bin file holds pairs, and there are none; name their file with --pairs")
    labels = images.classes()
    unheld = [(label, reason) for label in labels if (reason := writer.unheld(label))]
    if unheld:
        label, reason = unheld[0]
        raise DataError(
            f"{form} cannot hold {len(unheld)} of {len(labels)} labels, such as "
            f"'{escaped_name(label)[:80]}': {reason}; rename them, or choose another form with --to"
        )


def _planned(
    source: ConversionSource, content: Content, writer: IdentityWriter, form: IdentityForm
) -> list[str]:
    """Name the images of the target; raise `DataError` for all that it cannot hold."""
    if not len(content.images) and form != "bin":
        raise DataError(f"{source.root}: none of its images can be read")
    names = writer.names(content)
    require_once(names, lambda at: f"{source.root}, {escaped_name(content.images.names[at])}")
    if form != "bin":
        require_pair_names(content.images.pairs, names)
    return names


@dataclass(slots=True)
class _Written:
    """A target that has not its name yet."""

    root: Path
    pairs: Path | None = None
    """Its file of pairs."""
    bytes: int = 0


def _write(
    whole: Path,
    content: Content,
    names: Sequence[str],
    writer: IdentityWriter,
    form: IdentityForm,
    progress: Progress,
) -> _Written:
    written, images = _Written(whole), content.images
    seen = bytearray(len(images))  # a .bin file repeats images
    reads = images.reads()
    with progress.stage("copy", len(images)) as stage:

        def read(index: int) -> bytes:
            data = reads(index)
            if not seen[index]:
                seen[index] = 1
                written.bytes += len(data)
                stage.advance()
            return data

        writer.write(whole, content, names, read)
    if images.pairs and form != "bin":
        written.pairs = whole / PAIRS
        write_pairs(written.pairs, images.pairs, names)
    return written


def _verify(
    written: _Written,
    content: Content,
    names: Sequence[str],
    form: IdentityForm,
    progress: Progress,
) -> None:
    """Read the target as an experiment does; raise `WorkspaceError` unless it is the source."""
    data = Identities(root=written.root, format=form, pairs=written.pairs, eval_share=1)
    found, source = data.whole(), content.images
    contents: Iterable[str] = (
        (file_sha256(written.root / name) for name in found.names)
        if form in _FILES
        else found.contents()
    )
    digests = []
    with progress.stage("verify", len(found)) as stage:
        for each in contents:
            digests.append(each)
            stage.advance()
    if form == "bin":  # it names no image
        same = _pairs(in_folds(source.pairs), content.digests) == _pairs(found.pairs, digests)
    else:
        wanted = [*zip(names, source.identities, content.digests, strict=True)]
        there = [*zip(found.names, found.identities, digests, strict=True)]
        if form == "folder":  # its order is that of its names
            wanted, there = sorted(wanted), sorted(there)
        same = wanted == there
        same = same and _pairs(source.pairs, names) == _pairs(found.pairs, found.names)
    if not same:
        raise WorkspaceError(
            "nothing was written: the images that were read back are not those of the source; "
            "does the disk tell upper case from lower case, and is it sound?"
        )


def _pairs(pairs: Sequence[ImagePair], images: Sequence[str]) -> list[tuple[str, str, bool, int]]:
    return [(images[each.first], images[each.second], each.same, each.fold) for each in pairs]


def _data(target: Path, form: IdentityForm, *, paired: bool) -> dict[str, str | int]:
    data: dict[str, str | int] = {"name": "identities", "root": str(target)}
    if form_of(target) != form:
        data["format"] = form
    if paired:  # divided, the data would keep the pairs of the evaluated identities alone
        data |= {"pairs": str(target / PAIRS), "eval_share": 1}
    return data
