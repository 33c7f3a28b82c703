"""The documentation site: every page is in the navigation, links lead somewhere, and nothing is asked of another host.

The site itself is built by `make docs` and looked at in tests/long/test_docs_site_full.py; this needs no generator.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
MADE = {"reference/python.md", "reference/spark.md", "reference/cli.md"}


@pytest.fixture(scope="module")
def docs_pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_pages", ROOT / "tools" / "docs_pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def navigation() -> list[str]:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    return re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", text.partition("\nnav:\n")[2], re.MULTILINE)


def test_every_page_is_in_the_navigation_once(docs_pages: ModuleType) -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    pages |= MADE | {f"project/{name}" for name in docs_pages.ROOT_PAGES}
    assert sorted(navigation()) == sorted(pages)


def test_the_order_is_that_of_a_newcomer() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    parts = re.findall(r"^  - (.*):$", text, re.MULTILINE)
    assert parts == ["First hour", "How-to", "Reference", "Operations", "Papers and experiments"]
    assert navigation()[0] == "guide/index.md"


def test_links_of_every_page_lead_to_a_file(docs_pages: ModuleType) -> None:
    """Files of the repository; that their anchors exist is checked when the site is built."""
    wrong = []
    for page in (*DOCS.rglob("*.md"), *(ROOT / name for name in (*docs_pages.ROOT_PAGES, "README.md"))):
        prose = "".join(docs_pages.FENCE.split(page.read_text("utf-8"))[::2])
        for _, _, target in docs_pages.LINK.findall(re.sub(r"`[^`\n]*`", "", prose)):
            path = target.partition("#")[0]
            if path and not re.match(r"[a-z]+:", path) and not (page.parent / path).exists():
                wrong.append((page.name, target))
    assert wrong == []


def test_links_are_rewritten_for_the_site(docs_pages: ModuleType) -> None:
    rewrite = docs_pages.rewrite_links
    assert rewrite("[a](../papers.md#x)", "docs/guide/dht.md") == "[a](../papers.md#x)"
    assert rewrite("[a](docs/guide/cli.md)", "CONTRIBUTING.md") == "[a](../guide/cli.md)"
    assert rewrite("[a](../../CHANGELOG.md)", "docs/guide/cli.md") == "[a](../project/CHANGELOG.md)"
    assert rewrite("[a](../../README.md)", "docs/guide/cli.md") == "[a](index.md)"
    assert rewrite("see [`a.py`](../../tools/lock.py) now", "docs/guide/cli.md") == "see `a.py` now"
    assert rewrite("[a](https://www.w3.org/x)", "docs/guide/cli.md") == "[a](https://www.w3.org/x)"
    assert rewrite("```\n[a](nowhere.md)\n```", "docs/guide/cli.md") == "```\n[a](nowhere.md)\n```"


def spark_names() -> list[str]:
    """`treecast.spark.__all__`, read without Spark."""
    module = ast.parse((ROOT / "src" / "treecast" / "spark" / "__init__.py").read_text("utf-8"))
    value = next(s.value for s in module.body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "__all__")
    names: list[str] = ast.literal_eval(value)
    return names


def test_reference_has_every_public_name_and_verb(docs_pages: ModuleType) -> None:
    import treecast
    from treecast.cli.entry import build_parser

    pages = docs_pages.made_pages()
    assert all(f"\n::: treecast.{name}\n" in pages["reference/python.md"] for name in treecast.__all__)
    assert all(f"\n::: treecast.spark.{name}\n" in pages["reference/spark.md"] for name in spark_names())
    verbs = docs_pages.verbs_of(build_parser())
    assert {"match", "explain", "run", "up"} <= set(verbs)
    assert all(f"\n## {verb}\n" in pages["reference/cli.md"] for verb in verbs)


def test_nothing_is_asked_of_another_host() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert "font: false" in text and "://" not in text
