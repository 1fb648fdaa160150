"""Which of a plan's models an endpoint serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignkit.backends import Backend, Endpoint
from alignkit.errors import ConfigError
from alignkit.plugins import did_you_mean

if TYPE_CHECKING:
    from alignkit.plan import Training


def served_training(backend: Backend, trainings: tuple[Training, ...]) -> Training | None:
    """The model that an endpoint serves, of several seeds the first; ``None`` for other backends.

    Raises `ConfigError` if the endpoint does not say which of several rows it is.
    """
    if not isinstance(backend, Endpoint):
        return None
    rows = {str(each.row): each for each in reversed(trainings)}
    rows |= {each.given.name: each for each in trainings if each.given}
    if not backend.serves and len({each.row for each in trainings}) == 1:
        return trainings[0]
    if backend.serves not in rows:
        raise ConfigError(
            f"evaluate.backends: an endpoint serves one model; name its row as 'serves'"
            f"{did_you_mean(backend.serves, rows)}"
        )
    return rows[backend.serves]


def not_served(held: Training) -> str:
    """Why another model cannot be asked of the endpoint that serves this one."""
    seed = "" if held.given else f" of seed {held.seed}"
    return f"the endpoint serves the model of {held.row}{seed}, not this one"
