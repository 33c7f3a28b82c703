#!/usr/bin/env python3
"""Switches mechanisms of placements, covering, sealed views, networks and rings off, one at a time, and runs their tests.

    python tools/mutants_python.py              all mutants; exit status 1 if one survives
    python tools/mutants_python.py 3 17         these
    python tools/mutants_python.py --list       what they are

It is the counterpart of tools/mutants.py: if no test notices that a mechanism is missing, it has no test or no effect.
Nothing is compiled; each mutant is a replaced line in a copy of the package.
"""

# ruff: noqa: E501  (one mutant, one line)
from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACING = "tests/test_placement_mechanisms.py"
FIGURES = "tests/test_experiments_placement.py"
RUNS = "tests/test_experiments_runs.py"
COVERING = "tests/test_cover_budget.py"
SEALING = "tests/test_selective_security.py"
HIDING = "tests/test_selective_interference.py"
NETWORKS = "tests/sim/test_network_schedules.py"
RINGS = "tests/sim/test_ring_schedules.py"
HOSTS = "tests/serve/test_host_doors.py"
SECONDS_MAX = 300  # a mutant may make a loop endless


@dataclass(frozen=True)
class Mutant:
    """`original` occurs exactly once in src/treecast/`file`; `test` must fail with `mutated` in its place."""

    file: str
    original: str
    mutated: str
    meaning: str
    test: str = PLACING


