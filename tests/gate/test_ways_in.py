"""The GitHub action, the GitLab template and the pre-commit hooks, as far as no server is needed."""

import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from alignkit.gate.outputs.machines import step_outputs
from tests.gate_case import make_case

ROOT = Path(__file__).parents[2]
CHROMA = "preprocess.opencv.decode={name: simplejpeg, chroma: nearest}"


@pytest.fixture
def case(tmp_path):
    return make_case(tmp_path)


def shell(script, folder, **variables):
    """Run a script as the CI system would, with this Python first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CI": "true", **variables}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def action():
    return yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture
def run_action(action, case):
    (step,) = [step for step in action["runs"]["steps"] if step.get("id") == "gate"]

    def run(before="", **inputs):
        given = {name: each.get("default", "") for name, each in action["inputs"].items()} | inputs
        values = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: str(given[m[1]]), text)
            for name, text in step["env"].items()
        }
        files = {name: str(case.folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        Path(files["GITHUB_OUTPUT"]).touch()
        done = shell(before + step["run"], case.folder, **values, **files)
        rows = Path(files["GITHUB_OUTPUT"]).read_text().splitlines()
        return done, dict(row.split("=", 1) for row in rows)

    return run


def test_the_action_fails_on_drift_with_every_output_set(run_action, action, case):
    case.write("{preset: strict}")
    done, outputs = run_action(config="gate.yaml", set=CHROMA)
    assert done.returncode == 1, done.stderr
    assert "::error file=gate.yaml,line=9" in done.stdout
    assert set(outputs) == set(action["outputs"])
    assert outputs["exit-code"] == "1"
    reports = case.folder / "alignkit-reports"
    assert json.loads((reports / "results.json").read_text())["exit_code"] == 1
    assert (case.folder / outputs["report-path"]).is_file()


def test_the_switches_of_the_action_reach_the_command(run_action, case):
    """Python is played by a script that prints its arguments."""
    (case.folder / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (case.folder / "python").chmod(0o755)
    given = {"allow-missing": "gpu", "exit-zero": "true", "against": "main run", "report": "none"}
    done, _ = run_action('PATH="$PWD:$PATH"\n', config="gate.yaml", set="a=1\nb=2", **given)
    words = done.stdout.splitlines()
    assert {("--set", "a=1"), ("--set", "b=2"), ("--against", "main run"),
            ("--allow-missing", "gpu")} <= {*pairwise(words)}  # fmt: skip
    assert {"--exit-zero", "--no-html"} <= {*words}


@pytest.mark.parametrize(
    ("requirement", "extras", "installed"),
    [
        ("", "", "/its own/folder"),
        ("", "onnx,train", "/its own/folder[onnx,train]"),
        ("alignkit @ git+URL", "", "alignkit @ git+URL"),
    ],
)
def test_the_action_installs_its_own_folder_or_what_it_is_given(
    action, tmp_path, requirement, extras, installed
):
    """Python is played by a script that prints its last argument."""
    (step,) = [step for step in action["runs"]["steps"] if step.get("id") == "install"]
    assert step["if"] == "inputs.install != 'none'"
    (tmp_path / "python").write_text('#!/bin/sh\nfor last; do :; done\necho "$last"\n')
    (tmp_path / "python").chmod(0o755)
    variables = {"REQUIREMENT": requirement, "EXTRAS": extras}
    assert set(variables) == set(step["env"])
    done = shell(
        f'PATH="$PWD:$PATH"\n{step["run"]}', tmp_path,
        GITHUB_ACTION_PATH="/its own/folder", **variables,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{installed}\n")


def test_the_gitlab_template_says_what_to_set_before_it_installs(tmp_path):
    job = yaml.safe_load((ROOT / "templates" / "gitlab-gate.yml").read_text())[".alignkit-gate"]
    done = shell("\n".join(job["before_script"]), tmp_path, **job["variables"])
    assert done.returncode != 0
    assert "set ALIGNKIT_INSTALL to a folder with alignkit or to git+URL" in done.stderr


def test_nothing_that_is_copied_waits_for_an_owner():
    pages = [ROOT / "README.md", ROOT / "action.yml", *(ROOT / "docs").glob("*.md")]
    for page in [*pages, *(ROOT / "templates").iterdir(), ROOT / ".pre-commit-hooks.yaml"]:
        assert "OWNER" not in page.read_text(), page


GH = """\
#!/usr/bin/env bash
echo "$MARK $*" >> calls
case "$*" in *--jq*) cat known ;; *) cp alignkit-reports/comment.md posted ;; esac
"""


@pytest.mark.parametrize(("known", "call"), [
    ("", "api --silent repos/me/it/issues/7/comments"),
    ("41\n42\n", "api --silent --method PATCH repos/me/it/issues/comments/41"),
])  # fmt: skip
def test_the_action_keeps_one_comment_on_a_pull_request(action, tmp_path, known, call):
    """The command `gh` is played by a script that notes how it was called."""
    (step,) = [step for step in action["runs"]["steps"] if step.get("id") == "comment"]
    assert step["if"].startswith("always() && inputs.comment == 'true'")
    for name, text in (
        ("gh", GH),
        ("known", known),
        ("alignkit-reports/summary.md", "## ❌ red\n"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "gh").chmod(0o755)
    done = shell(
        f'PATH="$PWD:$PATH"\n{step["run"]}', tmp_path,
        GITHUB_REPOSITORY="me/it", PULL_REQUEST="7", MARK="<!-- alignkit gate a.yaml -->",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked, told = (tmp_path / "calls").read_text().splitlines()
    assert "api --paginate repos/me/it/issues/7/comments --jq" in asked
    assert f"{call} --field body=@alignkit-reports/comment.md" in told
    assert (tmp_path / "posted").read_text() == "<!-- alignkit gate a.yaml -->\n## ❌ red\n"


def test_inputs_of_the_action_are_never_run_as_shell(run_action, action, case):
    case.write("{preset: strict}")
    done, _ = run_action(config="gate.yaml", set='name=$(touch "hacked")`touch hacked`')
    assert done.returncode == 2
    assert not (case.folder / "hacked").exists()
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_the_outputs_of_the_action_are_those_the_command_sets(action):
    given = {
        re.fullmatch(r"\$\{\{ steps\.gate\.outputs\.([\w-]+) \}\}", each["value"])[1]
        for each in action["outputs"].values()
    }
    assert given == set(action["outputs"])
    assert all(f'"{name}"' in Path(sys.modules[step_outputs.__module__].__file__).read_text()
               for name in given)  # fmt: skip


def test_the_gitlab_template_writes_the_reports_it_names(case):
    case.write("{preset: strict}")
    job = yaml.safe_load((ROOT / "templates" / "gitlab-gate.yml").read_text())[".alignkit-gate"]
    variables = {**job["variables"], "ALIGNKIT_OPTIONS": "--no-html"}
    done = shell("\n".join(job["script"]), case.folder, **variables)
    assert done.returncode == 0, done.stderr
    reports = job["artifacts"]["reports"]
    assert json.loads((case.folder / reports["codequality"]).read_text()) == []
    assert ET.parse(case.folder / reports["junit"]).getroot()[0].get("failures") == "0"


@pytest.fixture
def shown(tmp_path):
    """What the README and docs/gate.md show for a team's own repository, as its files."""
    for page in (ROOT / "README.md", ROOT / "docs" / "gate.md"):
        for name, text in re.findall(r"```yml\n# (\S+)\n(.*?)```", page.read_text(), re.DOTALL):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("github-actions", ROOT / "action.yml"),
        ("gitlab-ci", ROOT / "templates" / "gitlab-gate.yml"),
        ("github-workflows", ".github/workflows/gate.yml"),
        ("gitlab-ci", ".gitlab-ci.yml"),
    ],
)
def test_what_ci_reads_is_valid_by_its_published_schema(shown, tmp_path, schema, file):
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", file]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def pre_commit(case):
    """Run a hook as `pre-commit` does in a repository that names it.

    The hooks are as published but for their environment: this one in place of one with torch.
    """
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    local = [
        {**hook, "language": "system", "args": ["gate.yaml"] if "gate" in hook["id"] else []}
        for hook in hooks
    ]
    config = {"repos": [{"repo": "local", "hooks": local}]}
    (case.folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    (case.folder / "experiments").mkdir()
    assert shell("git init -q .", case.folder).returncode == 0

    def run(hook, *more):
        script = f"git add . && python -m pre_commit run {hook} {shlex.join(more)}"
        return shell(script, case.folder, PRE_COMMIT_HOME=str(case.folder / "home"))

    return run


def test_pre_commit_refuses_a_mistake_in_a_staged_experiment_and_nothing_else(pre_commit, case):
    file = case.write("{preset: strict}", name="experiments/gate.yaml")
    done = pre_commit("alignkit-check")
    assert (done.returncode, "Passed" in done.stdout) == (0, True), done.stdout
    file.rename(case.folder / "experiments" / "notes.txt")
    assert "(no files to check)" in pre_commit("alignkit-check").stdout
    file.write_text("preset: strikt")
    done = pre_commit("alignkit-check")
    assert done.returncode == 1
    assert "experiments/gate.yaml:1:1" in done.stdout


def test_pre_commit_runs_the_gate_when_it_is_pushed(pre_commit, case):
    file = case.write("{preset: strict}")
    file.write_text(file.read_text().replace("decode: opencv", "decode: opencv, colour: bgr"))
    done = pre_commit("alignkit-gate", "--hook-stage", "pre-push", "--all-files")
    assert done.returncode == 1
    assert "fail  colour.changed" in done.stdout


def test_pre_commit_accepts_the_manifest_and_the_configuration_shown(shown, tmp_path):
    manifest = ROOT / ".pre-commit-hooks.yaml"
    done = shell(f"python -m pre_commit validate-manifest {shlex.quote(str(manifest))}", tmp_path)
    assert done.returncode == 0, done.stdout
    done = shell("python -m pre_commit validate-config .pre-commit-config.yaml", tmp_path)
    assert done.returncode == 0, done.stdout
    config = yaml.safe_load((tmp_path / ".pre-commit-config.yaml").read_text())
    used = {hook["id"] for hook in config["repos"][0]["hooks"]}
    assert used == {hook["id"] for hook in yaml.safe_load(manifest.read_text())}


@pytest.mark.slow
def test_experiments_gate_yaml_is_what_its_comment_says(shared_data, tmp_path):
    file = ROOT / "experiments" / "gate.yaml"
    command = ["alignkit", "gate", str(file), "-q", "--no-html", "--reports", str(tmp_path)]
    command += ["--set", f"data={{name: images, root: {shared_data / 'photos'}}}"]
    for change, code, stage in (
        (None, 0, None), (CHROMA, 1, "decode"),
        ("preprocess.opencv.decode={name: simplejpeg, dct: ifast}", 1, "decode"),
        ("preprocess.opencv.resize.interpolation=area", 1, "resize"),
        ("preprocess.opencv.colour=bgr", 1, "colour"),
    ):  # fmt: skip
        more = ["--set", change] if change else []
        done = shell(shlex.join([*command, *more]), ROOT)
        assert done.returncode == code, done.stdout + done.stderr
        failed = set(re.findall(r"^  fail +(\w+)\.", done.stdout, re.MULTILINE))
        assert failed == ({stage} if stage else set())
