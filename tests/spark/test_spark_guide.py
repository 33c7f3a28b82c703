"""The pages of the guide that use Spark: their code runs, on the session of the tests, and prints what they show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_readme import PAGES, check_page, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("page", [page for page in PAGES if needs_spark(page)], ids=lambda page: page.name)
def test_spark_code_prints_what_the_page_shows(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_page(page, tmp_path, {"spark": spark})
