"""The repository stays tidy: rooms import in one direction, and names follow the rules.

ARCHITECTURE.md explains the rules; this file checks them. Each exception below has a reason, and the tests fail if it
is no longer needed.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import treecast

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "treecast"

# Room -> the rooms it may import. "*" is any; a room that is not listed here does not exist yet.
CORE = {"arguments", "errors", "model", "document", "query", "_native"}
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "names": set(),
    "durable": set(),
    "extras": set(),
    "arguments": set(),
    "model": {"errors"},
    "document": {"arguments", "errors", "model", "_native"},
    "transcoding": {"arguments", "document", "errors", "_native"},
    "async_index": CORE | {"index"},
    "query": {"arguments", "document", "errors", "model", "_native"},  # document: a query matches one by itself
    "engines": CORE,
    "links": CORE,
    "selective": CORE,
    "rejections": {"errors"},
    "index": CORE | {"engines", "names", "rejections"},
    "wire": CORE | {"workload"},  # workload: dictionaries are made from DTDs
    "inputs": CORE | {"index", "names", "extras"},
    "catalog": CORE | {"index", "durable"},
    "placement": CORE | {"index"},
    # workload: documents are checked by its DTDs
    "overlay": CORE
    | {"index", "catalog", "links", "selective", "placement", "names", "rejections", "wire", "workload"},
    "sim": CORE | {"index", "overlay", "selective", "wire"},
    "serve": {
        "document",
        "errors",
        "query",
        "index",
        "inputs",
        "catalog",
        "overlay",
        "durable",
        "names",
        "model",
        "workload",
        "selective",
    },
    "spark": {
        *{"errors", "model", "document", "index", "inputs", "catalog", "sample", "version", "report"},
        *{"names", "placement", "workload", "durable", "extras"},
    },
    "report": CORE | {"index", "names", "durable"},  # index: where a document matched, and what it delivers
    "workload": {"errors", "model", "query"},
    "sample": {"errors", "model"},
    "measure": CORE | {"index", "engines", "workload", "report", "spark", "version", "durable", "extras"},
    "experiments": {
        *{"errors", "engines", "index", "placement", "workload", "report", "spark", "measure", "version", "durable"},
        # a broker's routing table is measured beside the operators that the paper has instead
        *{"document", "model", "overlay", "selective", "wire"},
        "serve",  # clients of a network that is killed
        "sim",  # peers of a ring, by the dozen in one process
    },
    "cli": {"*"},
    "__init__": CORE | {"engines", "index", "version", "async_index", "inputs", "transcoding"},
    "__main__": {"cli"},
}
# Module -> the room that alone may import it.
RESERVED = {
    "pyspark": "spark",
    "matplotlib": "report",
    "socket": "serve",
    "socketserver": "serve",
    "asyncio": "serve",
    "http": "serve",
    "pickle": "nobody",  # bytes that run when they are read; what travels has a form of its own
}
# Path -> the reserved module that it may import all the same, and why.
EXCEPTIONS = {
    "src/treecast/async_index.py": "asyncio",  # it is what keeps an event loop free
    "src/treecast/experiments/loopback.py": "socket",  # it measures what a network adds
    "src/treecast/spark/sources/broker_client.py": "http",  # Spark's tasks read a broker, as they read files
    "src/treecast/spark/stream/jetstream.py": "asyncio",  # nats-py has nothing else: an event loop within one call
}

# What a simulation has to take the place of, or what makes a run differ from the next: module, or function of `os`,
# -> the rooms that use it, and why each may. No other may, and none is listed in vain.
WORLD: dict[str, dict[str, str]] = {
    "time": {
        "cli": "progress bars and how long a verb took",
        "experiments": "it measures",
        "measure": "it measures",
        "serve": "it runs peers in the real world, and tells them what time it is",
        "sim": "how many seeds a second it runs; worlds have clocks of their own",
        "spark": "how long a job took, and how old documents are; waiting for Spark",
    },
    "threading": {
        "catalog": "Spark calls back from threads of its own: one at a time",
        "cli": "signals are for the main thread; a sign of life while Spark starts",
        "experiments": "the receiver of messages that are measured",
        "serve": "a store is read while another thread writes to it; clients for programs without an event loop",
        "spark": "a job is watched while it runs, and a stream closed behind its end",
    },
    "random": {
        "experiments": "seeded",
        "measure": "seeded",
        "overlay": "the type of what a peer is made with",
        "serve": "what a peer is made with, and pauses of clients, seeded by the system; a demonstration, seeded",
        "sim": "everything is drawn, by seed",
        "workload": "seeded",
    },
    "uuid": {},
    "secrets": {"serve": "secrets of tokens and of web hooks, which nobody must guess"},
    "sqlite3": {
        "catalog": "records of versions and batches, with synchronous writes",
        "serve": "the tables of a store, with synchronous writes",
        "spark": "the log of a source of files",
    },
    "os.fsync": {"durable": "it is what durable means"},
    "os.fdatasync": {"durable": "likewise"},
    "os.urandom": {"durable": "names that nobody has, on any machine"},
}

# Spark's public modules, as its reference and its type hints name them. All else of it is reached in one file.
PUBLIC_SPARK = {
    "pyspark",
    "pyspark.errors",
    "pyspark.sql",
    "pyspark.sql.datasource",
    "pyspark.sql.functions",
    "pyspark.sql.streaming.datasource",
    "pyspark.sql.streaming.listener",
    "pyspark.sql.streaming.query",
    "pyspark.sql.streaming.readwriter",
    "pyspark.sql.types",
}
# Where PySpark keeps its Java objects.
JAVA_OBJECTS = {"_gateway", "_jc", "_jdf", "_jrdd", "_jsc", "_jsparkSession", "_jsq", "_jvm", "_jwrite", "_sc"}
PRIVATE_SPARK_FILE = "src/treecast/spark/internals.py"

BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "manager"}
# Spelt in pieces, so that this file passes its own test.
BANNED_TEXTS = [
    "TO" + "DO",
    "FIX" + "ME",
    "/wo" + "rk/",
    "/ro" + "ot/",
    "/tmp/" + "tc",
    "pypi" + ".org",
    "debian" + ".org",
    "npmjs" + ".org",
]
PRODUCTS = {".git", ".venv", "build", "dist", "results", "__pycache__", "_native"}
TEXT_SUFFIXES = {
    *{".py", ".cpp", ".hpp", ".md", ".sh", ".toml", ".txt", ".csv", ".xml", ".dtd", ".dict"},
    *{".html", ".css", ".js"},
}


def files(*suffixes: str, under: Path = ROOT) -> list[Path]:
    """The files of the repository, without what make has made."""

    def walk(directory: Path) -> Iterator[Path]:
        for path in sorted(directory.iterdir()):
            if path.name in PRODUCTS or path.name.startswith(".venv-") or path.name.endswith("_cache"):
                continue
            if path.is_dir():
                yield from walk(path)
            elif path.suffix in suffixes:
                yield path

    return list(walk(under))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[str]:
    """The absolute names that a file imports, wherever in it: `from a import b` gives `a.b`."""
    for item in ast.walk(syntax(path)):
        if isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            assert item.level == 0, f"{name_of(path)}: relative import"
            yield from (f"{item.module}.{alias.name}" for alias in item.names)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for item in ast.walk(syntax(path)):
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            yield item


# The folders of native/: what stands in one may include what stands in it or before it.
NATIVE_ROOMS = [
    "base",
    "document",
    "records",
    "regex",
    "query",
    "machines",
    "evaluate",
    "engines",
    "render",
    "index",
    "lanes",
    "bindings",
]


def test_native_folders_include_in_one_direction() -> None:
    wrong = []
    for path in files(".cpp", ".hpp", under=ROOT / "native"):
        allowed = NATIVE_ROOMS[: NATIVE_ROOMS.index(path.parent.name) + 1]
        for folder, name in re.findall(r'^#include "(?:([^"/]*)/)?([^"]*)"', path.read_text(), re.MULTILINE):
            if folder not in allowed:
                wrong.append(f"{name_of(path)} includes {folder}/{name}")
    assert wrong == []


def test_native_types_have_names_of_their_own() -> None:
    """Two types of one name link into one, without a word from the compiler, and then one is destroyed as the other."""
    files_of: dict[str, list[str]] = {}
    for path in files(".cpp", ".hpp", under=ROOT / "native"):
        is_local = False  # to the file: in a namespace without a name
        for line in path.read_text().splitlines():
            is_local = line.startswith("namespace {") or (is_local and not line.startswith("}  // namespace"))
            if not is_local and (
                named := re.match(r"(?:struct|class|union|enum class|enum) (\w+)[^;:]*(?: :[^;:].*)?\{", line)
            ):
                files_of.setdefault(named[1], []).append(name_of(path))
    assert {name: paths for name, paths in files_of.items() if len(paths) > 1} == {}


def test_rooms_import_in_one_direction() -> None:
    wrong = []
    for path in files(".py", under=SOURCE):
        room = room_of(path)
        assert room in ROOMS, f"{name_of(path)} is in no room that ARCHITECTURE.md and ROOMS know"
        allowed = ROOMS[room] | {room}
        for name in imports(path):
            package, _, rest = name.partition(".")
            imported = rest.split(".")[0]
            # `from treecast import X` of a public name is an import of __init__, which knows the rooms: only cli may.
            inner = imported if imported in ROOMS or imported == "_native" else "__init__"
            if package == "treecast" and inner not in allowed and "*" not in allowed:
                wrong.append(f"{name_of(path)} imports {name}")
    assert wrong == []


def test_reserved_modules_stay_in_their_room() -> None:
    wrong = {
        (name_of(path), name.split(".")[0])
        for path in files(".py", under=SOURCE)
        for name in imports(path)
        if RESERVED.get(name.split(".")[0], room_of(path)) != room_of(path)
    }
    assert wrong == set(EXCEPTIONS.items())


def uses_of_the_world(path: Path) -> set[str]:
    """The names of WORLD that a file uses."""
    used = {name.split(".")[0] for name in imports(path)} | {name for name in imports(path) if name.startswith("os.")}
    for item in ast.walk(syntax(path)):
        if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == "os":
            used.add(f"os.{item.attr}")
    return used & WORLD.keys()


def test_time_chance_and_threads_stay_where_they_are_needed() -> None:
    used: dict[str, set[str]] = {name: set() for name in WORLD}
    for path in files(".py", under=SOURCE):
        for name in uses_of_the_world(path):
            used[name].add(room_of(path))
    assert used == {name: set(rooms) for name, rooms in WORLD.items()}


def test_chance_has_a_seed() -> None:
    """Of random there is only Random, which gets its seed when it is made: its functions share a hidden one."""
    drawn = {name for path in files(".py", under=SOURCE) for name in imports(path) if name.split(".")[0] == "random"}
    assert drawn == {"random.Random"}


def private_spark(path: Path) -> Iterator[str]:
    """What a file touches of Spark that is not public: Java objects, py4j, modules that Spark keeps for itself."""
    for item in ast.walk(syntax(path)):
        if isinstance(item, ast.Attribute) and item.attr in JAVA_OBJECTS:
            yield item.attr
        elif isinstance(item, ast.Constant) and isinstance(item.value, str):
            if re.fullmatch(r"pyspark(\.\w+)*", item.value) and item.value not in PUBLIC_SPARK:
                yield item.value
        elif isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names if alias.name.split(".")[0] == "py4j")
            yield from (alias.name for alias in item.names if is_private_spark(alias.name))
        elif isinstance(item, ast.ImportFrom) and item.module:
            if item.module.split(".")[0] == "py4j" or is_private_spark(item.module):
                yield item.module
            yield from (alias.name for alias in item.names if item.module == "pyspark" and alias.name.startswith("_"))


def is_private_spark(module: str) -> bool:
    return module.split(".")[0] == "pyspark" and module not in PUBLIC_SPARK


def test_what_spark_keeps_private_is_reached_in_one_file() -> None:
    touching = {name_of(path): sorted(set(private_spark(path))) for path in files(".py", under=SOURCE)}
    touching = {name: touched for name, touched in touching.items() if touched}
    assert set(touching) == {PRIVATE_SPARK_FILE}, touching


def test_only_the_bindings_know_python() -> None:
    pattern = re.compile(r"#include\s*[<\"](nanobind/|Python\.h|bindings)")
    knowing = {path.name for path in files(".cpp", ".hpp") if pattern.search(path.read_text(encoding="utf-8"))}
    assert all(name.startswith("bindings") for name in knowing), knowing


def test_the_processor_is_asked_by_cpuid() -> None:
    """`__builtin_cpu_supports` needs a table that the compiler of the wheels lacks: native/base/cpu.cpp asks CPUID."""
    sources = files(".cpp", ".hpp", under=ROOT / "native")
    assert [name_of(path) for path in sources if "__builtin_cpu_supports(" in path.read_text("utf-8")] == []


def test_native_lines_have_no_stray_white_space() -> None:
    wrong = [
        f"{name_of(path)}:{number}"
        for path in files(".cpp", ".hpp")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line != line.rstrip() or "\t" in line
    ]
    assert wrong == []


# What hashes without a seed, or draws one, and the file that alone may.
UNSEEDED = re.compile(r"std::hash\b|std::unordered_(?:multi)?(?:map|set)\s*<|0x9E3779B|random_device", re.IGNORECASE)
SEEDING = {
    "native/base/seeded_hash.hpp",
    "native/base/seeded_hash.cpp",
    "native/base/snapshot.cpp",  # a checksum against accidents
}


def test_every_hash_is_seeded() -> None:
    """Strangers write names, ids, queries and literals; a table whose hash they know is as slow as they like."""
    wrong = {
        name_of(path)
        for path in files(".cpp", ".hpp", under=ROOT / "native")
        if UNSEEDED.search(re.sub(r"//.*", "", path.read_text(encoding="utf-8")))
    }
    assert wrong == SEEDING


def test_names_say_what_is_inside() -> None:
    everything = files(*TEXT_SUFFIXES)
    parts = {part for path in everything for part in path.relative_to(ROOT).with_suffix("").parts}
    assert parts & BANNED_NAMES == set()


def test_nothing_is_called_a_node() -> None:
    """XML has elements, a machine has states, a query has steps. Here the names in Python are checked."""
    wrong = []
    for path in files(".py", under=SOURCE):
        for item in ast.walk(syntax(path)):
            for field in ("id", "name", "arg", "attr"):
                name = getattr(item, field, None)
                if isinstance(name, str) and re.search(r"(^|_)nodes?(_|$)", name.lower()):
                    wrong.append(f"{name_of(path)}: {name}")
    assert wrong == []


def test_texts_name_no_machine_and_no_unfinished_work() -> None:
    wrong = []
    extra = [ROOT / "Makefile", ROOT / ".ci" / "run", ROOT / ".gitignore"]
    for path in [*files(*TEXT_SUFFIXES), *extra]:
        text = path.read_text(encoding="utf-8", errors="replace")
        wrong += [f"{name_of(path)}: {banned}" for banned in BANNED_TEXTS if banned in text]
    assert wrong == []


# treecast is on no package index, and no release of Debian has each version of Java.
DEAD_ENDS = re.compile(r"""pip install[^\n]*['" ]treecast(?=['"`\s\[]|$)|treecast\[\w|openjdk-\d+""", re.MULTILINE)


