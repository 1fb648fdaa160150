"""Options of `alignkit bench` for MLPerf's scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from alignkit.errors import ConfigError

if TYPE_CHECKING:
    from alignkit.serve.generated_load import ScenarioLoad

LoadChoice = Literal["closed", "server", "offline", "single-stream"]
ScenarioChoice = Annotated[
    LoadChoice,
    typer.Option(
        "--scenario",
        help="closed: clients that wait for their answers. The others are MLPerf's, by its load "
        "generator: server: random arrivals; offline: all images at once; single-stream: one "
        "after the other.",
    ),
]
TargetQps = Annotated[
    float | None,
    typer.Option(
        "--target-qps", metavar="RATE", help="server: arrivals a second; without it, search them."
    ),
]
LatencyBound = Annotated[
    str | None,
    typer.Option(
        "--latency-bound", metavar="50ms", help="server: 99 % of the latencies within this."
    ),
]
Duration = Annotated[
    str | None,
    typer.Option("--duration", metavar="10s", help="Least duration of a scenario's run."),
]
AnsweringThreads = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="server, offline: threads that answer; by default one a CPU, 256 for an endpoint.",
    ),
]


def scenario_load(
    scenario: LoadChoice,
    *,
    target_qps: float | None,
    latency_bound: str | None,
    duration: str | None,
    workers: int | None,
    requests: int,
    batch: int,
    closed: bool,
) -> ScenarioLoad | None:
    """Return the load of a scenario, ``None`` for a closed loop.

    ``closed`` says whether an option of the closed loop is given. Raises `ConfigError` for an
    option that the scenario does not have.
    """
    own = {
        "--target-qps": target_qps is not None and scenario != "server",
        "--latency-bound": latency_bound is not None and scenario != "server",
        "--duration": duration is not None and scenario == "closed",
        "--workers": workers is not None and scenario not in ("server", "offline"),
    }
    if wrong := next((name for name, given in own.items() if given), ""):
        of = {"--duration": "server, offline or single-stream", "--workers": "server or offline"}
        raise ConfigError(f"{wrong} is an option of --scenario {of.get(wrong, 'server')}")
    if scenario == "closed":
        return None
    if closed:
        raise ConfigError(
            f"--clients and --rounds are options of the closed loop; --scenario {scenario} has "
            "none: leave them out"
        )
    if batch > 1 and scenario != "offline":
        raise ConfigError(f"--batch {batch}: a query of --scenario {scenario} is one image")
    if target_qps is not None and not 0 < target_qps <= 1e6:
        raise ConfigError(f"--target-qps {target_qps:g}: give arrivals a second above 0")
    if scenario == "server" and latency_bound is None:
        raise ConfigError("--scenario server needs a bound, for example --latency-bound 50ms")
    bound = None if latency_bound is None else _seconds("--latency-bound", latency_bound)
    from alignkit.serve.generated_load import ScenarioLoad

    return ScenarioLoad(
        scenario,
        target_qps=target_qps,
        latency_bound_ms=None if bound is None else 1000 * bound,
        min_seconds=_seconds("--duration", duration or "10s"),
        min_queries=requests,
        batch=batch,
        workers=workers,
    )


def _seconds(option: str, text: str) -> float:
    from alignkit.text.numbers import seconds_of

    found = seconds_of(text)
    if found is None or not 1e-4 <= found <= 86_400:
        raise ConfigError(f"{option} {text}: give a duration, for example 50ms, 10s or 2min")
    return found
