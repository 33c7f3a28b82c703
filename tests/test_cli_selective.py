"""`treecast selective`: from a policy to what a member sees, with versions, revocation and altered packages."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path

import pytest

from treecast.cli import main

pytestmark = pytest.mark.house

FIRST = b"<firm><staff><name>Ida</name><pay>9</pay></staff></firm>"


@pytest.fixture
def firm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("firm.xml").write_bytes(FIRST)
    run("grant firm desk --include //staff --exclude //pay --member ann --member bob")
    run("publish firm firm.xml")
    return tmp_path / "firm"


def run(line: str, status: int = 0) -> None:
    assert main(["selective", *line.split()]) == status


def test_from_a_policy_to_a_view(firm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("preview firm desk")
    run("subscribe firm desk ann ann-home")
    capsys.readouterr()
    run("receive ann-home firm/out/desk/1.package")
    assert capsys.readouterr().out == "<staff><name>Ida</name></staff>\n"
    Path("firm.xml").write_bytes(FIRST.replace(b"9", b"10"))
    run("publish firm firm.xml")
    assert "nobody sees a change" in capsys.readouterr().err
    Path("firm.xml").write_bytes(FIRST.replace(b"Ida", b"Eva"))
    run("publish firm firm.xml")
    assert capsys.readouterr().out.startswith("firm/out/desk/2.package\t")
    run("receive ann-home firm/out/desk/2.package")
    assert capsys.readouterr().out == "<staff><name>Eva</name></staff>\n"
    run("receive ann-home")  # what it has, verified again
    assert capsys.readouterr().out == "<staff><name>Eva</name></staff>\n"
    run("receive ann-home firm/out/desk/1.package", status=1)
    assert "TC494" in capsys.readouterr().err
    run("status firm")
    assert capsys.readouterr().out == (
        "desk\tversion 2\tepoch 1\n  sees 2 of 4 elements\n"
        "  includes //staff: 3 elements\n  excludes //pay: hides 1 element\n  members: ann, bob\n"
    )


def test_what_hides_nothing_is_refused(firm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (firm / "policies.json").read_bytes(), (firm / "state").read_bytes()
    run("grant firm desk --include /* --exclude //pya", status=1)
    refused = capsys.readouterr().err
    assert "TC163 the exclusion of the group desk selects no element" in refused
    assert "hint: the document has pay, not pya, or add --allow-empty if it may select nothing" in refused
    Path("firm.xml").write_bytes(FIRST.replace(b"<firm>", b"<firm xmlns='urn:f'>"))
    run("publish firm firm.xml", status=1)
    refused = capsys.readouterr().err
    assert "TC163" in refused and "or treecast selective grant … --allow-empty if" in refused
    run("grant firm desk --include //staff/@id", status=1)
    assert before == ((firm / "policies.json").read_bytes(), (firm / "state").read_bytes())


def test_status_says_what_is_hidden(firm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("grant firm desk --include //staff --exclude //bonus --exclude //firm/none --allow-empty")
    run("grant firm all --include /*")
    capsys.readouterr()
    run("status firm")
    status = capsys.readouterr().out
    assert "excludes //bonus: hides nothing\n  excludes //firm/none: hides nothing\n  this takes effect with" in status
    run("publish firm")
    capsys.readouterr()
    run("status firm")
    assert "this takes effect" not in capsys.readouterr().out
    run("grant new desk --include //staff --exclude //pay")
    capsys.readouterr()
    run("status new")
    assert "sees nothing yet: no version has been published\n  includes //staff\n  excludes //pay\n" in (
        capsys.readouterr().out
    )


def test_update_takes_all_versions_from_the_files_of_a_publisher(
    firm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("subscribe firm desk ann ann-home")
    for name in ("Eva", "Leo"):
        Path("firm.xml").write_bytes(FIRST.replace(b"Ida", name.encode()))
        run("publish firm firm.xml")
    capsys.readouterr()
    run("update ann-home firm")
    assert capsys.readouterr().out == "<staff><name>Leo</name></staff>\n"


def test_revocation(firm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for member in ("ann", "bob"):
        run(f"subscribe firm desk {member} {member}-home")
        run(f"receive {member}-home firm/out/desk/1.package")
    run("revoke firm desk ann")
    Path("firm.xml").write_bytes(FIRST.replace(b"Ida", b"Eva"))
    run("publish firm firm.xml")
    assert not (firm / "out" / "desk" / "ann.2.envelope").exists()
    run("receive ann-home firm/out/desk/2.package", status=1)
    assert "TC496" in capsys.readouterr().err
    run("receive bob-home firm/out/desk/2.package --envelope firm/out/desk/bob.2.envelope")
    assert "Eva" in capsys.readouterr().out
    run("subscribe firm desk ann other-home", status=1)
    assert "TC630" in capsys.readouterr().err


def test_newcomers_after_a_revocation(firm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing has changed but who is a member: there is a package that a new member can open."""
    run("revoke firm desk ann")
    run("grant firm desk --member cy")
    run("publish firm")
    run("subscribe firm desk cy cy-home")
    capsys.readouterr()
    run("receive cy-home firm/out/desk/all.package")
    assert capsys.readouterr() == ("<staff><name>Ida</name></staff>\n", "")