def test_no_text_sends_readers_to_a_package_that_is_not_there() -> None:
    assert DEAD_ENDS.search("pip install treecast") and DEAD_ENDS.search("pip install -U 'treecast[serve]'")
    assert not DEAD_ENDS.search("pip install dist/treecast-0.2.0-py3-none-any.whl")
    texts = [ROOT / "README.md", ROOT / "SECURITY.md"]
    for folder in ("src", "docs", "examples", "deploy", "bench"):
        texts += files(*TEXT_SUFFIXES, under=ROOT / folder)
    dead_ends = [
        f"{name_of(path)}: {one}" for path in texts for one in DEAD_ENDS.findall(path.read_text("utf-8", "replace"))
    ]
    assert dead_ends == []
    own_form = [name_of(path) for path in files(".py", under=SOURCE) if "pip install '.[" in path.read_text("utf-8")]
    assert own_form == ["src/treecast/extras.py"], "a release changes it in one place"


def test_functions_have_type_hints() -> None:
    wrong = []
    for path in files(".py"):
        for item in functions(path):
            arguments = [
                *item.args.posonlyargs,
                *item.args.args,
                *item.args.kwonlyargs,
                item.args.vararg,
                item.args.kwarg,
            ]
            bare = [a.arg for a in arguments if a and not a.annotation and a.arg not in ("self", "cls")]
            if bare or item.returns is None:
                wrong.append(f"{name_of(path)}:{item.lineno} {item.name}")
    assert wrong == []


