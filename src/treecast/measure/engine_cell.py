"""One engine of ours or of the papers, measured in this process.

The documents are divided: some to learn from, the rest unseen. The phases, in order, each as often as the budget
allows: build; the first document of an index that has learnt nothing; the unseen documents after the others; the same
again, now warm; reading alone. lxml parses the same documents in turn with these phases, so other work on the machine
disturbs both equally. A native stopwatch measures reading and matching; the rest of the call is emitting.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from treecast import _native
from treecast.document import Limits
from treecast.errors import QueryError
from treecast.index import Index
from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.seconds import ZERO, Seconds, clock, median, private_bytes

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_DOCUMENTS_MAX = 100
PASS_SECONDS_MIN = 0.02  # per warm pass: a shorter one would measure the call rather than the documents
SPLIT_SECONDS, SPLIT_PASSES_MIN = 0.2, 3  # per pass that splits the time, and the minimum number of passes
PAIRS_MAX = 5_000_000
# The share of the budget at which each phase begins, which ends the phase before it.
FIRST_UNTIL, LEARN_UNTIL, UNSEEN_UNTIL, WARM_UNTIL, SPLIT_UNTIL = 0.15, 0.3, 0.6, 0.8, 0.95


class RefusedQueriesError(Exception):
    """The engine does not support these rows; none was added."""

    def __init__(self, rows: list[int], first: str) -> None:
        super().__init__(first)
        self.rows = rows
        self.first = first


def measure_engine(
    engine: str, inputs: Inputs, effort: Effort, refused: Sequence[int] = (), why: str = ""
) -> tuple[Cell, Answers]:
    """The figures and the answers. Raises RefusedQueriesError if the engine refuses a query that is not in `refused`.
    What was built until then would count as memory, so the caller starts again, in another process if it can."""
    refused_numbers = set(refused)
    numbers = [number for number in range(len(inputs.queries)) if number not in refused_numbers]
    facts: dict[str, Any] = {
        "engine": engine,
        "queries": len(inputs.queries),
        "refused": len(refused_numbers),
        "sampled": len(numbers),
        "document_bytes": inputs.document_bytes,
        "notes": (why,) if why else (),
    }
    if not numbers:
        return Cell(**facts, failure=f"it takes none of the queries: {why}"), Answers.of([], documents=0, queries=[])
    table = _table(inputs.queries, numbers)
    Index(namespaces=inputs.namespaces).match_many(
        inputs.documents[:1]
    )  # costs that only the first call of a process has
    stopwatch = _Stopwatch(effort)
    memory = private_bytes()
    index = Index(engine=engine, namespaces=inputs.namespaces)
    facts["build"] = clock(lambda: _add(index, table))
    facts["memory_bytes"] = max(0, private_bytes() - memory)
    facts["index_bytes"] = index.stats().bytes
    stopwatch.restart()
    learning_documents, unseen = effort.divide(inputs.documents)
    facts.update(_phases(index, learning_documents, unseen, effort, stopwatch), offered=len(unseen))
    answers = _answers(index, unseen, numbers, effort, facts["unseen"].wall)
    facts["cache_bytes"] = index.stats().cache_bytes
    return Cell(**facts), answers


def _table(queries: Sequence[str], numbers: Sequence[int]) -> pa.Table:
    """A table for Index.add_many; the id of a query is its number."""
    import pyarrow as pa

    ids = pa.array(numbers, pa.int64()).cast(pa.string())
    return pa.table({"id": ids, "query": pa.array([queries[number] for number in numbers], pa.string())})


def _add(index: Index, table: pa.Table) -> None:
    try:
        index.add_many(table)
    except QueryError:
        refusals = Index(engine=index.engine, namespaces=index._namespaces).add_many(table, on_refused="report")
        rows = [int(table.column("id")[row].as_py()) for row in refusals.column("row").to_pylist()]
        first = str(refusals.column("message")[0].as_py()).splitlines()[0]
        raise RefusedQueriesError(rows, first) from None


class _Stopwatch:
    """The share of the budget that is used up."""

    def __init__(self, effort: Effort) -> None:
        self._budget = effort.budget_seconds
        self.restart()

    def restart(self) -> None:
        self._begin = time.perf_counter()

    def before(self, share: float) -> bool:
        return time.perf_counter() - self._begin < share * self._budget


def _phases(
    index: Index, learning_documents: list[bytes], unseen: list[bytes], effort: Effort, stopwatch: _Stopwatch
) -> dict[str, Any]:
    match = partial(_clock_match, index)
    one = (learning_documents or unseen)[:1]
    firsts = [match(one)]
    while len(firsts) < effort.passes and stopwatch.before(FIRST_UNTIL):
        index.drop_caches()
        firsts.append(match(one))
    per_batch = max(1, min(BATCH_DOCUMENTS_MAX, int(0.02 * effort.budget_seconds / max(firsts[-1].wall, 1e-9))))
    if not index.stats().cache_bytes:
        learning_documents = []  # it learns nothing from documents, so spend the time on unseen ones
    learning_documents, _ = _in_time(match, learning_documents, per_batch, lambda: stopwatch.before(LEARN_UNTIL))
    unseen, seconds = _in_time(match, unseen, per_batch, lambda: stopwatch.before(UNSEEN_UNTIL))
    parse_lxml = _lxml_parse(unseen)
    passes, lxml = [seconds], [clock(parse_lxml)] if parse_lxml else []
    while len(passes) < effort.passes and stopwatch.before(UNSEEN_UNTIL / 2):
        index.drop_caches()
        match(learning_documents)
        passes.append(sum(map(match, _batches(unseen, per_batch)), ZERO))
        lxml += [clock(parse_lxml)] if parse_lxml else []
    count = len(unseen)
    return {
        "documents": count,
        "first": median(firsts),
        "unseen": median(passes) / count,
        "lxml_parse": median(lxml) / count if lxml else ZERO,
        **_warm(index, unseen, effort, stopwatch),
    }


def _warm(index: Index, documents_seen: list[bytes], effort: Effort, stopwatch: _Stopwatch) -> dict[str, Any]:
    """The cost of documents seen before, and how it divides."""
    matches = index.match_many(documents_seen, threads=1).num_rows
    pass_seconds = clock(lambda: index.match_many(documents_seen, threads=1)).wall
    fitting = PAIRS_MAX // max(1, matches)
    repeats = max(1, min(int(PASS_SECONDS_MIN / max(pass_seconds, 1e-9)), fitting))
    documents = documents_seen * repeats
    warm: list[Seconds] = []
    while len(warm) < effort.passes and (not warm or stopwatch.before(WARM_UNTIL)):
        warm.append(_clock_match(index, documents))
    limits = Limits().native()
    parse: list[Seconds] = []
    inside: list[float] = []
    few = documents[: max(1, int(SPLIT_SECONDS / max(warm[0].wall, 1e-9) * len(documents)))]
    while len(inside) < effort.passes and (len(inside) < SPLIT_PASSES_MIN or stopwatch.before(SPLIT_UNTIL)):
        parse.append(clock(lambda: _native.read_many(documents, limits)))
        inside.append(_inside(index, few))
    count = len(documents)
    whole = median(warm) / count
    return {
        "matches": matches / len(documents_seen),
        "warm": whole,
        **_divide(whole, median(parse) / count, statistics.median(inside)),
    }


def _clock_match(index: Index, documents: list[bytes]) -> Seconds:
    return clock(lambda: index.match_many(documents, threads=1))


def _batches(documents: list[bytes], size: int) -> list[list[bytes]]:
    return [documents[begin : begin + size] for begin in range(0, len(documents), size)]


def _in_time(
    match: Callable[[list[bytes]], Seconds], documents: list[bytes], per_batch: int, go_on: Callable[[], bool]
) -> tuple[list[bytes], Seconds]:
    """Match batch by batch until the time is up, at least one: the number of documents, and the time."""
    documents_done, seconds = 0, ZERO
    for batch in _batches(documents, per_batch):
        if documents_done and not go_on():
            break
        seconds += match(batch)
        documents_done += len(batch)
    return documents[:documents_done], seconds


def _lxml_parse(documents: list[bytes]) -> Callable[[], None] | None:
    """lxml's time to parse the documents, dropping the trees; None if it is not installed or refuses a document."""
    try:
        from lxml import etree
    except ImportError:
        return None

    def parse_all() -> None:
        parse = etree.fromstring
        for document in documents:
            parse(document)

    try:
        parse_all()
    except etree.XMLSyntaxError:
        return None
    return parse_all


