"""The directory that a job writes to: what may be in it before, and how results replace it.

    check_output(pipeline)                       # raises where results would overwrite other files
    with replacing_directory("results/matches") as target:
        rows.write.mode(target.mode).parquet(target.path)

Codes: TC736 an output directory that holds something else.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from treecast.errors import PipelineError
from treecast.spark.job.pipeline import Pipeline, Sinks
from treecast.spark.stream.batches import is_elsewhere

RUN_FILE = "run.json"  # marks a directory as ours, and holds the job's result


def checkpoint_path(pipeline: Pipeline) -> Path:
    """Where a stream keeps what it needs to go on after a restart."""
    return Path(pipeline.sinks.output, "checkpoint")


def check_output(pipeline: Pipeline) -> None:
    """Raise PipelineError where results would overwrite other files. Creates nothing."""
    output = Path(pipeline.sinks.output)
    if output.exists() and not output.is_dir():
        raise PipelineError(f"{output} is not a directory", code="TC736", hint="name another output directory")
    if output.is_dir() and any(output.iterdir()) and not (output / RUN_FILE).exists():
        hint = "name another output directory, or empty it"
        raise PipelineError(f"{output} holds something that is not of treecast", code="TC736", hint=hint)
    goes_on = checkpoint_path(pipeline).exists()
    if goes_on and not pipeline.source.stream:
        hint = "name another output directory, or remove it first"
        raise PipelineError(f"{output} holds the results of a stream", code="TC736", hint=hint)
    if pipeline.sinks.matches is not None and not is_elsewhere(pipeline.sinks.matches):
        place = Path(pipeline.sinks.matches.removeprefix("file://"))
        _check_holds_nothing_of_the_job(place, pipeline)
        if not goes_on:
            _check_free(place, pipeline.sinks)


def _check_holds_nothing_of_the_job(place: Path, pipeline: Pipeline) -> None:
    paths = [pipeline.sinks.output, *pipeline.source.path, *pipeline.subscriptions.path]
    for path in [Path(path).resolve() for path in paths if not is_elsewhere(path)]:
        if path.is_relative_to(place.resolve()):
            hint = "name a separate directory: its contents are replaced"
            raise PipelineError(f"sinks.matches: {place} holds {path}", code="TC736", hint=hint)


def _check_free(place: Path, sinks: Sinks) -> None:
    if not sinks.overwrite and place.exists() and (not place.is_dir() or any(place.iterdir())):
        hint = "name another directory, or set sinks.overwrite = true"
        raise PipelineError(f"sinks.matches: {place} is there already", code="TC736", hint=hint)


@dataclass(frozen=True)
class Target:
    """Where Spark writes, and what it does with existing files."""

    path: str
    mode: str


@contextmanager
def replacing_directory(path: str, *, overwrite: bool = False) -> Iterator[Target]:
    """A directory for Spark to fill. On this machine it is renamed into place when all is done, and an exception
    leaves the old one; elsewhere it is written directly."""
    if is_elsewhere(path):
        yield Target(path, "overwrite" if overwrite else "errorifexists")
        return
    place = Path(path.removeprefix("file://"))
    new, old = (place.with_name(f".{place.name}.{suffix}") for suffix in ("new", "old"))
    try:
        yield Target(str(new.absolute()), "overwrite")
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    new.rename(place)
    shutil.rmtree(old, ignore_errors=True)
