"""Errors of SQLite in one sentence, for the records that streams keep.

    with translate_sqlite_errors(lambda reason: PipelineError(f"… cannot be kept: {reason}", …), lambda reason: …):
        database.execute(…)

Use it around every call; our own mistakes (a wrong statement, a closed connection) are raised unchanged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from treecast.errors import PipelineError


@contextmanager
def translate_sqlite_errors(
    not_kept: Callable[[object], PipelineError], damaged: Callable[[object], PipelineError]
) -> Iterator[None]:
    """Raise what `not_kept` or `damaged` gives for what SQLite says; our own mistakes are raised unchanged.

    Where bytes of a file have changed, even SQLite's messages may not be text: Python then raises UnicodeDecodeError.
    """
    try:
        yield
    except UnicodeDecodeError:
        raise damaged("it holds bytes that are no text") from None
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.OperationalError as error:
        raise (damaged if "decode" in str(error) else not_kept)(error) from None
    except sqlite3.DatabaseError as error:
        raise damaged(error) from None
