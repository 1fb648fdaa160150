"""A verdict with its words, for tests that read both."""

from types import SimpleNamespace

from alignkit.judge import judge
from alignkit.record import Measurements, RunRecord
from alignkit.text.verdict import verdict_words


def judged(gate, record: Measurements, controls=(), **more) -> SimpleNamespace:
    """The fields of the verdict, ``sentence``, ``cause`` and ``actions`` in words."""
    return with_words(judge(gate, record, controls=controls, **more), record)


def with_words(verdict, record: Measurements) -> SimpleNamespace:
    said = verdict_words(verdict, record)
    steps = tuple(
        SimpleNamespace(words=each.words, kind=step.what.kind, **dict(step))
        for each, step in zip(said.steps, verdict.steps, strict=False)
    )
    told = {"sentence": said.sentence, "cause": said.cause, "actions": steps}
    return SimpleNamespace(**{**dict(verdict), **told})


def verdict_of(record: RunRecord) -> SimpleNamespace:
    return with_words(record.verdict, record)
