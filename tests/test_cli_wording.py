"""What `treecast` says: flags instead of Python, what a misspelt word may have meant, and why nothing matched."""

from __future__ import annotations

from pathlib import Path

import pytest

from treecast.cli import main


@pytest.fixture
def document(tmp_path: Path) -> str:
    path = tmp_path / "d.xml"
    path.write_text('<feed xmlns="urn:f"><item>&uuml;</item></feed>', "utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mtach"], "treecast: there is no command 'mtach'; did you mean 'match'? see 'treecast --help'"),
        (["match", "-q", "/a", "--fromat", "json", "d"], "unknown option --fromat: did you mean --format? see"),
        (["match", "-q", "/a", "--fromat=json", "d"], "unknown option --fromat: did you mean --format? see"),
        (["match", "-q", "/a", "--zzz", "d"], "treecast match: unknown option --zzz; see 'treecast match --help'"),
        (["explain", "//a", "d.xml"], "treecast explain: unexpected: d.xml; a query follows -q; see 'treecast explain"),
        (["selective", "grnat"], "treecast selective: there is no command 'grnat'; did you mean 'grant'?"),
    ],
)
def test_misspelt_words_are_recognised(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_hints_name_flags(document: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "-q", "//item", document]) == 1
    assert "hint: add --entities html, or write the character itself" in capsys.readouterr().err
    assert main(["match", "-q", "//item", "--entities", "html", "--depth-max", "1", document]) == 1
    assert "hint: raise it with --depth-max N" in capsys.readouterr().err
    assert main(["match", "-q", "//x:item", document]) == 1
    assert "hint: bind it: --namespace x=…" in capsys.readouterr().err


def test_a_namespace_that_kept_all_from_matching_is_named(document: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "-q", "//item", "--entities", "html", document]) == 0
    assert "'//item' would, but for its namespace: add --namespace =urn:f" in capsys.readouterr().err
    assert main(["match", "-q", "//item", "--namespace", "=urn:f", "--entities", "html", document]) == 0
    assert "namespace" not in capsys.readouterr().err
    assert main(["match", "-q", "//other", "--entities", "html", document]) == 0
    assert "namespace" not in capsys.readouterr().err
