"""The one output that a task decodes, of those that a model's file declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from alignkit.errors import ConfigError
from alignkit.plugins import did_you_mean

if TYPE_CHECKING:
    from alignkit.tasks import OutputShape


def one_output(
    outputs: Sequence[OutputShape],
    name: str,
    fits: Callable[[tuple[int | None, ...]], bool],
    expected: str,
) -> OutputShape:
    """Choose the output ``name``; without a name, the only one whose shape fits.

    An output whose shape the file does not say may fit. Raise `ConfigError` if there is none, or
    several; ``expected`` says in words which shapes fit.
    """
    if name:
        known = {each.name: each for each in outputs}
        if name not in known:
            raise ConfigError(f"it has no output {name!r}{did_you_mean(name, known)}")
        outputs = [known[name]]
    fitting = [each for each in outputs if each.shape is None or fits(each.shape)]
    if not fitting:
        raise ConfigError(f"no output fits ({described(outputs)}); expected {expected}")
    if len(fitting) > 1:
        raise ConfigError(
            f"{len(fitting)} outputs fit ({described(fitting)}); name one in the task: "
            f"output: {fitting[0].name}"
        )
    return fitting[0]


def described(outputs: Sequence[OutputShape]) -> str:
    """List names and shapes; a side that varies is ``?``."""
    return ", ".join(f"{each.name} {_sides(each.shape)}" for each in outputs)


def _sides(shape: tuple[int | None, ...] | None) -> str:
    if shape is None:
        return "of unknown shape"
    return f"({', '.join('?' if side is None else str(side) for side in shape)})"
