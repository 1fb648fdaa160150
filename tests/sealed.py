"""Stored documents, changed and sealed again, as somebody who means harm would do it."""

import json

from alignkit.stored_file import sealed


def rewrite(path, change):
    """``change`` alters the parsed document in place; its seal holds afterwards."""
    stored = json.loads(path.read_text())
    stored.pop("sha256")
    change(stored)
    path.write_text(sealed(json.dumps(stored)))