def test_modules_have_a_description() -> None:
    silent = [name_of(path) for path in files(".py") if not ast.get_docstring(syntax(path)) and path.stat().st_size]
    for path in files(".cpp", ".hpp"):
        described_in_header = path.suffix == ".cpp" and path.with_suffix(".hpp").exists()
        if not described_in_header and not path.read_text(encoding="utf-8").startswith("//"):
            silent.append(name_of(path))
    assert silent == []


def test_documents_mention_only_files_that_exist() -> None:
    link = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:|#)([^)#\s]+)")
    mention = re.compile(r"`((?:src|native|tests|docs|bench|tools|examples|\.ci)/[\w./*-]*)`")
    wrong = []
    for path in files(".md"):
        text = path.read_text(encoding="utf-8")
        for target in link.findall(text):
            if not (path.parent / target).exists():
                wrong.append(f"{name_of(path)}: {target}")
        for target in mention.findall(text):
            if not any(ROOT.glob(target.rstrip("/"))):
                wrong.append(f"{name_of(path)}: {target}")
    assert wrong == []


def test_public_names_are_few_and_there() -> None:
    names = treecast.__all__
    assert len(names) <= 24
    assert list(names) == sorted(names)
    assert all(hasattr(treecast, name) for name in names)
    assert [name for name in dir(treecast) if not name.startswith("__")] == sorted(names)


