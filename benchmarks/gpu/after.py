"""Tables of what came back from the machine with the GPU.

    python after.py RESULTS… [--out build/gpukit/results]

RESULTS are the folders where manifest.json and the .tar.xz of each call lie. Everything is unpacked into --out, and
report.md there holds the tables. Needs NumPy; alignkit only for the commands that it names at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

ALIKE = 2.0
"""Ratio of two mean drifts that are called of one size."""
REACHED = 1e-4
"""Share of wrong samples, each by one level, up to which a rule held."""


def expected_rule(way: str) -> str:
    """Rule that an H100 followed on 27 November 2026: nvImageCodec's hybrid backend leaves out the engine."""
    fancy = "fancy" in way or way == "nvimgcodec-default"
    return ("13 cores" if "hybrid" in way and way.startswith("nvimgcodec") else "13 engine") + (
        " interpolate" if fancy else ""
    )


PUBLISHED = {1: 28.57, 5: 16.30, 10: 17.71}
"""torchpipe's gain of GPU decode over CPU decode, %, ResNet-50 on an RTX 3080 Ti."""


def table(rows: list[list[Any]], head: list[str]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return (
        "\n".join(
            lines
            + [
                "| "
                + " | ".join(" ".join(str(each).replace("|", "¦").split()) for each in row)
                + " |"
                for row in rows
            ]
        )
        + "\n"
    )


def loaded(file: Path) -> Any:
    return json.loads(file.read_text()) if file.exists() else {}


def kind_of(name: str) -> str:
    """Kind of a probe by its name: subsampling and coding; other sources by folder."""
    source, _, rest = name.partition("/")
    if source != "probes":
        return source
    parts = rest.split("-")
    return f"{parts[0]} {parts[1]}" if not parts[1].startswith("size") else f"{parts[0]} baseline"


def unpack(results: list[Path], out: Path) -> list[dict]:
    manifests = []
    for number, folder in enumerate(results):
        for archive in sorted(folder.rglob("*.tar.xz")):
            with tarfile.open(archive) as tar:
                tar.extractall(out / str(number), filter="data")
        for manifest in folder.rglob("manifest.json"):
            manifests.append(loaded(manifest))
    return manifests


def parts(manifests: list[dict]) -> str:
    rows = [
        [p["part"], p.get("rc"), p.get("seconds", ""), p.get("limit", "")]
        for m in manifests
        for p in m.get("parts", [])
    ]
    steps = [
        [name, step, one["error"] or ""]
        for m in manifests
        for name, found in m.get("steps", {}).items()
        for step, one in found.items()
        if not one.get("ok")
    ]
    commands = [
        [c["name"], c["exit"], c["seconds"], " / ".join(c["last"])[-160:].replace("|", "¦")]
        for m in manifests
        for c in m.get("mission", [])
    ]
    text = "## What ran\n\n" + table(rows, ["part", "exit", "s", "limit"])
    if steps:
        text += "\nSteps that failed:\n\n" + table(steps, ["part", "step", "error"])
    return text + (
        "\nalignkit's commands:\n\n" + table(commands, ["command", "exit", "s", "last lines"])
        if commands
        else ""
    )


def machine(manifests: list[dict]) -> str:
    for each in manifests:
        if torch := (each.get("environment") or {}).get("torch"):
            nvjpeg = each["environment"].get("nvjpeg")
            return f"## Machine\n\n{torch.get('name')}, driver {str(each['environment'].get('machine', {}).get('driver_file')).splitlines()[0][:90]}, torch {torch.get('torch')}, torchvision {torch.get('torchvision')}, cuDNN {torch.get('cudnn')}\n\nnvJPEG: {json.dumps(nvjpeg)}\n"
    return "## Machine\n\nunknown\n"


def decoding(out: Path) -> tuple[str, dict[str, bool]]:
    """Wrong samples of each rule, by way and kind; the nearest rule of each."""
    sums: dict = defaultdict(lambda: defaultdict(lambda: [0, 0, 0.0, 0]))
    refused: dict = defaultdict(Counter)
    unequal: Counter = Counter()
    for file in sorted(out.glob("*/nvjpeg/table.json")):
        for way, found in loaded(file).items():
            for name, row in found.items():
                for rule, gap in row.items():
                    if isinstance(gap, dict) and "wrong" in gap:
                        cell = sums[way, kind_of(name)][rule]
                        cell[0] += gap["wrong"]
                        cell[1] += gap["samples"]
                        cell[2] = max(cell[2], gap["max"])
                        cell[3] += 1
        for way, facts in loaded(file.with_name("ways.json")).get("ways", {}).items():
            if "failed" in facts:
                refused[way][facts["failed"][:90]] += 1
            for name, fact in facts.get("files", {}).items():
                if "error" in fact:
                    refused[way][f"{kind_of(name)}: {fact['error'][:70]}"] += 1
                unequal[way] += "second time" in fact
    rows, held = [], {}
    for (way, kind), rules in sorted(sums.items()):
        if way.startswith("cpu-"):
            continue
        most = max(cell[3] for cell in rules.values())
        # a rule that decoded fewer files is not nearer
        order = sorted(
            (rule for rule in rules if rules[rule][3] == most),
            key=lambda rule: rules[rule][0] / max(1, rules[rule][1]),
        )
        best, expected = order[0], expected_rule(way)
        cells = rules.get(expected)
        wrong = f"{expected}: " + (
            f"{cells[0]} of {cells[1]}, max {cells[2]:g}" if cells else "decoded none"
        )
        alike = [rule for rule in order[1:] if rules[rule][:2] == rules[best][:2]]
        rows.append(
            [
                way,
                kind,
                most,
                wrong,
                best + (f" (+{len(alike)})" if alike else ""),
                f"{rules[best][0]} of {rules[best][1]}, max {rules[best][2]:g}",
            ]
        )
        if cells and kind in (
            "420 baseline",
            "444 baseline",
            "422 baseline",
            "440 baseline",
            "411 baseline",
            "grey baseline",
            "420 progressive",
            "444 progressive",
        ):
            held[f"{way}: {kind}"] = cells[0] <= REACHED * cells[1] and cells[2] <= 1
    text = "## nvJPEG: wrong samples by way and kind\n\n*expected rule*: what an H100 followed on 27 November 2026; *nearest* is the best of all rules and CPU libraries.\n\n"
    text += table(rows, ["way", "kind", "files", "expected rule", "nearest", "its wrong samples"])
    text += (
        "\nNot equal the second time: "
        + (", ".join(f"{way} {n}" for way, n in unequal.items() if n) or "none")
        + "\n\nRefused:\n\n"
    )
    text += table(
        [[way, words, n] for way, found in refused.items() for words, n in found.most_common(8)],
        ["way", "reason", "files"],
    )
    equal = {
        key: value
        for file in out.glob("*/nvjpeg/ways.json")
        for key, value in loaded(file).get("equal", {}).items()
    }
    text += "\nEqual files of each pair of ways:\n\n" + table(
        [[pair, *counts] for pair, counts in equal.items()], ["ways", "equal", "both decoded"]
    )
    return text, held


def numbers(out: Path) -> tuple[str, bool]:
    rows = []
    for file in sorted(out.glob("*/numerics/torch.json")):
        for model, found in loaded(file).items():
            for name, gap in found["distances"].items():
                rows.append(
                    [
                        model,
                        f"torch {name}",
                        f"{gap['mean']:.3g}",
                        f"{gap['max']:.3g}",
                        f"{gap['changed']} of {gap['images']}",
                    ]
                )
            rows += [
                [model, f"torch {name}", fact, "", ""]
                for name, fact in found["facts"].items()
                if isinstance(fact, str)
            ]
    for file in sorted(out.glob("*/numerics/steps.json")):
        found = loaded(file).get("onnxruntime", {}).get("result") or {}
        for model, one in found.items():
            if isinstance(one, dict) and "distances" in one:
                rows += [
                    [
                        model,
                        f"ORT {name}",
                        f"{gap['mean']:.3g}",
                        f"{gap['max']:.3g}",
                        f"{gap['changed']} of {gap['images']}",
                    ]
                    for name, gap in one["distances"].items()
                ]
                rows += [
                    [model, f"ORT {name}", fact, "", ""]
                    for name, fact in one["facts"].items()
                    if fact != "ok"
                ]
    for file in sorted(out.glob("*/numerics/steps.json")):
        for name, found in (loaded(file).get("race", {}).get("result") or {}).items():
            rows.append(
                [
                    "resnet18",
                    f"race: {name}",
                    "",
                    f"{found['greatest']:.3g}",
                    f"{found['wrong by more than 1e-3']} of {found['batches']} batches wrong; {found['decoded meanwhile']} decoded",
                ]
            )
        for name, found in (loaded(file).get("batch", {}).get("result") or {}).items():
            rows.append(
                [
                    name,
                    "alone against in a batch of 16",
                    "",
                    f"{found:.3g}" if isinstance(found, float) else found,
                    "",
                ]
            )
        for name, found in (loaded(file).get("products", {}).get("result") or {}).items():
            rows.append(["exact products", name, "", "", found])
    text = "## Arithmetic: distance of the logits from fp32 on the CPU\n\n" + table(
        rows, ["model", "arithmetic", "mean", "max", "predictions changed"]
    )
    return text, bool(rows)


def middle(found: list, place: int, scale: float = 1.0, unit: str = "") -> str:
    values = [value(each[place]) for each in found if value(each[place]) is not None]
    return f"{scale * float(np.mean(values)):.3g}{unit}" if values else ""


def value(given: Any) -> float | None:
    """A number, or the number of an estimate with its interval."""
    given = given.get("value", given.get("share")) if isinstance(given, dict) else given
    return float(given) if isinstance(given, int | float) else None


def simulated(rows: dict) -> str:
    """Does a real precision drift as much as the simulation said? Mean |Δlogit| of the same cells."""
    lines = []
    for (trained, served, backend, precision), found in rows.items():
        if not backend.startswith("torch device=cuda"):
            continue
        for other, theirs in rows.items():
            if (
                other[:2] == (trained, served)
                and other[3] == precision
                and other[2].startswith("simulated")
            ):
                real, said = middle(found, 2), middle(theirs, 2)
                if real and said and float(said):
                    ratio = float(real) / float(said)
                    lines.append(
                        [
                            trained,
                            served,
                            backend,
                            precision,
                            real,
                            said,
                            f"{ratio:.2f}",
                            "held" if 1 / ALIKE <= ratio <= ALIKE else "REFUTED",
                        ]
                    )
    return (
        table(
            lines,
            [
                "trained with",
                "served with",
                "real",
                "precision",
                "real mean |Δlogit|",
                "simulated",
                "ratio",
                "within a factor of two",
            ],
        )
        if lines
        else ""
    )


def mission(out: Path) -> tuple[str, list[Path]]:
    """alignkit's cells: real and simulated precisions side by side, and churn of each path."""
    text, records = "## The mission: alignkit's own records\n\n", []
    for file in sorted(out.glob("*/mission/runs/*/record.json")):
        record = loaded(file)
        records.append(file)
        states = Counter(cell.get("state") for cell in record.get("cells", []))
        text += f"`{file.parent.name}`: cells {dict(states)}\n\n"
        rows: dict = defaultdict(list)
        reasons: Counter = Counter()
        for cell in record.get("cells", []):
            if cell.get("reason"):
                reasons[cell["reason"][:110]] += 1
            drift, numeric = cell.get("drift") or {}, cell.get("numeric") or {}
            place = (
                cell["trained_with"],
                cell["evaluated_with"],
                cell["backend"],
                cell["precision"],
            )
            if cell.get("metrics"):
                recall = (drift.get("metrics") or {}).get("recall.macro", {}).get("value")
                rows[place].append(
                    (
                        drift.get("churn"),
                        recall,
                        (numeric.get("logits") or {}).get("mean_abs"),
                        numeric.get("flips"),
                        cell["n"],
                    )
                )
        if rows:
            head = [
                "trained with",
                "served with",
                "backend",
                "precision",
                "seeds",
                "churn",
                "Δ macro recall, pp",
                "mean |Δlogit| from the reference runtime",
                "flips by the runtime alone",
            ]
            text += table(
                [
                    [
                        *place,
                        len(found),
                        middle(found, 0, 100, " %"),
                        middle(found, 1, 100),
                        middle(found, 2),
                        f"{sum(each[3] or 0 for each in found)} of {sum(each[4] for each in found)}",
                    ]
                    for place, found in rows.items()
                ],
                head,
            )
            text += "\n" + simulated(rows)
        text += (
            "\n" + table([[n, words] for words, n in reasons.most_common(12)], ["cells", "reason"])
            if reasons
            else ""
        ) + "\n"
    return text, records


def resizing(out: Path) -> str:
    rows = []
    for file in sorted(out.glob("*/resize/steps.json")):
        for step, one in loaded(file).items():
            for name, gap in (one.get("result") or {}).items():
                for label, row in (
                    gap.items()
                    if isinstance(gap, dict)
                    and any(isinstance(v, dict) and "max" in v for v in gap.values())
                    and "max" not in gap
                    else [("", gap)]
                ):
                    rows.append(
                        [
                            step,
                            f"{name} {label}".strip(),
                            f"{row['max']:.3g}",
                            f"{row['mean']:.3g}",
                            f"{row['wrong']} of {row['samples']}",
                        ]
                        if isinstance(row, dict) and "max" in row
                        else [step, f"{name} {label}", str(row)[:120], "", ""]
                    )
    return "## Resize and normalise: the GPU against the CPU\n\n" + table(
        rows, ["step", "what", "max", "mean", "samples that differ"]
    )


def speed(out: Path) -> tuple[str, bool]:
    text, rows, loop = "## Speed\n\n", [], []
    for file in sorted(out.glob("*/speed*/steps.json")):
        for step, one in loaded(file).items():
            for name, found in (one.get("result") or {}).items():
                if isinstance(found, dict) and "images_per_s" in found:
                    rows.append(
                        [
                            step,
                            name,
                            found["images_per_s"],
                            f"{found.get('slowest_images_per_s', '')} to {found.get('fastest_images_per_s', '')}",
                        ]
                    )
                elif name == "rounds":
                    loop += found
                elif isinstance(found, str):
                    rows.append([step, name, found[:100], ""])
    text += table(rows, ["step", "what", "images/s", "range"])
    groups: dict = defaultdict(lambda: defaultdict(list))
    for each in loop:
        groups[each["cpus"], each["kind"], each["clients"]][each["decode"]].append(each)
    gains = []
    for (cpus, kind, clients), found in groups.items():
        pairs = list(zip(found["cpu"], found["gpu"]))
        gain = [100 * (g["per_s"] / c["per_s"] - 1) for c, g in pairs]
        middle = {name: np.median([e["per_s"] for e in every]) for name, every in found.items()}
        gains.append(
            [
                cpus,
                kind,
                clients,
                f"{middle.get('cpu', 0):.0f}",
                f"{middle.get('gpu', 0):.0f}",
                f"{np.median(gain):+.1f} % ({min(gain):+.1f} to {max(gain):+.1f})",
                f"+{PUBLISHED[clients]} %",
                f"{np.median([e['tp99'] for e in found['cpu']]):.1f}",
                f"{np.median([e['tp99'] for e in found['gpu']]):.1f}",
            ]
        )
    text += (
        "\nClosed loop, ResNet-50, 1080x1080, against torchpipe's published gain (another GPU, other software):\n\n"
        + table(
            gains,
            [
                "CPUs",
                "model in",
                "clients",
                "CPU decode req/s",
                "GPU decode req/s",
                "gain",
                "published",
                "TP99 CPU",
                "TP99 GPU",
            ],
        )
    )
    return text, bool(gains)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/gpukit/results"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    manifests = unpack(given.results, given.out)
    decoded, held = decoding(given.out)
    arithmetic, _any_numbers = numbers(given.out)
    cells, records = mission(given.out)
    times, _any_times = speed(given.out)
    cuda = any(
        (m.get("environment") or {}).get("torch", {}).get("available")
        for m in manifests
        if isinstance((m.get("environment") or {}).get("torch"), dict)
    )
    said = [f"- {'held' if ok else 'REFUTED'}: {name}" for name, ok in sorted(held.items())]
    verdict = "## Rules of nvjpeg-model\n\n" + ("\n".join(said) if said else "not measured") + "\n"
    text = "\n".join(
        [
            f"# Results of a GPU{'' if cuda else ': NONE, no CUDA took part'}\n",
            machine(manifests),
            parts(manifests),
            verdict,
            decoded,
            arithmetic,
            resizing(given.out),
            cells,
            times,
        ]
    )
    (given.out / "report.md").write_text(text)
    print(text)
    print(
        f"\nwritten {given.out / 'report.md'}\nalignkit's own judgement of the same run, where its parts came back:"
    )
    for pairs in given.out.glob("*/mission/pairs.zip"):
        print(
            f"  unzip -d {pairs.parent / 'pairs'} {pairs} && python -m alignkit calibrate --pairs {pairs.parent / 'pairs'}"
        )
    for record in records:
        print(
            f"  python -m alignkit report {record.parent}   (real beside simulated precisions: churn and |Δlogit|)"
        )
    return 0 if cuda else 5


if __name__ == "__main__":
    sys.exit(main())
