"""Source files, parsed once for all tests that look at the whole package."""

import ast
from functools import cache


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)