def test_version_is_stated_once_in_effect() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == treecast.__version__


def test_what_is_python_alone_is_not_run_twice() -> None:
    """Under the sanitizers these tests find nothing, and take minutes."""
    folders = ("overlay", "serve", "sim")
    paths = [path for folder in folders for path in (ROOT / "tests" / folder).glob("test_*.py")]
    assert len(paths) > 50
    twice = [path.name for path in paths if "\npytestmark = pytest.mark.house\n" not in path.read_text("utf-8")]
    assert twice == [], "add pytestmark = pytest.mark.house"


def test_every_dependency_has_its_reason() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    extras = project["project"]["optional-dependencies"]
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(requirement for extra in extras.values() for requirement in extra if not requirement.startswith("treecast")),
    ]
    decisions = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    for requirement in wanted:
        name = re.split(r"[<>=\[]", requirement)[0]
        assert re.search(r"[<>]=?\d.*<\d", requirement), f"{requirement}: a range with both ends is wanted"
        assert f"**{name}**" in decisions, name


def test_what_fails_in_a_thread_fails_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_thread.py").write_text(
        "import threading\n\ndef fail():\n    assert False\n\n"
        "def test_one():\n    thread = threading.Thread(target=fail)\n    thread.start()\n    thread.join()\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run([*command, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout
