"""What docs/match.md shows is true."""

import re
from pathlib import Path

from alignkit.experiment import load_experiment
from alignkit.experiment.run_options import AdviseOption

TEXT = (Path(__file__).parents[2] / "docs" / "match.md").read_text()


def test_the_experiment_it_shows_loads_and_the_block_above_can_be_pasted_into_it(tmp_path):
    printed, experiment = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    file = tmp_path / "advise.yaml"
    file.write_text(experiment)
    assert isinstance(load_experiment(file).content.advise, AdviseOption)
    file.write_text(experiment.replace("preprocess:\n", printed.replace("224", "48"), 1))
    assert [each.name for each in load_experiment(file).paths] == ["matched", "opencv", "pillow"]


def test_every_option_it_names_is_one_of_the_command():
    import inspect

    from alignkit.cli.match_command import match

    known = {name.replace("_", "-") for name in inspect.signature(match).parameters}
    known = {name.removeprefix("as-") for name in known}
    named = set(re.findall(r"--([a-z][a-z-]*)", TEXT))
    assert named <= known