MUTANTS = [
    # Hierarchies.
    Mutant("placement/hierarchical.py", "return ANYTHING", "return '/_'", "a query without a root or a telling name sees no document"),
    Mutant("placement/hierarchical.py", "self._note_sets(root, exclusive_sets(names_under_root), names_under_root)", "self._note_sets(root, (), names_under_root)", "no exclusive sets by root"),
    Mutant("placement/hierarchical.py", "self._set_of.get(facts.root(row) or _OTHERS, self._set_of[_OTHERS])", "self._set_of[_OTHERS]", "exclusive sets of the whole sample only"),
    Mutant("placement/hierarchical.py", "exclusive_sets(names_by_document) if exclusive is None else exclusive", "exclusive_sets(names_by_document)", "exclusive sets from a schema are passed over"),
    Mutant("placement/exclusive.py", "count <= common_min * len(documents)", "count <= len(documents)", "names that most documents have join all sets"),
    Mutant("placement/exclusive.py", "count > meeting_max * min(counts[a], counts[b])", "count > 0", "names that meet once belong together"),
    Mutant("placement/hierarchical.py", "(counts[kind][key] + 0.5) / (self._documents + 1)", "1.0", "parts are not sized by their documents"),
    Mutant("placement/hierarchical.py", "uses.append((part.leaf, self._guard(part, text)))", "uses.append((part.leaf, ANYTHING))", "leaves are not guarded"),
    Mutant("placement/hierarchical.py", "part.guards = of_survey(facts, rows, self._selectivity, self._filters_max)", "part.guards = {}", "guards are no aggregates"),
    Mutant("placement/hierarchical.py", "path if room < 0 else", "ANYTHING if room < 0 else", "later guards let everything pass"),
    # PEP.
    Mutant("placement/pep.py", "gain[pattern] / repetition[pattern]", "gain[pattern]", "patterns that repeat count as much as others"),
    Mutant("placement/pep.py", "patterns = _with_fewer_repeats(patterns, count_by_signature, repetition)", "patterns = list(patterns)", "patterns that repeat are not exchanged"),
    Mutant("placement/pep.py", "path in self._once or not self._documents", "not self._documents", "the schema's word is not believed"),
    Mutant("placement/pep.py", "int(partitions * (before + counts[value] / 2) / total)", "int(partitions * len(places) / len(counts))", "buckets are cut by the number of values"),
    Mutant("placement/pep.py", "zlib.crc32(facts.queries[row].encode()) % len(pairs)", "0", "a query goes by its first pattern"),
    Mutant("placement/pep.py", '((self._rest, "/*"),)', '((self._rest, "/_"),)', "the partition without a pattern sees no document"),
    # Root tags.
    Mutant("placement/root_tag.py", "self._frequencies.get(root, unseen)", "1.0", "clusters are not sized by their documents"),
    Mutant("placement/root_tag.py", "rest = clusters.pop(_REST, ())", "rest = clusters.pop(_REST, ()) and ()", "queries without a root see no document"),
    # Figure 7, and several runs.
    Mutant("experiments/xtrie_routers.py", "(own + others)[:size]", "(others + own)[:size]", "leaves hold filters of other types", FIGURES),
    Mutant("experiments/xtrie_routers.py", "Performance(1e6 / xtrie_run.wall_us, each", "Performance(xtrie_run.executors / xtrie_run.cpu_us * 1e6, each", "throughput is executors over CPU time", FIGURES),
    Mutant("experiments/router_verdict.py", "if load > LOAD_MAX:", "if load < 0:", "a busy machine decides", FIGURES),
    Mutant("experiments/router_verdict.py", "if cores < routers:", "if cores < 0:", "a machine with too few cores decides", FIGURES),
    Mutant("experiments/router_verdict.py", "beyond_one(None if short else leaves_needed, fan_out)", "beyond_one(None if short else fan_out, 1.0)", "a worse placement agrees more", FIGURES),
    Mutant("experiments/onyx_pep.py", "        for values in (VALUES, MORE_VALUES)\n    ]\n\n\ndef _alone", "        for values in (VALUES, VALUES)\n    ]\n\n\ndef _alone", "1,000 values have no verdict", FIGURES),
    Mutant("experiments/runs.py", 'finding.answer if len(answers) == 1 else "moved between runs"', "finding.answer", "verdicts that moved are not called so", RUNS),
    # Covering.
    Mutant("query/cases.py", "self.left -= steps", "self.left -= 0", "no step counts", COVERING),
    Mutant("query/cover.py", "STEPS_MIN = 300_000", "STEPS_MIN = 3_000", "too few steps for long patterns", COVERING),
    Mutant("query/cases.py", "self.merge(at, self.attributes.setdefault((entry.parent, entry.uri, entry.local), at))", "pass", "an element has two attributes of a name", COVERING),
    # Views of selective publishing.
    Mutant("selective/view.py", "            text = text.rstrip(_SPACE)", "            pass", "white space shows where something is hidden", HIDING),
    Mutant("selective/view.py", '        gaps = [""]', "        pass", "an element that lost all its children keeps their indentation", HIDING),
    Mutant("selective/view.py", "return Outline(parents, spacing=1), ids", "return Outline(parents, spacing=2), ids", "labels of requests are not those of the view", SEALING),
    Mutant("selective/keys.py", 'derive(key, "nonce", sha256(join((about, data))).digest(), length=NONCE_BYTES)', "sha256(join((about, data))).digest()[:NONCE_BYTES]", "a nonce confirms guesses", SEALING),
    Mutant("selective/keys.py", 'derive(self._secret, "group", document, group, epoch)', 'derive(self._secret, "group", group, epoch)', "documents share the keys of groups", SEALING),
    Mutant("selective/publisher.py", "self.keys.token(self.name, group, id)", 'self.keys.token(self.name, "", id)', "groups share the keys of elements", SEALING),
    Mutant("selective/publisher.py", "version = self.version(group) if self.has_view(group) else 0", "version = 0", "envelopes do not tell the version", SEALING),
    Mutant("selective/policies.py", "(*(ids[id] for id in part.without), *inside)", "(*(ids[id] for id in part.without),)", "a request brings what is hidden below", HIDING),
    Mutant("selective/policies.py", "            self._epochs[group] += 1", "            pass", "keys are not renewed when somebody is revoked", SEALING),
    Mutant("selective/subscriber.py", "            _clear_above(self._elements, token)", "            pass", "digests above a replaced element are believed", SEALING),
    Mutant("selective/subscriber.py", "one.entry.parent != above", "False", "an entry may lie about its parent", SEALING),
    Mutant("selective/subscriber.py", "self._newest = max(self._newest, version)", "pass", "an old view passes for a new one", SEALING),
    Mutant("selective/group_view.py", "        if not touched_ids:  # whatever lost a child has changed\n            return False", "", "a view that did not change is sent", SEALING),
    Mutant("selective/digests.py", "document, token, parent, version, record, *children", "document, token, parent, record, *children", "the version of an element is not bound", SEALING),
    Mutant("selective/digests.py", '"treecast view 1", document, group, version, *fragments', '"treecast view 1", document, group, *fragments', "the version of a view is not bound", SEALING),
    # Networks: replicas, repair, retention.
    Mutant("overlay/replica/backup.py", "not is_filled or replica.group < message.complete_at or", "not is_filled or", "a backup that lacks groups takes over", NETWORKS),
    Mutant("overlay/replica/primary.py", "if is_complete and message.group > group:", "if False:", "a primary with an older disk goes on", NETWORKS),
    Mutant("overlay/onyx/registry/roles.py", 'if state == "paired" and self._reign(', 'if state == "" and self._reign(', "the status says paired while the backup lacks something", NETWORKS),
    Mutant("overlay/onyx/history.py", "return min(positions, default=self._tail.last_document()) + 1", "return 1 << 62", "nobody needs documents that are kept", NETWORKS),
    Mutant("overlay/onyx/network_broker.py", "turn.send(root, PositionsMessage(", "turn.send_at_once(root, PositionsMessage(", "positions are told before they are durable", NETWORKS),
    Mutant("overlay/onyx/wants.py", "        if self._settle(turn, done):\n            self.needed = max(self.needed, waiting.version)", "        if self._settle(turn, done):\n            pass", "an answer to an older question counts for new subscriptions", NETWORKS),
    Mutant("serve/local_peers.py", "            local.removed()", "            pass", "clients of a broker that is served elsewhere wait on", HOSTS),
    Mutant("serve/runtime.py", "                    events.append(effect)", "                    self._locals.announce(effect.event, effect.sender)", "what is announced comes before what was sent", HOSTS),
    # Rings.
    Mutant("overlay/chord/replication.py", "waiting = set(peers)", "waiting = set(peers[:1])", "one copy is enough", RINGS),
    Mutant("overlay/chord/replication.py", '                self._writes -= 1\n                then("unsafe")', '                self._writes -= 1\n                then("stored")', "a copy that failed counts as stored", RINGS),
    Mutant("overlay/chord/ring_peer.py", "if isinstance(effect.message, _URGENT):", "if effect.message is not None:", "copies are acknowledged before they are durable", RINGS),
    Mutant("overlay/chord/filtering.py", "if attempt and members[0].peer in silent:", "if False:", "copies of a silent owner are not read", RINGS),
    Mutant("overlay/chord/lookup.py", "if member.peer not in silent:", "if True:", "behind a silent peer nobody is found", RINGS),
    Mutant("overlay/chord/chord_peer.py", "        if message.member.peer == sender:\n            for ring", "        if message.member.peer:\n            for ring", "anybody may say that another one leaves", RINGS),
    Mutant("overlay/chord/chord_peer.py", "if ring is not None and message.member.peer == sender:", "if ring is not None:", "anybody may say that another one is a predecessor", RINGS),
    Mutant("overlay/chord/replication.py", "or owner.peer != sender or", "or", "anybody may claim a range for another one", RINGS),
    Mutant("overlay/chord/replication.py", "or owner.peer != sender or not is_genuine(owner):", "or owner.peer != sender:", "whoever claims a range chooses its place", RINGS),
    Mutant("overlay/chord/calls.py", "if call.to != self._name:", "if call.to:", "a peer takes itself for silent", RINGS),
    Mutant("overlay/chord/shedding.py", "next((ring for ring in self._peer.members if ring.is_member), None)", "next(ring for ring in self._peer.members if ring.is_member)", "a peer that leaves while it makes copies of a state ends with an error", RINGS),
    Mutant("sim/chord/scenario.py", "for disks in self._disk_counts().values()):", "for entry, disks in self._disk_counts().items() if entry in self.acknowledged):", "the simulator takes all disks with an entry before its writer hears that it is stored", RINGS),
]  # fmt: skip


