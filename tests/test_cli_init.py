"""`treecast init`: a pipeline for what lies in a directory, which a dry run then finds in order."""

from __future__ import annotations

import gzip
import tomllib
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from treecast.cli import main
from treecast.spark import session

pytestmark = pytest.mark.house


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(session, "check", lambda: None)  # whether Spark can run here is another matter
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def made(*arguments: str) -> dict[str, Any]:
    assert main(["init", "--quiet", *arguments]) == 0
    return tomllib.loads(Path("data/pipeline.toml").read_text())


def test_what_it_writes_is_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    write("data/docs/a.xml", "<news/>")
    write("data/docs/deep/b.xml", "<news/>")
    write("data/subs/s.csv", "id,query\nall,/news\n")
    write("data/prices.csv", "day,price\n1,2\n")  # no subscriptions
    write("data/notes.txt", "Dear all,\n")
    write("data/.hidden/c.xml", "<x/>")
    assert main(["init", "data"]) == 0
    said = capsys.readouterr().err
    assert "data/pipeline.toml: 2 files of documents: <news>" in said
    assert "next: treecast run data/pipeline.toml --dry-run" in said
    content = tomllib.loads(Path("data/pipeline.toml").read_text())
    assert content == {
        "name": "data",
        "source": {"path": "docs"},
        "subscriptions": {"path": "subs/s.csv"},
        "sinks": {"output": "results"},
        "limits": {},
        "spark": {},
    }
    assert main(["run", "data/pipeline.toml", "--dry-run"]) == 0
    assert "data: 1 subscriptions; everything is in order" in capsys.readouterr().out


def test_every_line_that_is_commented_out_is_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    write("data/a.xml", "<news/>")
    write("data/s.txt", "/news\n//item\n")
    made("data")
    lines = [line.removeprefix("# ") for line in Path("data/pipeline.toml").read_text().splitlines()[1:]]
    Path("data/pipeline.toml").write_text("\n".join(lines))
    main(["run", "data/pipeline.toml", "--dry-run"])
    assert "TC731" not in capsys.readouterr().err


def test_it_looks_into_documents() -> None:
    write("data/a.xml", '<?xml version="1.0"?>\n<feed xmlns="urn:feed"><entry>&uuml;</entry></feed>')
    write("data/list.xml.gz", "")
    write("data/dump/list.xml", f"<dblp>{'<article><title/></article>' * 200}</dblp>")
    with zipfile.ZipFile("data/old.zip", "w") as archive:
        archive.writestr("x.xml", "<x/>")
    content = made("data")
    assert content["source"] == {"path": ["*.xml", "*.xml.gz", "dump", "old.zip"], "entities": "html"}
    assert content["subscriptions"] == {"path": "subscriptions.csv", "namespaces": {"d": "urn:feed"}}
    assert '# record = "article"' in Path("data/pipeline.toml").read_text()


def test_documents_of_several_namespaces_get_queries_that_match(capsys: pytest.CaptureFixture[str]) -> None:
    for number, uri in enumerate(["urn:one", "urn:one", "urn:one", "urn:two", "urn:three"]):
        write(f"data/{number}.xml", f'<Document xmlns="{uri}" xmlns:x="urn:x"><x:Id/></Document>')
    write("data/other.xml", "<report/>")
    assert main(["init", "data"]) == 0
    said = capsys.readouterr().err.splitlines()
    content = tomllib.loads(Path("data/pipeline.toml").read_text())
    bindings = content["subscriptions"]["namespaces"]
    assert bindings == {"x": "urn:x", "d": "urn:one", "d2": "urn:three", "d3": "urn:two"}
    assert "6 files of documents: <Document>, <report>, 4 namespaces" in said[0]
    rows = [line.strip() for line in said[said.index("  id,query") : said.index("  report,/report") + 1]]
    assert rows == [
        "id,query",
        "Document,/*[local-name()='Document']",
        "Document-d,/d:Document",
        "Document-d3,/d3:Document",
        "report,/report",
    ]
    counts = {"Document": 5, "Document-d": 3, "Document-d3": 1, "report": 1}
    assert [f"{id} matches {count} of the 6 documents looked into" for id, count in counts.items()] == said[-5:-1]
    write("data/subscriptions.csv", "\n".join(rows))
    assert main(["match", "-s", "data/subscriptions.csv", "data", "--pattern", "*.xml", *bound(bindings)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert Counter(line.split("\t")[1] for line in lines) == counts


def bound(bindings: dict[str, str]) -> list[str]:
    return [word for prefix, uri in bindings.items() for word in ("--namespace", f"{prefix}={uri}")]


@pytest.mark.parametrize("name", ["list.xml", "list.xml.gz", "list.zip"])
def test_large_lists_of_records_are_recognised_compressed_or_not(name: str) -> None:
    article = f"<article><title>{'x' * 2000}</title></article>"
    text = f'<?xml version="1.0"?>\n<!-- <old> -->\n<d:dblp xmlns:d="urn:d" a="&lt;>">{article * 4000}</d:dblp>'
    Path("data").mkdir()
    place = Path("data", name)
    if name.endswith(".zip"):
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("list.xml", text)
    else:
        place.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    content = made("data")
    assert '# record = "article"' in Path("data/pipeline.toml").read_text()
    assert content["subscriptions"]["namespaces"] == {"d": "urn:d"}
    assert "#   /d:dblp  1\n" in Path("data/pipeline.toml").read_text()


def test_results_of_earlier_runs_are_no_documents() -> None:
    write("data/docs/a.xml", "<a/>")
    write("data/results/run.json", "{}")
    write("data/results/by-subscription/q/1.xml", "<a/>")
    assert made("data")["source"] == {"path": "docs"}


def test_without_subscriptions_it_says_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    write("data/a.xml", "<news/>")
    assert main(["init", "data"]) == 0
    assert "write subscriptions.csv, for example\n  id,query\n  news,/news" in capsys.readouterr().err


def test_nothing_is_overwritten_unless_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    write("data/a.xml", "<a/>")
    write("data/pipeline.toml", "mine")
    assert main(["init", "data"]) == 1
    assert "TC790 data/pipeline.toml: it is there already; --force replaces it" in capsys.readouterr().err
    assert Path("data/pipeline.toml").read_text() == "mine"
    assert made("--force", "data")["source"] == {"path": "*.xml"}
    assert main(["init", "-o", "-", "data"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["name"] == "data"
    assert main(["init", "--quiet", "-o", "job.toml", "data"]) == 0
    assert tomllib.loads(Path("job.toml").read_text())["source"] == {"path": "data/*.xml"}


def test_a_directory_without_documents(capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    for name, expected in (
        ("empty", "TC710 there is no document in empty"),
        ("absent", "TC710 absent is not a directory"),
    ):
        assert main(["init", name]) == 1
        assert expected in capsys.readouterr().err
