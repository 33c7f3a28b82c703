"""The settings of `treecast up`: options, environment, file and defaults; and the page that lists them."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
from support.served_http import eventually

from treecast.cli import main, up_settings
from treecast.cli.up_settings import (
    Effective,
    SettingsError,
    build,
    convert,
    format_settings,
    format_value,
    resolve,
    sections,
    table,
    with_inner,
)
from treecast.serve.service_process import ServiceOptions

pytestmark = pytest.mark.house

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "settings.md"


def mistakes(*sets: str, unknown: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        resolve({"data": "d"}, sets, unknown, environment or {})
    assert caught.value.code == "TC760"
    return str(caught.value)


# --- who wins ---------------------------------------------------------------------------------------------------------


def test_options_then_environment_then_file_then_defaults(tmp_path: Path) -> None:
    file = tmp_path / "treecast.toml"
    file.write_text(
        'name = "file"\nlog = "console"\ndata = "kept"\n[door]\nheader_ms = "1s"\nbody_ms = 5\nstop_ms = "2m"\n'
    )
    environment = {"TREECAST_UP_NAME": "environment", "TREECAST_UP_DOOR_BODY_MS": "6", "TREECAST_UP_CONFIG": str(file)}
    environment["TREECAST_UP_DOOR_STOP_MS"] = "3m"
    effective = resolve({"name": "option"}, ["door.stop_ms=4m"], (), {**environment, "OTHER": "x"})
    values = {name: (one.value, one.origin) for name, one in effective.items()}
    assert values["name"] == ("option", "--name")
    assert values["door.stop_ms"] == (240_000, "--set")
    assert values["door.body_ms"] == (6, "TREECAST_UP_DOOR_BODY_MS")
    assert values["door.header_ms"] == (1_000, str(file))
    assert values["log"] == ("console", str(file))
    assert values["data"] == (str(tmp_path / "kept"), str(file))  # paths in a file begin where it is
    assert values["listen"] == (("127.0.0.1", 8080), "default")
    assert values["broker.keep_ms"] == (86_400_000, "default")


def test_every_setting_can_be_given_in_each_way(tmp_path: Path) -> None:
    """What --check prints is a file that gives the same."""
    effective = resolve({"data": "d", "peer_listen": "[::1]:7", "open": True, "name": 'a"\\\u202e'}, (), (), {})
    file = tmp_path / "all.toml"
    file.write_text(format_settings(effective))
    assert set(tomllib.loads(file.read_text())) >= {"data", "door", "broker", "access", "peer"}
    again = resolve({"config": str(file), "data": "d"}, (), (), {})
    assert {name: one.value for name, one in again.items()} == {name: one.value for name, one in effective.items()}
    texts = {name: format_value(one.setting, one.value).strip('"') for name, one in effective.items() if name != "name"}
    environment = {table()[name].variable: text for name, text in texts.items()}
    by_environment = resolve({}, (), (), environment)
    by_options = resolve({}, [f"{name}={text}" for name, text in texts.items()], (), {})
    for name in texts:
        assert by_environment[name].value == by_options[name].value == effective[name].value, name


def test_the_table_has_every_setting_of_a_service() -> None:
    kinds = {field.type for field in msgspec.structs.fields(ServiceOptions)}
    settings = {kind for kind in kinds if str(getattr(kind, "__name__", "")).endswith("Settings")}
    assert settings <= {type(defaults) for defaults in sections().values()}
    # All of them have an effect: what is built from the table is what was given.
    given = {name: one for name, one in table().items() if one.section and one.kind in ("count", "duration", "size")}
    assert len(given) > 50
    effective = resolve({"data": "d"}, [f"{name}={one.default + 1}" for name, one in given.items()], (), {})
    for section, defaults in sections().items():
        made = build(effective, sections(), section)
        for name in defaults.__struct_fields__:
            if f"{section}.{name}" in given:
                assert getattr(made, name) == getattr(defaults, name) + 1


class Inner(msgspec.Struct, frozen=True):
    allow: list[str] = []
    wait_ms: int = 5


class Outer(msgspec.Struct, frozen=True):
    inner: Inner = Inner()
    rows_max: int = 7


def test_a_struct_within_a_struct_is_a_section_too() -> None:
    structs = with_inner({"outer": Outer()})
    settings = table(structs)
    assert [name for name in settings if "." in name] == ["outer.rows_max", "inner.allow", "inner.wait_ms"]
    allow = settings["inner.allow"]
    assert (
        convert(allow, "10.0.0.0/8, ::1/128,") == convert(allow, ["10.0.0.0/8", "::1/128"]) == ["10.0.0.0/8", "::1/128"]
    )
    for wrong in (5, [5], {"a": "b"}):
        with pytest.raises(ValueError, match="no list of texts"):
            convert(allow, wrong)
    texts = ["x", 'a,"']
    assert tomllib.loads("a = " + format_value(allow, texts)) == {"a": texts}
    values = {name: Effective(one, one.default, "default") for name, one in settings.items()}
    values["inner.allow"] = Effective(allow, ["::1/128"], "--set")
    assert build(values, structs, "outer") == Outer(Inner(["::1/128"]))


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("door.heder_ms=5", "did you mean door.header_ms?"),
        ("header_ms=5", "did you mean door.header_ms?"),
        ("nonsense=5", "treecast up --check lists"),
        ("nonsense", "write --set NAME=VALUE"),
        ("door.header_ms=soon", "'soon' is no duration; write 500ms"),
        ("door.header_ms=5B", "'5B' is no duration"),
        ("door.document_bytes_max=5s", "'5s' is no size"),
        ("door.page_rows_max=5K", "'5K' is no count"),
        ("door.page_rows_max=0", "at least 1"),
        ("door.page_rows_max=-3", "'-3' is no count; write 1000"),
        ("brokers=-3", "'-3' is no count; write 3"),
        ("brokers=0", "'0' is out of range; it is at least 1"),
        ("replicas=both", "'both' is no count; write 2"),
        ("door.page_rows_max=٣", "is no count"),
        ("door.page_rows_max=9999999999999999999", "out of range"),
        ("log=jsn", "did you mean json?"),
        ("log=", "it is empty"),
        ("open=maybe", "neither true nor false"),
        ("listen=localhost", "write host:port"),
    ],
)
def test_a_mistake_is_one_clear_sentence(text: str, expected: str) -> None:
    lines = mistakes(text).splitlines()
    assert len(lines) == 2 and lines[0] == "TC760 a setting is wrong"
    assert lines[1].startswith(f"  --set {text.partition('=')[0]}") and expected in lines[1]


def test_all_mistakes_are_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = mistakes("a=1", "door.body_ms=x", unknown=("--lisen", "5"), environment={"TREECAST_UP_DAT": "x"})
    assert text.count("\n") == 4 and "did you mean TREECAST_UP_DATA?" in text and "did you mean --listen?" in text
    (tmp_path / "broken.toml").write_text("[")
    for config in ("missing.toml", "broken.toml"):
        with pytest.raises(SystemExit) as stop:
            main(["up", "--config", str(tmp_path / config), "--log", "xml", "--no-such", "--key", "k"])
        assert stop.value.code == 2
        said = capsys.readouterr().err
        assert (
            "4 settings are wrong" in said
            and config in said
            and "--no-such" in said
            and "--data: it is missing" in said
        )


def test_settings_that_do_not_fit_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tokens.json").write_text("{")
    up = ["up", "--check", "--data", str(tmp_path / "data")]
    with pytest.raises(SystemExit):
        main([*up, "--certificate", "none.pem", "--peer-ca", "ca.pem"])
    said = capsys.readouterr().err
    assert "TC606" in said and "TC409" in said and "--peer-ca: it needs --peer-listen" in said
    (tmp_path / "data" / "tokens.json").unlink()
    with pytest.raises(SystemExit):
        main([*up, "--listen", "0.0.0.0:0", "--peer-listen", "0.0.0.0:0", "--key", "k.pem"])
    said = capsys.readouterr().err
    assert said.count("TC608") == 2 and "--key: it needs --certificate" in said
    monkeypatch.setenv("TREECAST_UP_LISTEN", "0.0.0.0:80")
    assert main([*up, "--open"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r'^listen = "0.0.0.0:80" +# TREECAST_UP_LISTEN$', printed, re.MULTILINE)


def test_a_rule_with_an_unbound_prefix_names_no_option_of_other_verbs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = "[[backend]]\nname = 'a'\nurl = 'http://127.0.0.1:1/'\n"
    rule = "[[rule]]\nname = 'r'\nquery = '//x:a'\nbackends = ['a']\n"
    (tmp_path / "rules.toml").write_text(backend + rule)
    with pytest.raises(SystemExit):
        main(["up", "--data", str(tmp_path / "d"), "--firewall", str(tmp_path / "rules.toml"), "--check"])
    said = capsys.readouterr().err
    assert "rule 'r': TC109 the prefix 'x' is not bound to a namespace; bind it in the namespaces of" in said
    assert "--namespace" not in said


def test_a_service_obeys_its_file(tmp_path: Path) -> None:
    (tmp_path / "treecast.toml").write_text(
        'data = "data"\nlisten = "127.0.0.1:0"\nlog_level = "error"\n[door]\ndocument_bytes_max = "10"\n'
    )
    command = [sys.executable, "-m", "treecast", "up", "--config", str(tmp_path / "treecast.toml")]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=os.sep)
    try:
        assert service.stdout is not None
        url = service.stdout.readline().split()[-1]
        post = ["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "--data-binary"]
        assert subprocess.check_output([*post, "<a>12345678</a>", f"{url}/v1/documents"], text=True) == "413"
        assert (tmp_path / "data" / "store.json").exists()
        service.terminate()
        eventually(lambda: service.poll() is not None)
        assert service.returncode == 0
    finally:
        service.kill()
        service.communicate()


# --- the page ---------------------------------------------------------------------------------------------------------


def meanings(kind: type) -> dict[str, str]:
    """What the source says about each field."""
    (made,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(made, ast.ClassDef)
    found: dict[str, str] = {}
    for item, following in zip(made.body, [*made.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            text = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                text = str(following.value.value)
            found[item.target.id] = " ".join(text.split())
    return found


def rows(section: str) -> list[str]:
    about = (
        meanings(type(sections()[section])) if section else {setting.name: setting.help for setting in up_settings.TOP}
    )
    lines = []
    for setting in table().values():
        if setting.section == section:
            default = "" if setting.default in (None, "") else setting.default
            if setting.kind in ("duration", "size", "switch", "count"):
                default = format_value(setting, default).strip('"')
            lines.append(f"| `{setting.full_name}` | {default} | {about[setting.name].split('; default')[0]} |")
    return lines


@pytest.mark.parametrize("section", ["", *sections()])
def test_the_page_has_every_setting(section: str) -> None:
    """TREECAST_GOLDEN=write writes its tables again."""
    text = PAGE.read_text("utf-8")
    name = section or "service"
    pattern = re.compile(rf"(?<=<!-- {name} -->\n\n\| name \| default \| \|\n\|---\|---\|---\|\n)(?:\|.*\n)*")
    if os.environ.get("TREECAST_GOLDEN") == "write":
        text = pattern.sub(lambda _: "\n".join(rows(section)) + "\n", text)
        PAGE.write_text(text, "utf-8")
    found = pattern.search(text)
    assert found is not None and found[0].splitlines() == rows(section)
