"""treecast.spark.render gives what Index.render gives in one process: in batch, in a stream and over Connect."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import treecast
from treecast import PipelineError
from treecast.model import DeliveryLimits
from treecast.spark import render, split
from treecast.spark.batch import answers
from treecast.spark.batch.answer_form import DELIVERIES, MATCHES, AnswerForm
from treecast.spark.batch.place import NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Found = dict[tuple[str, str], bytes | str]
"""Of each delivery the payload, or the code of what refused it."""

TITLES = """for $i in $msg//item
where $i/@lang = "en"
return <t n="{count($i/p)}">{string($i/title)}</t>"""

# id, query, deliver, namespaces
SUBSCRIPTIONS: list[tuple[str, str, str, dict[str, str]]] = [
    ("everything", "/*", "document", {}),
    ("news", "/news", "document", {}),
    ("items", "//item[title]", "elements", {}),
    ("languages", "//item/@lang | //title/text()", "elements", {}),
    ("spaces", "//x:p", "elements", {"x": "urn:x"}),
    ("titles", TITLES, "document", {}),
    ("titles again", TITLES.replace("$i", "$other"), "document", {}),
    (
        "sorted",
        "<list>{for $i in $msg//item order by $i/title descending return <e>{$i/@n}</e>}</list>",
        "document",
        {},
    ),
    ("pairs", "for $a in $msg//item, $b in $a/p return <pair>{$a/@n, $b}</pair>", "document", {}),
    ("nothing built", "for $i in $msg//item return $i/absent", "document", {}),
    ("refused at times", "for $i in $msg//item return <r>{$i/title}{$i/@lang}</r>", "document", {}),
    ("trimmed", "drop //note, //@lang; rename //item to entry; unwrap //b", "document", {}),
    ("english", 'from //item[@lang="en"] keep //title', "document", {}),
    ("in a namespace", "for $p in $msg//x:p return <y:q xmlns:y='urn:y'>{$p}</y:q>", "document", {"x": "urn:x"}),
    ("never", "for $z in $msg//zebra return $z", "document", {}),
]
LIMITS = DeliveryLimits(payload_bytes_max=2_000)

CONNECT = """
import base64, json, sys
from pyspark.sql import SparkSession
from treecast.spark import render

address, answer, documents, index, *names = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
answers = {}
for name in names:
    rows = render(spark.read.parquet(documents), index, placement=name, shards=3, on_error="report").collect()
    texts = [None if row.payload is None else base64.b64encode(row.payload).decode() for row in rows]
    answers[name] = [
        [row.key, row.subscription, text, row.error and row.error.code] for row, text in zip(rows, texts)
    ]
with open(answer, "w", encoding="utf-8") as file:
    json.dump(answers, file)
