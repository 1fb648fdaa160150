r"""Costs of each swap of a stack or runtime for a model: the table of docs/atlas.md.

    alignkit run experiments/templates/atlas.yaml --set data.root=PATH \
        --cell '*/torch/fp32' --cell '*/lite0-eval/*'
    python benchmarks/atlas.py reports/atlas/RUN > docs/atlas.md

Predictions of the same weights are compared, so a swap needs no training.
"""

import sys
from pathlib import Path

from alignkit.compare.statistics import rule_of_three
from alignkit.record.document import read_record
from alignkit.text.names import Names
from alignkit.text.numbers import estimated, plain

MOST = 20
PAGE = """\
# What do I lose if I swap X for Y?

{answer} The same weights predicted each time.

{table}

Most churn first{left}. *Churn*: share of images whose predicted class changes. *Δ top-1*:
change of accuracy. \\*: significant after Holm's correction for the number of swaps. The 95 %
intervals cover other images; where no image changes, up to {unseen} % of others may. A surrogate
stands in for a GPU stack that did not run here; a simulated runtime was not compared with hardware.

**Limits.** {question} {images} photographs, {processor}, {day}. Another model, input size or
kind of photograph has other numbers: measure yours with
[its experiment](../experiments/templates/atlas.yaml) and `python benchmarks/atlas.py RUN_DIR`.
"""


def main(folder: Path) -> None:
    record = read_record(folder)
    own = next(each for each in record.matrix if each.aligned and each.ran)
    swaps = [
        each
        for each in record.matrix
        if each.row == own.row and each.ran and each.drift
        and (each.column.runtime == own.column.runtime)
        != (each.evaluated_with == own.evaluated_with)
    ]  # fmt: skip
    swaps.sort(key=lambda each: (-each.drift.churn.value, str(each.column)))
    lines = [line(record, own, each) for each in swaps[:MOST]]
    heads = (
        f"| Instead of {own.evaluated_with} | Churn, % | Δ top-1, pp | State | "
        "Stages that change pixels |"
    )
    left = swaps[MOST:]
    most = max((each.drift.churn.value for each in left), default=0)
    print(
        PAGE.format(
            answer=answer(swaps, own),
            table="\n".join([heads, "| --- | ---: | ---: | --- | --- |", *lines]),
            left=f"; {len(left)} of at most {plain(100 * most, 2)} % are left out" if left else "",
            unseen=plain(100 * min(1.0, rule_of_three(own_images(swaps))), 2),
            question=record.question.partition("? ")[2] or record.question,
            images=own_images(swaps),
            processor=record.environment.cpu,
            day=record.started.partition("T")[0],
        ),
        end="",
    )


def answer(swaps, own):
    """Say what the worst swap of a stack and of a runtime cost."""
    said = []
    for what, same in (("stack", False), ("runtime", True)):
        found = [each for each in swaps if (each.evaluated_with == own.evaluated_with) == same]
        if found:
            drift = found[0].drift
            name = found[0].column.runtime if same else found[0].evaluated_with
            said.append(
                f"Another {what} changes up to {plain(100 * drift.churn.value, 2)} % of "
                f"predictions and top-1 by {estimated(drift.metrics['top1'])} points ({name})."
            )
    return " ".join(said)


def own_images(swaps):
    return max(each.drift.n // max(len(each.seeds), 1) for each in swaps)


def line(record, own, entry):
    drift, other = entry.drift, entry.evaluated_with != own.evaluated_with
    state = "simulated" if entry.simulation else entry.state
    if other and Names(record.paths).of(entry.evaluated_with).note:
        state = "surrogate"
    churn = estimated(drift.churn, 2, share=True).replace("\N{NO-BREAK SPACE}%", "")
    star = " \\*" if drift.is_significant("top1") else ""
    stages = [
        each.stage
        for each in record.pixels
        if (each.reference, each.candidate) == (own.evaluated_with, entry.evaluated_with)
        and each.mode == "isolated"
        and each.differs
    ]
    causes = ", ".join(stages) or "none"
    name = entry.evaluated_with if other else entry.column.runtime
    top1 = estimated(drift.metrics["top1"]) + star
    return f"| {name} | {churn} | {top1} | {state} | {causes} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
