"""`alignkit data`: statistics of a data set, and its division into train and eval.

Here is the division: a folder of classes → a new folder with ``train/`` and ``eval/``; the source
never changes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from errno import EXDEV
from pathlib import Path
from typing import Literal

from alignkit.datasets.folder import Folder
from alignkit.datasets.labelled import Labelled, divide, images_by_class, names_of, split_dirs
from alignkit.datasets.listed_images import list_files
from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import ConfigError, DataError, WorkspaceError
from alignkit.samples import Split
from alignkit.studies.data.whole_target import appearing_whole, require_new

By = Literal["copy", "hardlink", "symlink"]
PutFile = Callable[[Path, Path], object]
_PLACING: dict[By, PutFile] = {
    "copy": shutil.copy2,
    "hardlink": lambda source, target: target.hardlink_to(source.resolve()),
    # resolved: a relative link would point elsewhere from the new folder
    "symlink": lambda source, target: target.symlink_to(source.resolve()),
}


@dataclass(frozen=True, slots=True)
class Divided:
    """The folder that was written."""

    folder: Path
    train: dict[str, int]
    """Class → images."""
    eval: dict[str, int]
    notes: tuple[str, ...]
    """Content in both splits, images of no class."""


def write_division(root: Path, out: Path, *, share: float, seed: int, by: By) -> Divided:
    """Write ``share`` of every class below ``out/eval``, the rest below ``out/train``.

    The division is the one that ``data: {name: folder, root: ROOT, eval_share:, seed:}`` makes.
    ``out`` appears whole or not at all. Raises `ConfigError` for an impossible option,
    `DataError` if ``root`` cannot be divided or read, `WorkspaceError` if ``out`` cannot be
    written.
    """
    _check(root, out, share)
    divided = divide(images_by_class(root), share, seed)
    _refuse_unreadable(root, [*names_of(divided["train"]), *names_of(divided["eval"])])
    notes = tuple(Folder(root, eval_share=share, seed=seed).notes())  # reads every image once
    _write(root, out, divided, _PLACING[by])
    train, evaluation = (
        {name: len(files) for name, files in divided[split].items()} for split in ("train", "eval")
    )
    return Divided(out, train, evaluation, notes)


def _refuse_unreadable(root: Path, names: Sequence[str]) -> None:
    for name, file in zip(names, list_files(root, names), strict=True):
        if file.fault:
            raise DataError(f"cannot read {root / escaped_name(name)}: {file.fault}; remove it")


def _write(root: Path, out: Path, divided: dict[Split, Labelled], place: PutFile) -> None:
    with appearing_whole(out) as part:
        for split, labelled in divided.items():
            for name in names_of(labelled):
                target = part / split / name
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    place(root / name, target)
                except OSError as error:
                    if error.errno != EXDEV:
                        raise
                    raise WorkspaceError(
                        f"{out} was not written: hard links need one file system; use --by copy"
                    ) from error


def _check(root: Path, out: Path, share: float) -> None:
    if not 0 < share < 1:
        raise ConfigError(f"--eval {share}: a share of every class, between 0 and 1, e.g. 0.25")
    require_new(out)
    if out.resolve().is_relative_to(root.resolve()):
        raise ConfigError(f"{out} lies in {root}, where it would be a class; name one outside")
    if dirs := split_dirs(root, "train", ""):
        raise DataError(
            f"{root} is divided already, into {dirs['train']}/ and {dirs['eval']}/; use it as it is"
        )