def test_an_old_view_is_called_so(firm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("firm.xml").write_bytes(FIRST.replace(b"Ida", b"Eva"))
    run("publish firm firm.xml")
    run("subscribe firm desk ann ann-home")
    run("receive ann-home firm/out/desk/1.package")
    assert "a newer one has been published" in capsys.readouterr().err
    run("receive ann-home firm/out/desk/2.package")
    assert capsys.readouterr() == ("<staff><name>Eva</name></staff>\n", "")


def test_altered_packages_are_not_kept(firm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("subscribe firm desk ann ann-home")
    package = firm / "out" / "desk" / "1.package"
    data = package.read_bytes()
    package.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    run(f"receive ann-home {package}", status=1)
    assert "TC492" in capsys.readouterr().err
    run("receive ann-home")
    assert capsys.readouterr().out == ""


def test_secrets_are_for_nobody_else(firm: Path) -> None:
    run("subscribe firm desk ann ann-home")
    for path in (
        firm / "secret",
        firm / "signer",
        firm / "state",
        firm / "policies.json",
        Path("ann-home/member.json"),
    ):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    out = b"".join(path.read_bytes() for path in (firm / "out").rglob("*") if path.is_file())
    assert b"Ida" not in out and b"staff" not in out and b"pay" not in out


def test_policies_take_effect_without_a_new_version(firm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("grant firm desk --include //name")
    capsys.readouterr()
    run("publish firm")
    assert "2.package" in capsys.readouterr().out
    run("preview firm desk")
    assert capsys.readouterr().out == "<name>Ida</name>\n"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("grant firm desk --exclude //pay", "say what that is"),
        ("grant firm other --member ann", "there is no group"),
        ("status elsewhere", "is not the directory of a publisher"),
        ("preview firm other", "no such group"),
    ],
)
def test_wrong_usage(firm: Path, line: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["selective", *line.split()])
    assert stop.value.code == 2
    assert code in capsys.readouterr().err


def test_wrong_paths_and_directories(firm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("grant firm desk --include //staff[", status=1)
    assert "TC101" in capsys.readouterr().err
    Path("empty").mkdir()
    Path("empty/member.json").write_text("{}")
    run("receive empty", status=1)
    assert "TC510" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", ["grant new desk --include //staff[", "grant new desk --member ann", "publish new bad.xml"]
)
def test_a_command_that_fails_makes_no_directory(firm: Path, line: str) -> None:
    Path("bad.xml").write_text("<firm>")
    with contextlib.suppress(SystemExit):  # of wrong usage
        assert main(["selective", *line.split()]) == 1
    assert not Path("new").exists()


@pytest.mark.parametrize("command", ["grant", "revoke", "publish", "status", "subscribe", "update"])
def test_help_promises_no_service_that_is_not_asked(
    firm: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["selective", command, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "TREECAST_URL" not in said and "127.0.0.1" not in said
    assert "--url URL the address of one; without it, DIR is a directory" in said
    monkeypatch.setenv("TREECAST_URL", "http://127.0.0.1:1")
    run("status firm")
    assert "members: ann" in capsys.readouterr().out
