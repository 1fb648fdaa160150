"""Records as a run leaves them, with realistic numbers, made in pure Python so that they are the
same on every machine."""

import math
import random
from collections import Counter
from functools import cache
from itertools import chain, product

import numpy as np

from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.judge import judge
from alignkit.record import (
    AdviceFacts,
    Artifact,
    AttributionFacts,
    Cell,
    ClassCounts,
    ClassDrift,
    Control,
    Coverage,
    DataFacts,
    Drift,
    Environment,
    Epoch,
    Estimate,
    FactorShare,
    FlippedFacts,
    LogitDistance,
    MatrixEntry,
    MitigationFacts,
    NoiseFloor,
    NotDecoded,
    PathFacts,
    PixelStage,
    RunRecord,
    ServedPredictions,
    ShownImage,
    ShownPair,
    StageFacts,
    Subgroup,
    TrainingFacts,
    Verdict,
)

MINUS = "\N{MINUS SIGN}"
CLASSES = tuple(str(digit) for digit in range(10))
PATHS = ("opencv", "torchpipe-gpu", "pillow")
RUNTIMES = (("torch", "fp32"), ("torch", "bf16"), ("onnxruntime", "fp32"), ("onnxruntime", "fp16"))
SEEDS = (0, 1, 2)
N = 1000
SHIFT = {"opencv": (0.0, 0.0), "torchpipe-gpu": (0.5, -0.12), "pillow": (0.3, 0.9)}
RUNTIME_NOISE = {
    "torch fp32": 0.0,
    "torch bf16": 0.05,
    "onnxruntime fp32": 0.0,
    "onnxruntime fp16": 0.012,
}
NO_BF16 = "bfloat16 convolutions are not implemented by this CPU's oneDNN build; use fp32 or fp16"
CRASH = "RuntimeError: [ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned"

YAML = """\
# How much does a model lose if it is served with another preprocessing path than in training?
# Handwritten digits on photographs, generated on this machine; about three minutes on two cores.
name: quickstart
data: {name: digits-on-photos, train: 1200, eval: 1000, seed: 0}
preprocess:                       # two or more; the first is the reference
  opencv: {decode: opencv, resize: {name: opencv, size: 48}}
  torchpipe-gpu: {preset: torchpipe-gpu-surrogate, size: 48}
  pillow: {preset: pillow-train, size: 48}        # antialiased: costs far more than any decoder
train: {model: small-cnn, epochs: 8, seeds: [0, 1, 2]}
evaluate:
  backends: [{name: torch, precision: [fp32, bf16]}, {name: onnxruntime, precision: [fp32, fp16]}]
gate: {informational: true, rules: [{metric: churn, fail: 0.02}, {metric: recall.macro, margin: 0.01}]}
"""


@cache
def predictions(trained, seed, evaluated, runtime):
    """Class of each image: a margin per image, shifted by the distance of the two paths."""
    model = random.Random(f"{trained} {seed}")
    margins = [model.gauss(2.1, 1.1) for _ in range(N)]
    data = random.Random("data")
    first = SHIFT[trained][0] - SHIFT[evaluated][0], SHIFT[trained][1] - SHIFT[evaluated][1]
    noise = random.Random(f"{trained} {seed} {runtime}")
    found = []
    for index in range(N):
        hard = (
            data.gauss(0, 0.4) + first[0] * data.gauss(0.2, 0.9) + first[1] * data.gauss(-0.7, 1.4)
        )
        margin = margins[index] + hard + RUNTIME_NOISE[runtime] * noise.gauss(0, 1)
        found.append(index % 10 if margin > 0 else (index + 1 + index % 3) % 10)
    return tuple(found)


def class_counts(predicted):
    answered = Counter(predicted)
    right = Counter(p for i, p in enumerate(predicted) if p == i % 10)
    return tuple(
        ClassCounts(
            name=name,
            true_positive=right[label],
            false_positive=answered[label] - right[label],
            false_negative=len(predicted) // 10 - right[label],
        )
        for label, name in enumerate(CLASSES)
    )


def class_recall(each):
    return each.true_positive / (each.true_positive + each.false_negative)


