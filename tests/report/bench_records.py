"""A bench made by hand: twelve options of one model, each standing, busy rounds, failures."""

from alignkit.record import Artifact, Environment, Estimate
from alignkit.record.bench_facts import (
    BenchRecord,
    FrontierPlace,
    ServedDrift,
    ServedLoad,
    ServedRound,
    ServingOption,
)
from alignkit.record.path_facts import PathFacts, StageFacts

ROUNDS = tuple(
    ServedRound(requests=84, seconds=0.9, tp50_ms=7.5, cpu_seconds=1.7) for _ in range(12)
)
OPTIONS = (
    # path, runtime, requests/s, churn and its interval, standing, by, shown
    ("opencv", "torch", "fp32", 120, None, "dominated", "opencv/onnxruntime/fp32", ("speed",)),
    ("opencv", "onnxruntime", "fp32", 182, (0, 0, 0.00369), "frontier", "", ()),
    ("opencv", "onnxruntime", "int8", 301, (0.031, 0.021, 0.043), "frontier", "", ()),
    ("opencv", "openvino", "fp32", 176, (0, 0, 0.00369), "not separable", "opencv/onnxruntime/fp32", ()),
    ("opencv", "openvino", "bf16", 244, (0.006, 0.002, 0.012), "frontier", "", ()),
    ("opencv", "openvino", "int8", 272, (0.036, 0.025, 0.049), "dominated",
     "opencv/onnxruntime/int8", ("speed",)),
    ("pillow", "torch", "fp32", 88, (0.019, 0.011, 0.028), "dominated",
     "opencv/openvino/bf16", ("speed",)),
    ("pillow", "onnxruntime", "fp32", 133, (0.019, 0.011, 0.028), "dominated",
     "opencv/openvino/bf16", ("speed",)),
    ("pillow", "onnxruntime", "int8", 190, (0.052, 0.039, 0.067), "dominated",
     "opencv/onnxruntime/int8", ("speed", "drift")),
    ("torchpipe", "onnxruntime", "fp32", 229, (0.117, 0.098, 0.138), "dominated",
     "opencv/onnxruntime/int8", ("speed", "drift")),
    ("torchpipe", "onnxruntime", "int8", 366, (0.182, 0.158, 0.206), "frontier", "", ()),
    ("torchpipe", "openvino", "bf16", 358, (0.121, 0.1, 0.144), "frontier", "", ()),
)  # fmt: skip
PRICES = {
    "opencv/openvino/bf16": ("opencv/onnxruntime/fp32", (0.568, 0.25, 2.1)),
    "opencv/onnxruntime/int8": ("opencv/openvino/bf16", (0.093, 0.05, 0.27)),
    "torchpipe/openvino/bf16": ("opencv/onnxruntime/int8", (0.021, 0.012, 0.041)),
    "torchpipe/onnxruntime/int8": ("torchpipe/openvino/bf16", (0.0037, None, None)),
}
BUSY = {("pillow/torch/fp32", 5): "other programs took 9.3 % of the CPU time"}
ENVIRONMENT = Environment(
    python="3.11.7", platform="Linux", cpu="A processor", cores=2, gpu="none",
    versions={"numpy": "2.4.6"}, codecs={"opencv": "libjpeg-turbo 3.1"}, flags={"threads": "2"},
    git="", extensions="AVX2, AVX-512, VNNI",
)  # fmt: skip


def around(value, share=0.03):
    return Estimate(value, value * (1 - share), value * (1 + 1.5 * share))


def served_load(clients, speed, path, number, place=None, contended="", reference=None):
    speed *= {1: 0.62, 5: 1.0, 10: 1.04}[clients]
    mean = 1000 * clients / speed
    run = min(0.45 * mean, 3.8)
    decode, resize = {"opencv": (1.5, 0.5), "pillow": (2.9, 1.6), "torchpipe": (1.1, 0.3)}[path]
    stages = {"decode": decode, "resize": resize, "run": run}
    stages["wait"] = max(0.0, mean - sum(stages.values()))
    gain = None if reference is None else around(speed / reference - 1, 0.1 if number % 3 else 0.6)
    return ServedLoad(
        clients=clients, requests=1008, throughput=around(speed), mean_ms=mean,
        tp50_ms=around(0.93 * mean), tp90_ms=around(1.3 * mean), tp99_ms=around(1.9 * mean, 0.1),
        stages_ms=stages, cpu_ms=0.4 * mean, gain=gain, contended=contended, rounds=ROUNDS,
        frontier=place,
    )  # fmt: skip


def rich_bench(row="opencv", clients=(1, 5, 10)):
    options = []
    for number, (path, backend, precision, speed, churn, standing, by, shown) in enumerate(OPTIONS):
        name = f"{path}/{backend}/{precision}"
        since, price = PRICES.get(name, ("", None))
        place = FrontierPlace(
            standing=standing, by=f"{row}/{by}" * bool(by), shown=shown,
            since=f"{row}/{since}" * bool(since),
            price=price and Estimate(
                *price, "" if price[1] else "the sample does not show that the churns differ"
            ),
        )  # fmt: skip
        loads = tuple(
            served_load(
                each, speed, path, number, place, BUSY.get((name, each), ""),
                None if churn is None else OPTIONS[0][3] * {1: 0.62, 5: 1.0, 10: 1.04}[each],
            )
            for each in clients
        )  # fmt: skip
        drift = churn and ServedDrift(
            images=1000, churn=Estimate(*churn), metric="recall.macro",
            change=Estimate(-churn[0] / 3, -churn[1], churn[0] / 9),
        )  # fmt: skip
        options.append(
            ServingOption(
                trained_with=row, evaluated_with=path, backend=backend, precision=precision,
                reference=churn is None, state="measured", drift=drift, loads=loads,
                peak_bytes=480_000_000 + 9_000_000 * number, effective={"threads": "2"},
            )
        )  # fmt: skip
    given = {"trained_with": row, "reference": False}
    options += [
        ServingOption(
            **given, evaluated_with="opencv", backend="tensorrt", precision="fp16", state="skipped",
            reason="no NVIDIA GPU", drift_reason="skipped: no NVIDIA GPU",
        ),
        ServingOption(
            **given, evaluated_with="nvjpeg", backend="onnxruntime", precision="fp32",
            state="skipped", reason="a surrogate's time is not that of the stack that it imitates",
        ),
        ServingOption(
            **given, evaluated_with="pillow", backend="openvino", precision="int8", state="failed",
            reason="round 3: the process ended with signal 9 (killed)",
        ),
    ]  # fmt: skip
    return BenchRecord(
        alignkit="0.1.0", command="alignkit bench experiments/templates/serving.yaml --cpus 2",
        name="serving", key="0123456789abcdef", started="2026-11-23T15:00:00.000+00:00",
        seconds=754.2, environment=ENVIRONMENT,
        paths=(*map(stored_path, ("opencv", "pillow", "torchpipe")), SURROGATE), cpus=(0, 1),
        cpu_quota=2.0, load_before=(0.21, 0.4, 0.35), images=1000, batch=1,
        drift_from="serving/0123456789ab", options=tuple(options),
        requests=Artifact(path="requests.parquet", sha256="0" * 64),
    )  # fmt: skip


def stored_path(name):
    stage = StageFacts(
        stage="resize", label=f"{name} 224x224", options={"size": [224, 224]}, version="4.13"
    )
    return PathFacts(name=name, stages=(stage,))


SURROGATE = stored_path("nvjpeg").model_copy(
    update={"surrogate_of": "nvjpeg", "replaced": ("decode",), "calibration": "not yet calibrated"}
)
