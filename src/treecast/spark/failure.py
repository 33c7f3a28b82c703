"""What went wrong in Spark, in one sentence: for people who did not ask for two screens of JVM stack.

    raise to_pipeline_error(error, log="spark.log")

`to_pipeline_error` turns whatever a job raised into an error of ours; `write_stack` puts the stack into a log file.
The text that is looked at is that of the error and of its causes, as Spark's own first line often says nothing.

Codes: TC736 no space is left, TC737 Spark refused or failed, TC738 workers or executors died, TC739 Spark is gone.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from treecast.errors import PipelineError, TreecastError

SENTENCE_CHARS_MAX = 300
CAUSES_MAX = 8
_OWN_ERROR = re.compile(r"\b(TC[1-7]\d\d) ([^\n]+)(?:\n\s*hint: ([^\n]+))?")
_NO_CALL_BACK = re.compile(r"Python worker failed to connect back")
_TRIES = re.compile(r"Task \d+ in stage [\d.]+ failed (\d+) times")
_STOPPED = re.compile(r"Cannot call methods on a stopped SparkContext")
_WORKER_DEATH = re.compile(r"Python worker (exited|process)|ExecutorLostFailure|Remote RPC client disassociated")
_FULL = re.compile(r"No space left on device|Disk quota exceeded|There is not enough space on the disk")
_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError|OOMKilled|Container killed")
_DISCONNECTIONS = ("Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "EOFError", "BrokenPipeError")
_CLASS = re.compile(r"^(?:[\w$]+\.)+([\w$]*(?:Exception|Error)): ?")


def to_pipeline_error(error: BaseException, log: str | Path | None = None) -> TreecastError:
    """The one sentence. An error of ours stays what it is, also when it comes from a worker as text."""
    if isinstance(error, TreecastError):
        return error
    text = _text_of(error)
    see = "" if log is None else f"see {log}"
    own_error = _OWN_ERROR.search(text)
    if own_error:
        return PipelineError(own_error[2].strip(), code=own_error[1], hint=own_error[3] or "")
    if _FULL.search(text):
        message = "no space is left for the results, or for the files that Spark works with"
        hint = "free some space, or set spark.local.dir in [spark] to a larger disk"
        return PipelineError(message, code="TC736", hint="; ".join(filter(None, (hint, see))))
    if type(error).__name__ in _DISCONNECTIONS:
        return PipelineError("Spark ended unexpectedly", code="TC739", hint=see or "see Spark's log")
    if _MEMORY.search(text):
        hint = "raise spark.driver.memory or spark.executor.memory in [spark]"
        return PipelineError("Spark ran out of memory", code="TC738", hint="; ".join(filter(None, (hint, see))))
    if _NO_CALL_BACK.search(text):
        message = "a Python worker was started, and did not call Spark back"
        hint = "PYSPARK_PYTHON must name a Python that runs on each machine; a machine under load needs more time"
        return PipelineError(message, code="TC738", hint="; ".join(filter(None, (hint, see))))
    if _WORKER_DEATH.search(text):
        tries = _TRIES.search(text)
        message = f"a worker died, in each of {tries[1]} tries" if tries and tries[1] != "1" else "a worker died"
        hint = "it was killed, or ran out of memory"
        return PipelineError(message, code="TC738", hint="; ".join(filter(None, (hint, see))))
    if _STOPPED.search(text):
        hint = "see whether the master can be reached"
        return PipelineError("Spark stopped by itself", code="TC739", hint="; ".join(filter(None, (hint, see))))
    return PipelineError(f"Spark failed: {_sentence(text)}", code="TC737", hint=see)


def write_stack(error: BaseException, log: Path) -> None:
    """Append the whole story to the log; a log that cannot be written does not hide the error itself."""
    try:
        with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(traceback.format_exception(error)))
    except OSError:
        return


def _text_of(error: BaseException) -> str:
    """What the error says, and its causes in Java: Spark shows them only if it is set to print stacks."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < CAUSES_MAX:
        text = str(cause)
        texts.append(text if not texts or "Caused by: " in text else f"Caused by: {text}")
        cause = getattr(cause, "_cause", None)
    return "\n".join(texts)


def _sentence(text: str) -> str:
    """The line that says most: the last cause if there is one, without class names and condition tags."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling ") and lines[1].startswith(": "):
        lines = [lines[1].removeprefix(": "), *lines[2:]]  # Py4J says where first, and then what
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    sentence = causes[-1] if causes else lines[0] if lines else "for no reason that it gave"
    while _CLASS.match(sentence):
        sentence = _CLASS.sub("", sentence)
    sentence = re.sub(r"\s*SQLSTATE: \w+$", "", re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", sentence)).rstrip(".:")
    return sentence[:SENTENCE_CHARS_MAX] + ("…" if len(sentence) > SENTENCE_CHARS_MAX else "")
