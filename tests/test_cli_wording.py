"""What `treecast` says: flags instead of Python, what a misspelt word may have meant, and why nothing matched."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from treecast.cli import main
from treecast.cli.entry import build_parser
from treecast.cli.pipeline_file import WORDS
from treecast.cli.wording import in_words, words_of


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


# --- hints name what the reader can type ------------------------------------------------------------------------------

MESSAGES = sorted((Path(__file__).parent / "errors").glob("*.txt"))
OTHERS = [
    "TC191 s.dat: no column id\n  hint: name the columns, or give its format",
    "TC715 x.gz: it unpacks to too much\n  hint: raise ratio_max if right",
    "TC434 the document names no source\n  hint: send the header Treecast-Source",
    "TC434 no subscription\n  hint: add ?subscription=… 1 to 64 times",
    "TC301 the record is longer than 5 bytes\n  hint: raise record_bytes_max",
]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OF_ANOTHER_VERB = re.compile(r"treecast [a-z]+[^,;]*")
OF_PYTHON = re.compile(r"[A-Z]\w*\(.*…\)|=\{|\braise \w+_max|\bheader\b|\?\w+=")


def verbs() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands, by their words."""
    found: dict[str, argparse.ArgumentParser] = {}
    pending: list[tuple[str, argparse.ArgumentParser]] = [("", build_parser())]
    while pending:
        words, parser = pending.pop()
        below = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        for choices in below:
            pending += [(f"{words} {name}".strip(), each) for name, each in choices.items()]
        if not below:
            found[words] = parser
    return found


@pytest.mark.parametrize("verb", verbs())
def test_no_message_names_what_the_reader_of_a_verb_cannot_type(verb: str) -> None:
    """Of all messages that there are, as if each verb printed them."""
    parser = verbs()[verb]
    words = words_of(parser)
    for message in [path.read_text("utf-8") for path in MESSAGES] + OTHERS:
        shown = in_words(message, words)
        assert shown.splitlines()[0].startswith(message.split()[0])
        for hint in re.findall(r"\n  hint: (.*)", shown):
            named = OPTION.findall(OF_ANOTHER_VERB.sub("", hint))
            assert set(named) <= set(parser._option_string_actions), f"treecast {verb}: {hint}"
            assert not hint.startswith(("with ", "a ", "it ")) or hint in message, f"treecast {verb}: {hint}"
            assert not OF_PYTHON.search(hint), f"treecast {verb}: {hint}"
        if "document_bytes_max" in message:
            assert "document_bytes_max" not in shown


@pytest.mark.parametrize(
    ("message", "verb", "shown"),
    [
        (OTHERS[0], "match", "TC191 s.dat: no column id\n  hint: name the columns, or give --subscriptions-format F"),
        (OTHERS[0], "generate documents", "TC191 s.dat: no column id\n  hint: name the columns"),
        (OTHERS[1], "render", "TC715 x.gz: it unpacks to too much\n  hint: raise it with --ratio-max N if right"),
        (OTHERS[1], "publish", "TC715 x.gz: it unpacks to too much"),
        (OTHERS[2], "publish", "TC434 the document names no source\n  hint: name it with --source NAME"),
        (OTHERS[3], "subscribe", "TC434 no subscription\n  hint: name 1 to 64 subscriptions"),
        (OTHERS[4], "replay", "TC301 the record is longer than 5 bytes\n  hint: raise it with --document-bytes-max N"),
        (OTHERS[4], "publish", "TC301 the record is longer than 5 bytes"),
        ("TC602 a valid token is needed\n  hint: send the header Authorization: Bearer tc_…", "status",
         "TC602 a valid token is needed\n  hint: set TREECAST_TOKEN, or give --token TOKEN"),
        ("TC301 the document is longer than 5 bytes, the limit document_bytes_max\n  hint: raise document_bytes_max",
         "publish", "TC301 the document is longer than 5 bytes, the limit\n  hint: split it with --record NAME"),
        ("TC301 the document is longer than 5 bytes, the limit document_bytes_max\n  hint: raise document_bytes_max",
         "match", "TC301 the document is longer than 5 bytes, the limit --document-bytes-max\n"
         "  hint: raise it with --document-bytes-max N, or split it with --record NAME"),
        ("TC340 q\n  hint: simplify it, or raise it with Limits(work_per_item_max=…)", "status",
         "TC340 q\n  hint: simplify it"),
    ],
)  # fmt: skip
def test_settings_are_named_as_the_reader_types_them(message: str, verb: str, shown: str) -> None:
    assert in_words(message, words_of(verbs()[verb])) == shown


