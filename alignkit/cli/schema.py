"""`alignkit schema`."""

from __future__ import annotations

import json


def schema() -> None:
    """Print the JSON Schema of experiment files, for editors.

    Save it (alignkit schema > alignkit.schema.json) and name it in the first line of an experiment:
    # yaml-language-server: $schema=alignkit.schema.json
    """
    from alignkit.experiment import experiment_schema

    print(json.dumps(experiment_schema(), indent=2))