def class_precision(each):
    return each.true_positive / (each.true_positive + each.false_positive)


def metrics(counts):
    recall = sum(map(class_recall, counts)) / len(counts)
    precision = sum(map(class_precision, counts)) / len(counts)
    total = sum(each.true_positive for each in counts) / (
        sum(each.true_positive + each.false_negative for each in counts)
    )
    return {
        "top1": total,
        "recall.macro": recall,
        "recall.micro": total,
        "recall.weighted": recall,
        "precision.macro": precision,
        "precision.micro": total,
        "precision.weighted": precision,
    }


def estimate(value, changed, n):
    half = 1.96 * math.sqrt(max(changed / n - value**2, 0) / n)
    return Estimate(value=value, low=value - half, high=value + half)


def mcnemar(lost, gained):
    n, k = lost + gained, min(lost, gained)
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n) if n else None


def drift(reference, candidate, *, distance):
    """Of two lists of predictions of the same images, seed after seed."""
    n = len(reference)
    pairs = [(a, b, i % N % 10) for i, (a, b) in enumerate(zip(reference, candidate, strict=True))]
    lost = sum(a == label != b for a, b, label in pairs)
    gained = sum(b == label != a for a, b, label in pairs)
    moved = sum(a != b for a, b, _ in pairs) - lost - gained
    before, after = class_counts(reference), class_counts(candidate)
    changes = {
        name: estimate(value - metrics(before)[name], lost + gained, n)
        for name, value in metrics(after).items()
    }
    churn = (lost + gained + moved) / n
    half = 1.96 * math.sqrt(churn * (1 - churn) / n)
    classes = tuple(
        ClassDrift(
            name=a.name,
            support=n // 10,
            recall=estimate(class_recall(b) - class_recall(a), (lost + gained) // 10, n // 10),
            precision=estimate(
                class_precision(b) - class_precision(a), (lost + gained) // 10, n // 10
            ),
        )
        for a, b in zip(before, after, strict=True)
    )
    return Drift(
        n=n,
        metrics=changes,
        churn=Estimate(value=churn, low=max(0.0, churn - half), high=churn + half),
        right_to_wrong=lost,
        wrong_to_right=gained,
        wrong_to_wrong=moved,
        mcnemar_p=mcnemar(lost, gained),
        detectable=2.8 * math.sqrt(max(lost + gained, 1)) / n,
        logits=LogitDistance(
            max_abs=9.1 * distance + 1e-5,
            mean_abs=0.8 * distance + 1e-6,
            cosine=1 - 0.02 * distance,
        ),
        classes=classes,
    )


def excuse(trained, evaluated, runtime):
    """State and reason of a cell that did not run; ``None`` for one that did."""
    if runtime == "torch bf16" and trained == "pillow":
        return "skipped", NO_BF16
    if runtime == "onnxruntime fp16" and (trained, evaluated) == ("torchpipe-gpu", "pillow"):
        return "failed", CRASH
    return None


@cache
def cells_and_matrix():
    reached = {
        (t, s, e, f"{b} {p}"): predictions(t, s, e, f"{b} {p}")
        for t, s, e, (b, p) in product(PATHS, SEEDS, PATHS, RUNTIMES)
    }
    cells, matrix = [], []
    for trained, evaluated, (backend, precision) in product(PATHS, PATHS, RUNTIMES):
        runtime = f"{backend} {precision}"
        aligned = trained == evaluated and (backend, precision) == RUNTIMES[0]
        place = {
            "trained_with": trained,
            "evaluated_with": evaluated,
            "backend": backend,
            "precision": precision,
            "aligned": aligned,
        }
        if excused := excuse(trained, evaluated, runtime):
            state, reason = excused
            matrix.append(MatrixEntry(**place, state=state, reason=reason))
            trace = f"Traceback (most recent call last):\n{CRASH}" if state == "failed" else ""
            cells += [
                Cell(
                    **place,
                    seed=s,
                    key=f"{len(cells) + s:064x}",
                    state=state,
                    reason=reason,
                    traceback=trace,
                )
                for s in SEEDS
            ]
            continue
        distance = math.dist(SHIFT[trained], SHIFT[evaluated]) + RUNTIME_NOISE[runtime]
        own = [reached[trained, s, trained, "torch fp32"] for s in SEEDS]
        now = [reached[trained, s, evaluated, runtime] for s in SEEDS]
        for seed, a, b in zip(SEEDS, own, now, strict=True):
            counts = class_counts(b)
            cells.append(
                Cell(
                    **place,
                    seed=seed,
                    key=f"{len(cells):064x}",
                    state="measured",
                    n=N,
                    metrics=metrics(counts),
                    counts=counts,
                    effective={"precision": precision, "tf32": "off", "provider": f"{backend} cpu"},
                    drift=None if aligned else drift(a, b, distance=distance),
                )
            )
        mean = [metrics(class_counts(b)) for b in now]
        matrix.append(
            MatrixEntry(
                **place,
                state="measured",
                seeds=SEEDS,
                metrics={name: sum(m[name] for m in mean) / len(mean) for name in mean[0]},
                drift=None if aligned else drift([*chain(*own)], [*chain(*now)], distance=distance),
            )
        )
    return tuple(cells), tuple(matrix), reached


def noise_floor(cells, reached):
    floors = []
    for path in PATHS:
        own = [c.metrics for c in cells if c.aligned and c.trained_with == path]
        lists = [reached[path, s, path, "torch fp32"] for s in SEEDS]
        pairs = list(zip(lists, lists[1:] + lists[:1], strict=True))
        disagree = [sum(x != y for x, y in zip(a, b, strict=True)) / N for a, b in pairs]
        floors.append(
            NoiseFloor(
                preprocess=path,
                seeds=SEEDS,
                metrics={k: max(m[k] for m in own) - min(m[k] for m in own) for k in own[0]},
                churn=sum(disagree) / len(disagree),
            )
        )
    return tuple(floors)


def stage(name, label, version="", **options):
    return StageFacts(stage=name, label=label, options=options, version=version)


def path_facts():
    tail = (stage("crop", "none"), stage("quantise", "none"), stage("colour", "rgb"),
            stage("normalise", "ImageNet mean and std"))  # fmt: skip
    return (
        PathFacts(
            name="opencv",
            stages=(stage("decode", "opencv", "opencv-python 5.0.0.93, libjpeg-turbo 3.1.2"),
                    stage("orient", "none"),
                    stage("resize", "opencv linear 48x48", "opencv-python 5.0.0.93",
                          interpolation="linear"), *tail),
        ),
        PathFacts(
            name="torchpipe-gpu",
            stages=(stage("decode", "simplejpeg, plain chroma upsampling", "simplejpeg 1.8.2",
                          fastupsample=True),
                    stage("orient", "none"),
                    stage("resize", "torchpipe ResizeTensor 48x48", "torchpipe 0.2.25"), *tail),
            surrogate_of="torchpipe's GPU path (nvJPEG, ResizeTensor)",
            calibration="not yet calibrated",
        ),
        PathFacts(
            name="pillow",
            stages=(stage("decode", "pillow", "pillow 13.0.0"), stage("orient", "none"),
                    stage("resize", "pillow bilinear, antialiased, 48x48", "pillow 13.0.0"), *tail),
        ),
    )  # fmt: skip


ISOLATED = {
    "torchpipe-gpu": {"decode": (38.0, 0.412), "resize": (96.25, 2.871), "quantise": (0.0, 0.0)},
    "pillow": {"decode": (1.0, 0.0003), "resize": (143.0, 6.402), "quantise": (0.0, 0.0)},
}
CUMULATIVE = {
    "torchpipe-gpu": {"decode": (38.0, 0.412), "resize": (97.1, 2.93), "quantise": (97.1, 2.93)},
    "pillow": {"decode": (1.0, 0.0003), "resize": (143.0, 6.403), "quantise": (143.0, 6.403)},
}


def pixel_stages():
    stages = []
    for candidate, mode, name in product(
        ("torchpipe-gpu", "pillow"), ("isolated", "cumulative"),
        ("decode", "orient", "resize", "crop", "quantise", "colour", "normalise"),
    ):  # fmt: skip
        table = ISOLATED if mode == "isolated" else CUMULATIVE
        known = table[candidate]
        later = name in {"crop", "quantise", "colour"} and mode == "cumulative"
        largest, mean = known.get("quantise" if later else name, (0.0, 0.0))
        if name == "orient" and mode == "cumulative":
            largest, mean = known["decode"]
        if name == "normalise" and mode == "cumulative":
            largest, mean = (known["quantise"][0] / 57.4, known["quantise"][1] / 57.4)
        stages.append(_pixel_stage(candidate, mode, name, largest, mean))
    return tuple(stages)


def _pixel_stage(candidate, mode, name, largest, mean):
    same = {"reference": "opencv", "candidate": candidate, "stage": name, "mode": mode, "images": N}
    if name == "crop" and mode == "isolated" and candidate == "pillow":
        return PixelStage(**{**same, "images": 0}, identical=0, reason="neither path crops")
    equal = largest == 0
    return PixelStage(
        **same,
        identical=N if equal else (412 if mean < 0.001 else 0),
        max_abs=largest,
        mean_abs=mean,
        bias=(0.0, 0.0, 0.0) if equal else (mean * 0.05, -mean * 0.021, mean * 0.11),
        share_differing=0.0 if equal else min(0.999, 0.3 + mean / 8),
        share_above={"1": 0.0 if equal else 0.22, "4": 0.0 if equal else 0.07},
        p99=largest / 4,
        psnr=None if equal else 48.2 - 3 * mean,
        ssim=1.0 if equal else 1 - mean / 90,
    )


def coverage():
    bad = NotDecoded(id="eval/0417.jpg", outcome="corrupt", reason="premature end of JPEG data")
    cmyk = NotDecoded(id="eval/0733.jpg", outcome="unsupported", reason="CMYK JPEG")
    rows = []
    for path, split in product(PATHS, ("train", "eval")):
        gpu, size = path == "torchpipe-gpu", 1200 if split == "train" else N + 1
        lost = (split == "eval") + (gpu and split == "eval")
        rows.append(
            Coverage(
                preprocess=path,
                split=split,
                ok=size - lost,
                corrupt=int(split == "eval"),
                failed=0,
                unsupported=int(gpu and split == "eval"),
                examples=((bad, cmyk) if gpu else (bad,)) if split == "eval" else (),
            )
        )
    return tuple(rows)


def trainings():
    found = []
    for path, seed in product(PATHS, SEEDS):
        draw = random.Random(f"log {path} {seed}")
        epochs = tuple(
            Epoch(
                epoch=e + 1,
                loss=2.3 * math.exp(-0.45 * e) + 0.08 + 0.02 * draw.random(),
                accuracy=1 - 0.85 * math.exp(-0.5 * e) - 0.01 * draw.random(),
                learning_rate=0.001 * (1 + math.cos(math.pi * e / 8)),
                images_per_second=900 + 60 * draw.random(),
            )
            for e in range(8)
        )
        found.append(
            TrainingFacts(
                preprocess=path,
                seed=seed,
                key=f"{len(found):064x}",
                state="measured",
                epochs=epochs,
                images=1200,
            )
        )
    return tuple(found)


def picture(seed, soften):
    """A 48 x 48 picture: a bright stroke on a smooth ground."""
    y, x = np.mgrid[0:48, 0:48] / 47.0
    draw = np.random.default_rng(seed)
    u, v, w = draw.uniform(0.5, 3, 3)
    ground = np.stack(
        [90 + 60 * np.sin(u * x + v * y), 100 + 50 * np.cos(v * x), 70 + 50 * np.sin(w * y + x)], -1
    )
    ring = np.exp(-(((np.hypot(x - 0.5, (y - 0.5) * 0.8) - 0.25) * (16 - soften)) ** 2))
    return (ground + ring[..., None] * draw.uniform(60, 120, 3)).clip(0, 255).astype(np.float32)


def shown(folder):
    shown = []
    for candidate, rank in product(("torchpipe-gpu", "pillow"), range(6)):
        soften = (1.2 if candidate == "pillow" else 0.6) * (1 - rank / 9)
        names = {
            "why": "changed" if rank % 3 == 0 else "random" if rank == 5 else "pixels",
            "reference": "opencv",
            "candidate": candidate,
            "id": f"eval/{(rank * 137 + 11) % N:04}.jpg",
            "label": CLASSES[(rank * 7 + 1) % 10],
            "stage": "colour",
            "predictions": (
                ServedPredictions(
                    trained_with="opencv",
                    evaluated_with=candidate,
                    seeds=SEEDS,
                    before=("1", "1", "1"),
                    after=("7", "1", "7"),
                    runtimes=("", "", ""),
                ),
            )
            if rank % 3 == 0
            else (),
        }
        if folder is None:
            made = Artifact(path=f"img/{len(shown):016x}.png", sha256=f"{len(shown):064x}")
            shown.append(
                ShownImage(**names, max_abs=97.5 - 8 * rank, mean_abs=6.25 - rank / 2, amplification=4,
                           a=made, b=made, difference=made)
            )  # fmt: skip
        else:
            from alignkit.record.picture_facts import write_shown

            a = picture(rank, 0).round().astype(np.uint8)
            shown.append(write_shown(folder, a, picture(rank, soften), **names))
    return tuple(shown)


def attributions():
    """The shares of what torchpipe-gpu costs models that opencv trained."""

    def around(value, half):
        return Estimate(value=value, low=value - half, high=value + half)

    def shares(*values, half):
        factors = ("decode", "resize", "precision")
        return tuple(
            FactorShare(factor=factor, effect=around(value, half), alone=around(value * 0.9, half))
            for factor, value in zip(factors, values, strict=True)
        )

    none = Estimate(value=None, low=None, high=None, reason="divided among the shares")
    place = {"reference": "opencv", "candidate": "torchpipe-gpu", "backend": "onnxruntime",
             "precision": "fp16", "method": "shapley", "images": N, "interaction": none}  # fmt: skip
    return (
        AttributionFacts(
            **place,
            metric="recall.macro",
            unit="fraction",
            shares=shares(-0.0031, -0.0312, -0.0004, half=0.004),
            total=around(-0.0347, 0.0073),
        ),
        AttributionFacts(
            **place,
            metric="pixels",
            unit="grey levels",
            shares=shares(0.31, 2.62, 0.0, half=0.05)[:2],
            total=around(2.93, 0.06),
            notes=("crop, quantise and colour are the same on both paths",),
        ),
    )


def flipped():
    """One path that flips 4:2:0 images, and one that flips none."""

    def subgroup(kind, images, churn, elsewhere, p):
        difference = churn - elsewhere
        return Subgroup(
            dimension="subsampling", kind=kind, images=images, churn=churn, elsewhere=elsewhere,
            difference=Estimate(value=difference, low=difference - 0.02, high=difference + 0.02),
            p=p / 2, p_adjusted=p,
        )  # fmt: skip

    place = {"reference": "opencv", "backend": "torch", "precision": "fp32", "images": N}
    kinds = (subgroup("4:2:0", 700, 0.06, 0.01, 0.0004), subgroup("4:2:2", 90, 0.05, 0.045, 1.0))
    return (
        FlippedFacts(
            candidate="torchpipe-gpu", seeds=3, flipped=62, subgroups=kinds, **place
        ),
        FlippedFacts(
            candidate="pillow", seeds=3, flipped=0, reason="no prediction changed", **place
        ),
    )  # fmt: skip


def advice():
    """One advice that kept its promise, and one path without."""

    def estimate(value, width):
        return Estimate(value=value, low=value - width, high=value + width)

    def row(metric, *values):
        before, expected, confirmed = (estimate(value, 0.01) for value in values)
        return MitigationFacts(metric=metric, before=before, expected=expected, confirmed=confirmed)

    kept = AdviceFacts(
        served="pillow",
        change="training",
        advised="advised-pillow",
        label="opencv ▸ opencv interpolation=area",
        yaml="advised-pillow:\n  decode: {name: opencv}\n",
        tried=6,
        images=160,
        unseen_images=40,
        distance=estimate(1.05, 0.1),
        unseen=1.07,
        drift=(
            row("churn", 0.22, 0.12, 0.06),
            row("top1", -0.1, -0.05, -0.01),
            row("recall.macro", -0.1, -0.05, -0.01),
            MitigationFacts(
                metric="precision.macro",
                before=estimate(-0.1, 0.01),
                expected=Estimate(
                    value=None, low=None, high=None, reason="a class is never predicted"
                ),
                confirmed=estimate(0.0, 0.01),
            ),
        ),
        kept=True,
        sentence="Models trained with opencv and served with pillow change 22.0 % of their "
        "predictions; trained with opencv ▸ opencv interpolation=area instead, 6.0 % remains.",
    )
    none = AdviceFacts(served="torchpipe-gpu", change="training", reason="no image has pixels")
    return kept, none


def judged(record):
    """Judge a record by the file's rules, without the cell that crashed."""
    ran = record.model_copy(
        update={
            name: tuple(each for each in getattr(record, name) if each.state != "failed")
            for name in ("cells", "matrix")
        }
    )
    rules = (Rule(metric="churn", fail=0.02), Rule(metric="recall.macro", margin=0.01))
    gate = Gate(informational=True, rules=rules, allow_missing=True)
    verdict = judge(gate, ran, controls=record.controls)
    return record.model_copy(update={"verdict": verdict})


def quickstart(folder=None):
    """The record of three paths, three seeds and four runtimes; pictures in ``folder`` if given."""
    made = _quickstart()
    return made if folder is None else made.model_copy(update={"shown": shown(folder)})


@cache  # nothing in a record can be changed, and to make it takes half a second
def _quickstart():
    cells, matrix, reached = cells_and_matrix()
    record = RunRecord(
        alignkit="0.1.0",
        name="quickstart",
        question=" ".join(line[2:] for line in YAML.splitlines()[:2]),
        key="5e1f" * 16,
        command="alignkit run experiments/quickstart.yaml",
        yaml=YAML,
        overrides=(),
        started="2026-11-20T10:15:00+00:00",
        seconds=184.2,
        partial=False,
        environment=Environment(
            python="3.11.7",
            platform="Linux-6.1-x86_64-with-glibc2.36",
            cpu="Intel(R) Xeon(R) Platinum 8481C",
            cores=2,
            gpu="none",
            versions={"torch": "2.12.1", "torchvision": "0.27.1", "opencv-python": "5.0.0.93",
                      "onnxruntime-gpu": "1.23.0", "numpy": "2.3.4", "pillow": "13.0.0"},
            codecs={"opencv-python": "libjpeg-turbo 3.1.2-70", "pillow": "libjpeg-turbo 3.1.3",
                    "simplejpeg": "libjpeg-turbo 3.1.0"},
            flags={"tf32": "off", "deterministic algorithms": "on", "threads": "2"},
            git="1271a7a0c4-dirty",
        ),
        data=DataFacts(
            name="digits-on-photos",
            options={"train": 1200, "eval": 1000, "seed": 0},
            train=1200,
            eval=N,
            classes=CLASSES,
            fingerprint="ab12" * 16,
            version="1",
            notes=("Embedded: scikit-learn's handwritten digits on its two photographs.",),
        ),
        paths=path_facts(),
        coverage=coverage(),
        trainings=trainings(),
        cells=cells,
        matrix=matrix,
        noise_floor=noise_floor(cells, reached),
        controls=(
            Control(name="A/A", expected="identical paths differ in no value",
                    observed="0 of 1 000 images differ", passed=True),
            Control(name="planted fault: channels swapped", expected="caught at decode, churn above 5 %",
                    observed="decode max 255, churn 61.2 %", passed=True),
        ),
        pixels=pixel_stages(),
        shown=shown(None),
        shown_pairs=tuple(
            ShownPair(reference="opencv", candidate=each, images=N, changed=173, limit=2_000_000)
            for each in ("torchpipe-gpu", "pillow")
        ),
        verdict=Verdict(state="error", informational=True, exit_code=0),
        attributions=attributions(),
        flipped=flipped(),
        advice=advice(),
    )  # fmt: skip
    return judged(record)