spark.stop()
"""


def draw(random: Random) -> bytes:
    """A document with items that have languages, titles, notes and paragraphs, or not."""
    items = []
    for number in range(random.randrange(5)):
        language = random.choice(("", ' lang="en"', ' lang="de"'))
        title = random.choice(("", "<title>A &amp; B</title>", f"<title>{random.choice('xyzü')}</title>"))
        note = random.choice(("", "<note/>", "<!-- note -->"))
        text = "".join(random.choice(("<p>x<b>y</b></p>", "<q:p xmlns:q='urn:x'>z</q:p>", "t")) for _ in range(3))
        items.append(f"<item n='{number}'{language}>{title}{note}{text}</item>")
    root = random.choice(("news", "news", "old"))
    return f"<{root}>{''.join(items)}</{root}>".encode()


class Population:
    """Documents and subscriptions as Parquet, and what the index gives for them in this process."""

    def __init__(self, directory: Path) -> None:
        random = Random(20261115)
        documents: dict[str, bytes | None] = {str(number): draw(random) for number in range(60)}
        documents["latin"] = '<?xml version="1.0" encoding="ISO-8859-1"?><news>ü</news>'.encode("latin-1")
        documents["large"] = b"<news>" + b"<item><p>" + b"x" * 3_000 + b"</p></item></news>"
        self.index = treecast.Index(delivery_limits=LIMITS)
        self.index.add_many(
            treecast.Subscription(id, query, namespaces, False, deliver)  # type: ignore[arg-type]
            for id, query, deliver, namespaces in SUBSCRIPTIONS
        )
        self.expected: Found = {
            (key, delivery.subscription): delivery.refused.code if delivery.refused else delivery.payload
            for key, document in documents.items()
            for delivery in self.index.render(document or b"")
        }
        self.bad = {"broken": "TC209", "null": "TC210"}
        documents |= {"broken": b"<news><item>", "null": None}
        self.documents, self.saved = directory / "documents", directory / "saved.tcx"
        self.index.save(self.saved)
        self.documents.mkdir()
        keys = list(documents)
        for part in range(3):  # several files: several tasks, and several steps of a stream
            rows = keys[part::3]
            columns = {"key": rows, "document": pa.array([documents[key] for key in rows], pa.binary())}
            pq.write_table(pa.table(columns), self.documents / f"{part}.parquet")

    def check(self, rows: list[tuple[str, str | None, bytes | None, str | None]]) -> None:
        """Check that these rows are the deliveries, and each bad document once."""
        assert len(rows) == len(self.expected) + len(self.bad)
        assert {key: code for key, id, _, code in rows if id is None} == self.bad
        assert all((payload is None) == (code is not None) for _, _, payload, code in rows)
        assert {(key, id): code or payload for key, id, payload, code in rows if id is not None} == self.expected


@pytest.fixture(scope="module")
def population(tmp_path_factory: pytest.TempPathFactory) -> Population:
    new_population = Population(tmp_path_factory.mktemp("rendered"))
    codes = {value for value in new_population.expected.values() if isinstance(value, str)}
    assert codes == {"TC119", "TC330"}
    delivered_ids = {id for (_, id), value in new_population.expected.items() if isinstance(value, bytes)}
    assert delivered_ids == {id for id, *_ in SUBSCRIPTIONS} - {"never"}
    return new_population


def rows_of(frame: DataFrame) -> list[tuple[str, str | None, bytes | None, str | None]]:
    rows = frame.select("key", "subscription", "payload", "error").collect()
    return [
        (row.key, row.subscription, None if row.payload is None else bytes(row.payload), row.error and row.error.code)
        for row in rows
    ]


@pytest.mark.parametrize("placement", NAMES)
def test_in_batch(spark: SparkSession, population: Population, placement: str) -> None:
    documents = spark.read.parquet(str(population.documents))
    report = render(documents, population.index, placement=placement, shards=3, on_error="report")
    assert report.columns == ["key", "subscription", "payload", "error"]
    population.check(rows_of(report))


def test_from_a_dataframe_with_payloads_that_come_in_parts(spark: SparkSession, population: Population) -> None:
    schema = "id string, query string, deliver string, namespaces map<string,string>"
    subscriptions = spark.createDataFrame(SUBSCRIPTIONS, schema)
    documents = spark.read.parquet(str(population.documents)).filter("key not in ('broken', 'null')")
    report = render(documents, subscriptions, on_error="report", delivery_limits=LIMITS)
    good, refusals = split(report)
    assert (good.columns, refusals.columns) == (["key", "subscription", "payload"], ["key", "subscription", "error"])
    assert {(row.key, row.subscription): bytes(row.payload) for row in good.collect()} == {
        key: value for key, value in population.expected.items() if isinstance(value, bytes)
    }
    assert {(row.key, row.subscription): row.error.code for row in refusals.collect()} == {
        key: value for key, value in population.expected.items() if isinstance(value, str)
    }


@pytest.mark.parametrize("placement", ["data-sharing", "root-tag"])
def test_in_a_stream(spark: SparkSession, population: Population, tmp_path: Path, placement: str) -> None:
    reader = spark.readStream.schema("key string, document binary").option("maxFilesPerTrigger", 1)
    answer = render(
        reader.parquet(str(population.documents)), population.saved, placement=placement, shards=2, on_error="report"
    )
    assert answer.isStreaming
    writer = answer.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    try:
        query.awaitTermination(300)
        assert query.exception() is None
    finally:
        query.stop()
    population.check(rows_of(spark.read.parquet(str(tmp_path / "out"))))


def test_over_connect(population: Population, connect_address: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    arguments = [connect_address, str(answer), str(population.documents), str(population.saved), "data-sharing", "pep"]
    subprocess.run([sys.executable, "-c", CONNECT, *arguments], check=True, timeout=300, capture_output=True)
    answers = json.loads(answer.read_text("utf-8"))
    assert list(answers) == ["data-sharing", "pep"]
    for rows in answers.values():
        population.check(
            [(key, id, None if text is None else base64.b64decode(text), code) for key, id, text, code in rows]
        )


def test_whatever_is_wrong_fails_the_job(spark: SparkSession) -> None:
    index = treecast.Index(delivery_limits=DeliveryLimits(payload_bytes_max=10))
    index.add_many([("all", "/a"), ("copy", "for $b in $msg//b return <copy>{$b}</copy>")])
    documents = spark.createDataFrame(
        [(1, b"<a/>"), (2, b"<a><b>0123456789</b></a>"), (3, b"<a>")], "n int, document binary"
    )
    assert [
        (row.n, row.subscription, bytes(row.payload)) for row in render(documents.filter("n = 1"), index).collect()
    ] == [(1, "all", b"<a/>")]
    with pytest.raises(Exception, match=r"TC330 .*, for the subscription '\w+'\n.*render\(…, on_error=\"report\"\)"):
        render(documents.filter("n = 2"), index).collect()
    with pytest.raises(Exception, match=r"DocumentError: TC209 .*\n.*render\(…, on_error=\"report\"\)"):
        render(documents.filter("n = 3"), index).collect()


def test_what_is_asked_wrongly_is_said(spark: SparkSession, tmp_path: Path) -> None:
    index = treecast.Index()
    index.add("a", "/a")
    documents = spark.createDataFrame([(b"x", b"<a/>")], "payload binary, document binary")
    with pytest.raises(PipelineError, match="TC703 the documents have a column payload already"):
        render(documents, index)
    with pytest.raises(ValueError, match="on_error must be"):
        render(documents.drop("payload"), index, on_error="skip")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="delivery_limits are settings of the Index"):
        render(documents.drop("payload"), index, delivery_limits=LIMITS)
    large = treecast.Index(delivery_limits=DeliveryLimits(document_payload_bytes_max=1 << 31))
    large.save(tmp_path / "large.tcx")
    for source in (large, tmp_path / "large.tcx"):
        with pytest.raises(PipelineError, match=r"TC718 document_payload_bytes_max is 2,147,483,648"):
            render(documents.drop("payload"), source)


@pytest.mark.parametrize("placement", ["data-sharing", "root-tag"])
def test_the_function_runs_once_a_document_whatever_is_asked(spark: SparkSession, placement: str) -> None:
    index = treecast.Index()
    index.add("a", "/a")
    documents = spark.createDataFrame([(1, b"<a/>")], "n int, document binary")
    report = render(documents, index, placement=placement, shards=2, on_error="report")
    good, bad = split(report)
    plain = render(documents, index, placement=placement, shards=2)
    frames = [plain, plain.filter("subscription = 'a' and n > 0 and length(payload) > 1"), plain.select("payload")]
    for frame in (
        *frames,
        plain.select("n"),
        report,
        good,
        bad,
        good.filter("payload is not null"),
        bad.filter("n = 1"),
    ):
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert plan.count("treecast_match(") == 1, plan
    assert [len(row.payload) for row in frames[1].collect()] == [4]


def test_equal_payloads_of_a_document_cross_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand subscribers of a document get it from one buffer; payloads of a batch come in parts."""
    index = treecast.Index()
    index.add_many([(f"q{number}", "//a") for number in range(1_000)])
    index.add("other", "for $a in $msg//a return <other/>")
    document = b"<a>" + b"x" * 1_000 + b"</a>"
    documents = pa.array([document, None, b"<b/>", b"<a><", document, document])
    monkeypatch.setattr(answers, "PAYLOAD_BYTES_MAX", 2_000_000)
    pieces = list(answers.answer(index, documents, None, DELIVERIES.with_errors()))
    assert [len(piece) for piece in pieces] == [5, 1]
    rows = [row for piece in pieces for row in piece.to_pylist()]
    for row in (rows[0], rows[4], rows[5]):
        assert row["payloads"] == [document, b"<other/>"]
        assert [delivery["number"] for delivery in row["deliveries"]] == [0] * 1_000 + [1]
        assert all(delivery["error"] is None for delivery in row["deliveries"])
    assert [row["payloads"] for row in rows[1:4]] == [[], [], []]
    codes = [[delivery["error"]["code"] for delivery in row["deliveries"]] for row in rows[1:4]]
    assert codes == [["TC210"], [], ["TC209"]]


