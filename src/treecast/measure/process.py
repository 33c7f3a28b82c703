"""Runs each cell in its own process, so that memory figures are right and a crash or a hang is only a row.

The other process maps the inputs from Arrow files and returns the figures as JSON, the answers as an Arrow file. `cell`
does everything for one engine. `run` is for many cells over the same inputs, which are then written once.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from treecast import durable
from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.engine_cell import RefusedQueriesError, measure_engine
from treecast.measure.peers import PEERS

QUERIES_FILE, DOCUMENTS_FILE, TASK_FILE = "queries.arrow", "documents.arrow", "task.json"
FIGURES_FILE, ANSWERS_FILE, OUTPUT_FILE = "figures.json", "answers.arrow", "output.txt"


def cell(
    engine: str,
    queries: Sequence[str],
    documents: Sequence[bytes],
    *,
    namespaces: Mapping[str, str] | None = None,
    effort: Effort | None = None,
    isolated: bool = True,
) -> Cell:
    """Measure one engine. Queries that it refuses are left out and counted. `isolated=False` measures in this process,
    which starts faster; memory figures then mean little, and a crash ends this process."""
    inputs, effort = Inputs(queries, documents, namespaces or {}), effort or Effort()
    if not isolated:
        return _here(engine, inputs, effort)[0]
    with inputs_directory(inputs) as directory:
        return run(engine, directory, effort)[0]


@contextlib.contextmanager
def inputs_directory(inputs: Inputs) -> Iterator[Path]:
    """A temporary directory with the inputs."""
    with tempfile.TemporaryDirectory(prefix="treecast-measure-") as name:
        write_inputs(inputs, Path(name))
        yield Path(name)


def run(engine: str, directory: Path, effort: Effort, *, queries: int | None = None) -> tuple[Cell, Answers | None]:
    """One engine or peer on the first `queries` of the inputs in `directory`, in its own process. A failure of
    any kind gives a cell with the reason, without answers."""
    task: dict[str, Any] = {"engine": engine, "queries": queries, "effort": asdict(effort), "refused": [], "why": ""}
    reply = _start(task, directory, effort)
    if "refused" in reply:
        # Finding the refused queries made that process larger: start again without them.
        reply = _start({**task, "refused": reply["refused"], "why": reply["why"]}, directory, effort)
    if "failure" in reply:
        count = queries if queries is not None else len(read_inputs(directory).queries)
        return Cell(engine, count, failure=reply["failure"], broken=reply["broken"]), None
    answers = directory / ANSWERS_FILE
    return Cell.from_json(reply["cell"]), Answers.read(answers) if answers.exists() else None


def _start(task: dict[str, Any], directory: Path, effort: Effort) -> dict[str, Any]:
    for name in (FIGURES_FILE, ANSWERS_FILE):
        (directory / name).unlink(missing_ok=True)
    (directory / TASK_FILE).write_text(json.dumps(task), encoding="utf-8")
    with (directory / OUTPUT_FILE).open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "treecast.measure", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # so that its children can be ended with it
        )
        try:
            status = child.wait(effort.stop_seconds)
        except subprocess.TimeoutExpired:
            failure = f"stopped after {effort.stop_seconds:,.0f} s, with a budget of {effort.budget_seconds:g} s"
            return {"failure": failure, "broken": False}
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    figures = directory / FIGURES_FILE
    if status == 0 and figures.exists():
        return dict(json.loads(figures.read_text(encoding="utf-8")))
    lines = (directory / OUTPUT_FILE).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = f": {lines[-1][:200]}" if lines else ""
    if status < 0:
        return {"failure": f"its process was ended by {signal.Signals(-status).name}{last}", "broken": True}
    return {"failure": f"its process ended with status {status}{last}", "broken": True}


def serve(directory: Path) -> None:
    """What the other process does: `python -m treecast.measure DIRECTORY`."""
    task = json.loads((directory / TASK_FILE).read_text(encoding="utf-8"))
    inputs, effort = read_inputs(directory, task["queries"]), Effort(**task["effort"])
    reply: dict[str, Any]
    try:
        figures, answers = _measure(task, inputs, effort)
        answers.write(directory / ANSWERS_FILE)
        reply = {"cell": figures.as_json()}
    except RefusedQueriesError as refusal:
        reply = {"refused": refusal.rows, "why": refusal.first}
    durable.write(directory / FIGURES_FILE, json.dumps(reply).encode())


def _measure(task: Mapping[str, Any], inputs: Inputs, effort: Effort) -> tuple[Cell, Answers]:
    if task["engine"] in PEERS:
        return PEERS[task["engine"]].measure(inputs, effort)
    return measure_engine(task["engine"], inputs, effort, task["refused"], task["why"])


def _here(engine: str, inputs: Inputs, effort: Effort) -> tuple[Cell, Answers]:
    try:
        return measure_engine(engine, inputs, effort)
    except RefusedQueriesError as refusal:
        return measure_engine(engine, inputs, effort, refusal.rows, refusal.first)


# The inputs on disk.


def write_inputs(inputs: Inputs, directory: Path) -> None:
    import pyarrow as pa
    import pyarrow.feather as feather

    queries = pa.table({"query": pa.array(inputs.queries, pa.string())})
    queries = queries.replace_schema_metadata({"namespaces": json.dumps(dict(inputs.namespaces))})
    feather.write_feather(queries, directory / QUERIES_FILE, compression="uncompressed")
    documents = pa.table({"document": pa.array(inputs.documents, pa.large_binary())})
    feather.write_feather(documents, directory / DOCUMENTS_FILE, compression="uncompressed")


def read_inputs(directory: Path, queries: int | None = None) -> Inputs:
    import pyarrow.feather as feather

    table = feather.read_table(directory / QUERIES_FILE, memory_map=True)
    namespaces = json.loads(table.schema.metadata[b"namespaces"])
    documents = feather.read_table(directory / DOCUMENTS_FILE, memory_map=True).column("document").to_pylist()
    texts = table.column("query").slice(0, queries).to_pylist()
    return Inputs(texts, documents, namespaces)
