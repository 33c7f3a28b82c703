"""Failures of a network of real processes: what fails, how long until deliveries flow again, what was lost (ONYX, 3.1).

The paper says that backup nodes for the registration service and the brokers, or other techniques, can make the system
tolerate faults, and leaves it there. Here `treecast up --brokers N` runs on this machine, with a subscriber at every
broker, and documents keep coming. A process is killed, or stopped for a while, which is what a broken link is to the
others; with `--replicas 2` its disk is lost as well. Then a document is published. Deliveries flow again when every
subscriber has it. In the end every subscriber must have every document that was acknowledged, each under one id.

Times are wall-clock times, with the start of the process that takes the place of the one that died.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.panels import bars
from treecast.experiments.rules import at_most
from treecast.experiments.running_network import RunningNetwork
from treecast.experiments.session import Session
from treecast.report import Panel

FAILURES = ("leaf", "inner", "root", "registry", "pause", "leaf-disk", "root-disk")
LOST_DISK = "-disk"
"""At the end of what fails: with two replicas, and the disk is lost too."""
PAUSE_S = 3.0
"""How long a broker is stopped; no other process is started in its place."""
BETWEEN_S = 0.5
DOCUMENT_PAUSE_S = 0.05
LOAD_MAX = 4.0  # of the machine, beyond which slow recoveries decide nothing
FAILURES_MIN = 3  # of each kind, for a verdict
BAR_S = 5.0


def points(sizes: Sizes) -> list[Point]:
    return [{"brokers": int(brokers), "fails": fails} for brokers in sizes.values for fails in FAILURES]


def measure(session: Session, point: Point) -> list[Row]:
    """`documents` of the sizes is how often something fails."""
    brokers, fails = point["brokers"], point["fails"]
    load = os.getloadavg()[0]
    session.note("processes are those of `treecast up` on this machine; documents are made here")
    replicas = 2 if fails.endswith(LOST_DISK) else 1
    with tempfile.TemporaryDirectory() as directory, RunningNetwork(Path(directory), brokers, replicas) as network:
        roles = network.roles()
        name = {"registry": "registry", "pause": roles["leaf"]}.get(fails) or roles.get(fails.removesuffix(LOST_DISK))
        if name is None:
            session.note(f"with {brokers} brokers no broker is between the root and others")
            return []
        is_over, acknowledged_documents = threading.Event(), list[bytes]()
        writer = threading.Thread(
            target=lambda: acknowledged_documents.extend(
                network.publish_all(_number_documents("load"), DOCUMENT_PAUSE_S, is_over)
            )
        )
        writer.start()
        times = []
        for probe, _ in zip(_number_documents("probe"), range(session.sizes.documents), strict=False):
            time.sleep(BETWEEN_S)
            if replicas > 1:
                network.wait_for_backups()
            session.say(f"{brokers} brokers, {fails}: {name} fails")
            times.append(_fail(network, fails, name, probe))
            acknowledged_documents.append(probe)
        is_over.set()
        writer.join()
        lost_count, repeat_count = network.wait_for(acknowledged_documents), network.repeats()
    if lost_count or repeat_count:
        session.problems.append(f"{fails}: {lost_count} deliveries are lost, {repeat_count} came under two ids")
    return [
        {
            "brokers": brokers,
            "fails": fails,
            "failures": len(times),
            "median_s": median(times),
            "worst_s": max(times),
            "acknowledged": len(acknowledged_documents),
            "lost": lost_count,
            "twice": repeat_count,
            "load": load,
        }
    ]


def _number_documents(kind: str) -> Iterator[bytes]:
    number = 0
    while True:
        number += 1
        yield b"<%s n='%d'/>" % (kind.encode(), number)


def _fail(network: RunningNetwork, fails: str, name: str, probe: bytes) -> float:
    """Seconds from a failure (or from the end of a pause) until every subscriber has what is published then."""
    begin = time.monotonic()
    if fails == "pause":
        network.signal(name, signal.SIGSTOP)
        time.sleep(PAUSE_S)
        network.signal(name, signal.SIGCONT)
        begin = time.monotonic()
    elif fails.endswith(LOST_DISK):
        network.lose(name)
    else:
        network.signal(name)
    network.publish(probe)
    network.wait_for([probe])
    return time.monotonic() - begin


# -- verdict


def verdict(rows: Sequence[Row]) -> list[Finding]:
    return [_nothing_lost(rows), _in_time(rows), _registry(rows)]


def _short(rows: Sequence[Row]) -> str:
    least = min((row["failures"] for row in rows), default=0)
    return "" if least >= FAILURES_MIN else f"a verdict takes {FAILURES_MIN} failures of a kind; this run had {least}"


def _nothing_lost(rows: Sequence[Row]) -> Finding:
    wrong_count = sum(row["lost"] + row["twice"] for row in rows)
    short = _short(rows)
    return Finding(
        "fault-tolerance can be achieved: failures of brokers and of the registration service lose nothing",
        f"{sum(row['acknowledged'] for row in rows):,} documents acknowledged; {wrong_count} deliveries are missing or "
        f"wrong",
        "agree if none is, else differs",
        "differs" if wrong_count else "inconclusive" if short else "agree",
        short,
        float(wrong_count),
    )


def _in_time(rows: Sequence[Row]) -> Finding:
    of_brokers = [row for row in rows if row["fails"] != "registry"]
    worst = max((row["worst_s"] for row in of_brokers), default=None)
    load = max((row["load"] for row in of_brokers), default=0.0)
    short = _short(of_brokers)
    if worst is not None and worst > BAR_S and load > LOAD_MAX:
        short = short or f"the load of the machine was {load:.1f}, more than {LOAD_MAX}"
    time_texts = "; ".join(
        f"{row['fails']} {row['median_s']:.2f} s, worst {row['worst_s']:.2f} s" for row in of_brokers
    )
    return Finding(
        "a broker that fails is replaced, and deliveries flow again (the paper gives no time; our bar is 5 s)",
        f"deliveries flow again after: {time_texts}",
        f"agree if it never takes more than {BAR_S:.0f} s, differs above {2 * BAR_S:.0f} s",
        "inconclusive" if short else at_most(worst, agree=BAR_S, differs=2 * BAR_S),
        short,
        worst,
    )


def _registry(rows: Sequence[Row]) -> Finding:
    own = [row for row in rows if row["fails"] == "registry"]
    worst = max((row["worst_s"] for row in own), default=None)
    short = _short(own)
    return Finding(
        "the registration service is not on the way of documents: deliveries flow on while it is away",
        f"a document takes at most {worst or 0:.2f} s while the registry is killed and started again",
        "agree up to 1 s, differs above 5 s",
        "inconclusive" if short else at_most(worst, agree=1.0, differs=BAR_S),
        short,
        worst,
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    x = ("fails", "what fails")
    return [
        bars(rows, "Until deliveries flow, median", x, ("median_s", "seconds"), key="brokers", log_y=False),
        bars(rows, "Until deliveries flow, worst", x, ("worst_s", "seconds"), key="brokers", log_y=False),
    ]


EXPERIMENT = Experiment(
    name="onyx-recovery",
    paper="ONYX",
    section="3.1",
    title="Failures: how long until deliveries flow again, and what is lost",
    found="Fault-tolerance can be achieved by backup nodes for the registration service and the brokers, or by other "
    "techniques. That is beyond the scope of the paper, which measures none of it.",
    parameters="brokers, and what fails: a leaf, an inner broker or the root of the tree, the registry (all killed), "
    f"a leaf that is stopped for {PAUSE_S:.0f} s, counted from its end, or with two replicas a leaf or the root whose "
    "disk is lost as well. Wall-clock time, with real processes on "
    "loopback, disks and HTTP; documents keep coming, and `acknowledged` counts them. "
    "`documents` among the sizes is how often each fails",
    columns=("brokers", "fails", "failures", "median_s", "worst_s", "acknowledged", "lost", "twice", "load"),
    full=Sizes((1,), 5, values=(8,)),
    quick=Sizes((1,), 1, values=(3,)),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