def test_a_column_payload_of_the_documents_is_no_payload(spark: SparkSession) -> None:
    """`split` distinguishes rows of match and of render."""
    from treecast.spark import match

    index = treecast.Index()
    index.add("a", "/a")
    rows: list[Any] = [("one", "<a/>"), ("two", "<a>")]
    documents = spark.createDataFrame(rows, "payload string, document string")
    _, bad = split(match(documents, index, on_error="report"))
    assert bad.columns == ["payload", "error"]
    assert [row.payload for row in bad.collect()] == ["two"]


FORMS = [form for one in (MATCHES, DELIVERIES) for form in (one, one.with_errors(), one.with_accounts())]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.spark_type)
def test_spark_and_arrow_agree_on_every_form(form: AnswerForm) -> None:
    """A form is written down once; what a worker gives, and what Spark expects of it, are of that type."""
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DataType

    assert to_arrow_type(DataType.fromDDL(form.spark_type)) == form.arrow_type
    index = treecast.Index()
    index.add("a", "/a")
    documents = pa.array([b"<a/>", b"<b/>", *([b"<"] if form.has_errors else [])])
    (answer,) = answers.answer(index, documents, None, form)
    assert answer.type == form.arrow_type
    assert AnswerForm(*form.fields) == form and all(type(field) is bool for field in form.fields)
