"""What is said of an option of a data source that does not exist, or has a wrong value: one sentence and a hint."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from treecast.errors import PipelineError


def unknown_option(key: str, names: Collection[str], reader: str = "") -> PipelineError:
    """`key` is as it was written; `reader` says whose option it would be, if there are several readers.

    >>> print(unknown_option("recrod", ["record", "paths"]).hint)
    did you mean record?
    """
    near = difflib.get_close_matches(key.lower(), names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names))}"
    return PipelineError(f"there is no option {key}{f' for {reader}' if reader else ''}", code="TC711", hint=hint)


def wrong_option(name: str, text: str, reason: object) -> PipelineError:
    """A value that cannot be used."""
    return PipelineError(f"the option {name}={text[:200]!r} is wrong: {reason}", code="TC711")