def _inside(index: Index, documents: list[bytes]) -> float:
    """The share of match_many's time from the bytes of documents to the numbers of subscriptions."""
    import pyarrow as pa

    begin = time.perf_counter()
    # What Index.match_many calls, with the native stopwatch on.
    stream = index._native.match_many(documents, 1, False, 0, 0, True)
    pa.RecordBatchReader.from_stream(stream).read_all()
    total = time.perf_counter() - begin
    nanoseconds = sum(memoryview(stream.nanoseconds).cast("q"))
    return min(1.0, nanoseconds / 1e9 / total)


def _divide(warm: Seconds, parse: Seconds, inside: float) -> dict[str, Seconds]:
    """The three parts of `warm`. Reading is measured separately; if noise makes it longer, it is all of it."""
    parse = Seconds(min(parse.wall, warm.wall * inside), min(parse.cpu, warm.cpu * inside))
    return {"parse": parse, "match": warm * inside - parse, "emit": warm * (1 - inside)}


def _answers(
    index: Index, documents: Sequence[bytes], numbers: Sequence[int], effort: Effort, seconds_each: float
) -> Answers:
    """The answers for the documents to compare, as many as a tenth of the budget allows, at least one."""
    count = max(1, min(effort.compared, len(documents), int(0.1 * effort.budget_seconds / max(seconds_each, 1e-9))))
    matches = index.match_many(documents[:1], threads=1)
    count = max(1, min(count, PAIRS_MAX // max(1, matches.num_rows)))
    return Answers.of_table(index.match_many(documents[:count], threads=1), count, numbers)