def test_a_limit_out_of_its_range_is_named_as_it_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["match", "-q", "//a", "--depth-max", "100M", "d.xml"])
    assert "treecast match: --depth-max must be from 1 to 65535; see" in capsys.readouterr().err


def test_a_pipeline_names_its_keys() -> None:
    message = "TC302 too deep, the limit depth_max\n  hint: raise it with treecast.Limits(depth_max=…)"
    assert in_words(message, WORDS).endswith("hint: raise it with depth_max below [limits]")
    unbound = 'TC109 no\n  hint: bind it: namespaces={"x": "…"}, or --namespace x=… on the command line'
    assert in_words(unbound, WORDS).endswith("hint: bind it: namespaces.x=… below [subscriptions]")


READERS = {
    "match": ["match", "-q", "//nothing"],
    "render": ["render", "-q", "//nothing"],
    "replay": ["replay", "-q", "//nothing"],
    "explain": ["explain", "-q", "//nothing"],
    "check": ["check", "s.txt", "--sample"],
    "check --schematron": ["check", "--schematron", "r.sch"],
}
TOO_MUCH = {
    "--depth-max": "<a>" * 600 + "</a>" * 600,
    "--attributes-max": "<a " + " ".join(f"a{n}='1'" for n in range(300)) + "/>",
    "--name-bytes-max": f"<{'a' * 2000}/>",
    "--attribute-bytes-max": f"<a a='{'x' * (2 << 20)}'/>",
    "--document-bytes-max": "<a>" + " " * (64 << 20) + "</a>",
    "--entities": "<a>&nbsp;</a>",
}


@pytest.mark.parametrize("option", TOO_MUCH)
def test_what_a_hint_says_helps(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each verb that reads documents names its option for each limit, and with that option it goes on."""
    monkeypatch.chdir(tmp_path)
    Path("s.txt").write_text("//nothing\n")
    rule = '<pattern><rule context="nothing"><assert test="b">m</assert></rule></pattern>'
    Path("r.sch").write_text(f'<schema xmlns="http://purl.oclc.org/dsdl/schematron">{rule}</schema>')
    Path("d.xml").write_text(TOO_MUCH[option])
    for name, arguments in READERS.items():
        status = main([*arguments, "d.xml"])
        said = capsys.readouterr().err
        assert status == (0 if name == "check" else 1), name
        assert re.search(rf"hint: (raise it with|add) {option}\b", said), f"{name}: {said}"
        value = "html" if option == "--entities" else "60000" if option == "--depth-max" else "16M"
        value = "100M" if option == "--document-bytes-max" else value
        assert main([*arguments, "d.xml", option, value]) == 0, name
        assert "TC" not in capsys.readouterr().err, name


def test_hints_about_queries_name_flags(document: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "-q", "//x:item", document]) == 1
    assert "hint: bind it: --namespace x=…" in capsys.readouterr().err


def test_a_namespace_that_kept_all_from_matching_is_named(document: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "-q", "//item", "--entities", "html", document]) == 0
    assert "'//item' would, but for its namespace: add --namespace =urn:f" in capsys.readouterr().err
    assert main(["match", "-q", "//item", "--namespace", "=urn:f", "--entities", "html", document]) == 0
    assert "namespace" not in capsys.readouterr().err
    assert main(["match", "-q", "//other", "--entities", "html", document]) == 0
    assert "namespace" not in capsys.readouterr().err
