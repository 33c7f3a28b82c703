"""What a network of selective publishing has to survive, in processes: for the tests here and those at full size."""

from __future__ import annotations

import signal
from pathlib import Path

from support.selective_processes import SelectiveProcesses, view, wait_for_view


def firm(name: str = "Ida", pay: int = 9, more: str = "") -> str:
    return f"<firm><staff><name>{name}</name><pay>{pay}</pay></staff><news><item>one</item>{more}</news></firm>"


def play(directory: Path, levels: list[int], *, has_stalls: bool = False) -> None:
    """All levels lose a broker, one after the other, and two lose one at once; a broker joins each time."""
    with SelectiveProcesses(directory, levels) as network:
        network.publish(firm())
        network.grant("desk", ["//staff"], ["//pay"], ["ann", "bob"])
        network.grant("press", ["//news"], [], ["eve"])
        ann, bob, eve = (
            network.enrol(group, member, *paths)
            for group, member, paths in (("desk", "ann", ()), ("desk", "bob", ("//name",)), ("press", "eve", ()))
        )
        for home in (ann, bob, eve):
            network.follow(home)
        wait_for_view(ann, ["<staff><name>Ida</name></staff>"])
        wait_for_view(bob, ["<name>Ida</name>"])
        wait_for_view(eve, ["<news><item>one</item></news>"])

        # A broker of each level dies, and another one joins. Then two at once that are not adjacent.
        victims: list[tuple[int, ...]] = [(rank,) for rank in range(1, len(levels) + 1)]
        if len(levels) > 2:
            victims.append((1, 3))
        for turn, ranks in enumerate(victims):
            for rank in ranks:
                line = network.levels[rank - 1].pop(0)
                line.end(signal.SIGKILL)
                if rank < len(levels):  # members are told of brokers when they start
                    network.join(rank, f"j{turn}-{rank}")
            network.publish(firm(f"Ida {turn}", pay=turn, more=f"<item>{turn}</item>"))
            wait_for_view(ann, [f"<staff><name>Ida {turn}</name></staff>"])
            wait_for_view(bob, [f"<name>Ida {turn}</name>"])
            wait_for_view(eve, [f"<news><item>one</item><item>{turn}</item></news>"])

        # Connections are lost: a broker of each level stops for longer than others wait for it, and then goes on; or it
        # is killed and comes back where it was.
        for turn, rank in enumerate(range(1, len(levels) + 1 if has_stalls else 1)):
            line = network.levels[rank - 1][-1]
            assert line.process is not None
            line.process.send_signal(signal.SIGSTOP)
            network.publish(firm(f"Max {turn}"))
            wait_for_view(ann, [f"<staff><name>Max {turn}</name></staff>"])
            line.process.send_signal(signal.SIGCONT)
            network.publish(firm(f"Leo {turn}"))
            wait_for_view(ann, [f"<staff><name>Leo {turn}</name></staff>"])
            line.end(signal.SIGKILL)
            line.start()
            network.publish(firm(f"Ida {len(victims) - 1}"))
            wait_for_view(ann, [f"<staff><name>Ida {len(victims) - 1}</name></staff>"])
            wait_for_view(bob, [f"<name>Ida {len(victims) - 1}</name>"])

        # Away, and back: what has changed meanwhile arrives. Revoked: nothing does.
        network.leave(ann)
        network.revoke("desk", "bob")
        network.publish(firm("Eva", pay=100))
        assert network.publish(firm("Eva", pay=101))["changed"] == []
        wait_for_view(eve, ["<news><item>one</item></news>"])
        network.follow(ann)
        wait_for_view(ann, ["<staff><name>Eva</name></staff>"])
        assert view(bob) == [f"<name>Ida {len(victims) - 1}</name>"]