def mutate(package: Path, mutant: Mutant) -> None:
    """Replace the line in a copy of the package."""
    path = package / mutant.file
    source = path.read_text(encoding="utf-8")
    if source.count(mutant.original) != 1:
        count = source.count(mutant.original)
        raise SystemExit(
            f"mutants: {mutant.original!r} stands {count} times in {mutant.file}: fix tools/mutants_python.py"
        )
    path.write_text(source.replace(mutant.original, mutant.mutated), encoding="utf-8")


def prepare(home: Path) -> Path:
    """A Python with the packages of this one, except treecast, which it finds in `home`/site."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / "venv")], check=True)
    packages = next((home / "venv" / "lib").glob("python*/site-packages"))
    own_packages = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "mutants.pth").write_text("\n".join([str(home / "site"), *own_packages]) + "\n")
    return home / "venv" / "bin" / "python"


def copy_package(home: Path) -> Path:
    """A fresh copy of the package, with the native module of the installed one."""
    package = home / "site" / "treecast"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "treecast", package, ignore=shutil.ignore_patterns("__pycache__"))
    native = find_spec("treecast._native")
    if native is None or native.origin is None:
        raise SystemExit("mutants: treecast is not installed here")
    shutil.copy(native.origin, package)
    return package


def tests_pass(python: Path, test: str) -> tuple[bool, str]:
    """Whether the tests pass, and the first failure."""
    command = [str(python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", test]
    try:
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return False, "endless"
    if process.returncode not in (0, 1):
        raise SystemExit(f"mutants: the tests did not run\n{(process.stdout + process.stderr)[-4000:]}")
    failures = [line[7:].partition(" - ")[0] for line in process.stdout.splitlines() if line.startswith("FAILED ")]
    return process.returncode == 0, failures[0].partition("::")[2] if failures else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Switch mechanisms off; the tests must notice.")
    parser.add_argument("numbers", nargs="*", type=int, help="the mutants to try; all of them without")
    parser.add_argument("--list", action="store_true", help="only say what the mutants are")
    options = parser.parse_args()
    numbers = options.numbers or list(range(1, len(MUTANTS) + 1))
    if not all(1 <= number <= len(MUTANTS) for number in numbers):
        parser.error(f"mutants are numbered from 1 to {len(MUTANTS)}")
    if options.list:
        for number in numbers:
            print(f"{number:3} {MUTANTS[number - 1].file}: {MUTANTS[number - 1].meaning}")
        return 0
    survivors = []
    with tempfile.TemporaryDirectory(prefix="treecast-mutants-") as directory:
        home = Path(directory).resolve()
        python = prepare(home)
        copy_package(home)
        for test in sorted({MUTANTS[number - 1].test for number in numbers}):
            has_passed, first_failure = tests_pass(python, test)
            if not has_passed:
                raise SystemExit(f"mutants: the tests fail without any mutant: {first_failure}")
        print("| # | where | what | outcome |\n|--:|-------|------|---------|", flush=True)
        for number in numbers:
            mutant = MUTANTS[number - 1]
            mutate(copy_package(home), mutant)
            has_passed, first_failure = tests_pass(python, mutant.test)
            survivors += [number] if has_passed else []
            outcome = "**survived**" if has_passed else f"caught by `{first_failure}`"
            print(f"| {number} | `{mutant.file}` | {mutant.meaning} | {outcome} |", flush=True)
    print(f"\n{len(numbers) - len(survivors)} of {len(numbers)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
