"""The first sentences of a bench's page: the fastest options, and those without a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from alignkit.record import Estimate
from alignkit.record.bench_facts import ServedLoad, ServingOption
from alignkit.text.bench_words import (
    CONTENDED,
    BenchWords,
    TimedLoads,
    churn_words,
    clients_words,
    gain_words,
    loads_by_clients,
    stated_gain,
    three_digits,
)
from alignkit.text.numbers import DASH, count, listed, percent


def fastest(loads: TimedLoads) -> tuple[ServingOption, ServedLoad]:
    """Return the option with the greatest throughput of those under equally many clients.

    One that was timed while the machine was busy is chosen only where all were.
    """
    return max(loads, key=lambda each: (not each[1].contended, each[1].throughput.value or 0.0))


def fastest_words(options: Sequence[ServingOption], words: BenchWords) -> Iterator[str]:
    """Say which option of one model is the fastest, and which of those without a change seen.

    An option that is the fastest with several numbers of clients is named once.
    """
    timed = loads_by_clients(options)
    first = {clients: fastest(each) for clients, each in timed.items()}
    if busy := [load for _, load in first.values() if load.contended]:
        yield f"With {_clients(busy)} there is no result: the machine was busy in every timing."
    quiet = {clients: each for clients, each in first.items() if not each[1].contended}
    yield from _leaders(quiet, timed, words, options, "")
    still = {
        clients: fastest(same)
        for clients, (option, _) in quiet.items()
        # with these numbers of clients the fastest option changes answers
        if option.drift is not None and option.drift.churn.value
        if (same := [each for each in timed[clients] if _unchanged(each[0])])
    }
    yield from _leaders(still, timed, words, options, " that changed no answer")


def _unchanged(option: ServingOption) -> bool:
    return option.reference or (option.drift is not None and option.drift.churn.value == 0)


def _leaders(
    chosen: Mapping[int, tuple[ServingOption, ServedLoad]],
    timed: Mapping[int, TimedLoads],
    words: BenchWords,
    options: Sequence[ServingOption],
    among: str,
) -> Iterator[str]:
    for place in dict.fromkeys(option.place for option, _ in chosen.values()):
        option = next(each for each, _ in chosen.values() if each.place == place)
        loads = [load for each, load in chosen.values() if each.place == place]
        stated = [(load, stated_gain(load, timed[load.clients])) for load in loads]
        yield _leader(option, stated, words, options, among)


def _leader(
    option: ServingOption,
    stated: Sequence[tuple[ServedLoad, Estimate | None]],
    words: BenchWords,
    options: Sequence[ServingOption],
    among: str,
) -> str:
    loads = [load for load, _ in stated]
    clients = f"With {_clients(loads)}"
    rates = listed([_rate(load) for load in loads])
    if option.reference:
        return (
            f"{clients} no option{among} is faster than the reference, {words.title(option)}: "
            f"{rates} requests/s."
        )
    reference = next((words.title(each) for each in options if each.reference), "the reference")
    gains = listed([gain_words(gain) for _, gain in stated if gain])
    known = [(load, gain) for load, gain in stated if gain and gain.value is not None]
    unshown = [load for load, gain in known if (gain.low or 0.0) <= 0]
    those = f" of those{among}" if among else ""
    doubt, leads = "", f"{words.title(option)} is the fastest{those}:"
    if len(unshown) == len(loads):
        leads = (
            f"this sample does not show that any option{among} is faster than the reference; the "
            f"greatest throughput{those} is that of {words.title(option)}:"
        )
    elif unshown:
        doubt = f"; with {_clients(unshown)} this sample does not show that it is faster"
    return (
        f"{clients} {leads} {rates} requests/s, {gains} over "
        f"{reference}{doubt}.{_rivals(option, loads, words, options)} {_drift(option, words)}."
    )


def _clients(loads: Sequence[ServedLoad]) -> str:
    """``1, 5 and 10 clients``."""
    *others, last = loads
    return listed([*(str(each.clients) for each in others), clients_words(last.clients)])


def _rivals(
    option: ServingOption,
    loads: Sequence[ServedLoad],
    words: BenchWords,
    options: Sequence[ServingOption],
) -> str:
    """Name the options that the sample cannot tell from the fastest one."""
    clients = {load.clients for load in loads}
    names = [
        words.title(each)
        for each in options
        if any(
            load.clients in clients
            and load.frontier is not None
            and load.frontier.standing == "not separable"
            and load.frontier.by == str(option.place)
            for load in each.loads
        )
    ]
    return f" This sample does not separate it from {listed(names)}." if names else ""


def _rate(load: ServedLoad) -> str:
    value = DASH if load.throughput.value is None else three_digits(load.throughput.value)
    return f"{value} ({CONTENDED})" if load.contended else value


def _drift(option: ServingOption, words: BenchWords) -> str:
    """Say how far an option's answers drift, on how many images."""
    drift = option.drift
    if drift is None:
        return "Its drift is not known"
    change = words.task.estimated(drift.metric, drift.change, unit=True)
    images = count(drift.images, "image")
    churn = drift.churn
    if churn.value == 0 and churn.high is not None:
        return (
            f"It changed no answer on {images}, which shows a churn of at most "
            f"{percent(churn.high, 2)}; {words.task.phrase(drift.metric)} {change}"
        )
    return (
        f"It changes {churn_words(option)} of the answers on {images} (churn); "
        f"{words.task.phrase(drift.metric)} {change}"
    )
