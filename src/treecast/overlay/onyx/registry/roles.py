"""Who serves a broker that has replicas, and who is its backup: decided in terms, and told to the hosts.

A host with replicas (`treecast.overlay.onyx.network_host`) tells the registries what it has of each broker, again and
again. The registry in charge decides; what it has decided is stored, in its pair, before any host is told. Rules:

- A broker begins at its own host. Its backup is another host: one with few replicas, and near.
- **A primary that is silent, has lost its data or has refused** is replaced by a host that has all that was
  acknowledged. If there is none, the broker waits: the one that has it may come back.
- **A backup that is silent**, or for which answers wait too long, is replaced, and if there is no other host the
  primary serves alone. It gets a backup as soon as there is one.
- **Coming home**: a broker that another host has taken over goes back when its own host has been its backup for
  `return_ms`.
- **Losses**: a primary that served, and has lost its data, when nobody has all of it: whoever has the most goes on, as
  another store; if nobody has anything, the broker begins anew. `losses` counts that.

A decision that turns out to be wrong costs time, and nothing else: hosts refuse what they must not do.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from treecast.overlay.broker.rows import decode
from treecast.overlay.broker.turn import Turn
from treecast.overlay.onyx.control_messages import HostBeat
from treecast.overlay.onyx.registry.rows import ROLES, RoleRow
from treecast.overlay.onyx.registry.settings import RegistrySettings
from treecast.overlay.onyx.view import distance, host_name
from treecast.overlay.replica.messages import Role, Standing
from treecast.overlay.shadow import Shadow

SERVING = ("alone", "joining", "paired", "waiting")
OUT = ("refused", "lost")
PAST_MAX = 64
"""Terms that are remembered one by one."""


class _Host(msgspec.Struct):
    """The last sign of life of a host."""

    beat: HostBeat
    heard_ms: int


class Roles:
    """Roles of all brokers with replicas. What hosts have said is in memory: after a restart they are waited for."""

    def __init__(self, shadow: Shadow, settings: RegistrySettings) -> None:
        self._settings = settings
        self.load(shadow)
        self._hosts: dict[str, _Host] = {}
        self._standings: dict[tuple[str, str], Standing] = {}  # by host and broker: what has data
        self._out: dict[str, tuple[int, int]] = {}  # brokers whose primary will not serve in a term, and since when
        self._told: dict[tuple[str, str], tuple[Role, int]] = {}  # by host and broker: what, and when
        self._since_ms = 0
        self._silent_ms = settings.silent_ms
        self._looked_ms: int | None = None
        self._changed_ms: dict[str, int] = {}
        self._left_ms: dict[tuple[str, str], int] = {}  # by broker and host: backups that were of no use
        self.takeovers = self.losses = 0

    def load(self, shadow: Shadow) -> None:
        """Read what was decided, perhaps by the other registry."""
        self.rows: dict[str, RoleRow] = {broker: decode(data, RoleRow) for broker, data in shadow.rows(ROLES, "")}

    def primary_of(self, broker: str) -> str:
        """The host that serves a broker; empty: it has no replicas."""
        row = self.rows.get(broker)
        return row.primary if row is not None else ""

    def backup_of(self, broker: str) -> str:
        row = self.rows.get(broker)
        return row.backup if row is not None else ""

    def state_of(self, broker: str) -> str:
        """What its primary has said last."""
        row = self.rows.get(broker)
        standing = self._standings.get((row.primary, broker)) if row is not None else None
        return standing.state if standing is not None and row is not None and standing.term == row.term else ""

    def replicas_of(self, broker: str) -> str:
        """How the replicas of a broker stand, for people: "paired" only once its backup has all that was acknowledged.
        Its primary is paired a little earlier, with what it acknowledged alone still on the way."""
        state = self.state_of(broker)
        if state == "paired" and self._reign(self.backup_of(broker), broker) != self.rows[broker].term:
            return "joining"
        return state

    def address(self, host: str) -> str | None:
        known = self._hosts.get(host)
        return known.beat.address if known is not None else None

    # --- what hosts say -----------------------------------------------------------------------------------------------

    def hear(self, host: str, beat: HostBeat, turn: Turn) -> bool:
        """A host is there. False: its name is not its own, or there is no room for another one."""
        if host != host_name(beat.broker) or (host not in self._hosts and not self._make_room(turn.now_ms)):
            return False
        known = self._hosts.get(host)
        if known is None or known.beat.life != beat.life:
            self._told = {key: told for key, told in self._told.items() if key[0] != host}
        self._hosts[host] = _Host(beat, turn.now_ms)
        listed = {standing.broker for standing in beat.standings}
        for key in [key for key in self._standings if key[0] == host and key[1] not in listed]:
            del self._standings[key]
        for standing in beat.standings:
            self.take(host, standing, turn)
        return True

    def _make_room(self, now_ms: int) -> bool:
        if len(self._hosts) >= self._settings.brokers_max:
            for name in [name for name in self._hosts if not self._is_here(name, now_ms)][:1]:
                del self._hosts[name]
        return len(self._hosts) < self._settings.brokers_max

    def take(self, host: str, standing: Standing, turn: Turn) -> None:
        """What a host has of a broker."""
        if host not in self._hosts:
            return
        broker, row = standing.broker, self.rows.get(standing.broker)
        if standing.state not in OUT and (standing.group or standing.complete_term):
            self._standings[host, broker] = standing
        elif standing.state != "refused":
            self._standings.pop((host, broker), None)  # it has nothing
        if row is None:
            return
        idle = range(standing.idle_since, standing.term + 1) if standing.idle_since else range(0)
        past = [entry for entry in row.past if entry[1] != host or entry[0] not in idle]
        served = row.served
        if standing.term == row.term and host == row.primary:
            if standing.state in SERVING:
                served = row.term
                self._out.pop(broker, None)
            elif standing.state in OUT and not self._is_out(broker):
                self._out[broker] = (row.term, turn.now_ms)
        if standing.state == "refused" or (standing.state == "lost" and served < standing.term):
            # It will not serve in this term, and did not: the others need not have anything of it.
            past = [entry for entry in past if entry[:2] != (standing.term, host)]
        if served != row.served or len(past) < len(row.past):
            self._put(broker, msgspec.structs.replace(row, served=served, past=past), turn)

    def answer(self, host: str, turn: Turn) -> None:
        """Tell a host what it does not know."""
        for broker, row in self.rows.items():
            known = self._standings.get((host, broker))
            if host not in (row.primary, row.backup) and known is None:
                continue
            role = self._role(broker, row)
            told, told_ms = self._told.get((host, broker), (None, 0))
            is_old = not told_ms <= turn.now_ms < told_ms + self._settings.repeat_ms  # it may have got lost
            if known is None or known.term < row.term or told != role or is_old:
                self._tell(host, broker, role, turn)

    def _tell(self, host: str, broker: str, role: Role, turn: Turn) -> None:
        self._told[host, broker] = (role, turn.now_ms)
        turn.send(host, role)

    def _role(self, broker: str, row: RoleRow) -> Role:
        addresses = {host: known.beat.address for host in (row.primary, row.backup) if (known := self._hosts.get(host))}
        after = 0 if row.is_stale else self._after(row, row.primary)
        return Role(broker, row.term, row.primary, row.backup, after, not row.served, row.is_stale, addresses)

    @staticmethod
    def _after(row: RoleRow, host: str) -> int:
        """The last term in which another host may have served."""
        return max((term for term, other, _ in row.past if other != host), default=row.floor)

    # --- decisions ----------------------------------------------------------------------------------------------------

    def expect_all(self, now_ms: int) -> None:
        """All get as much time as if they had been heard now."""
        self._since_ms = now_ms
        for known in self._hosts.values():
            known.heard_ms = min(known.heard_ms, now_ms)

    def tick(self, turn: Turn) -> None:
        now_ms, last_ms = turn.now_ms, self._looked_ms
        self._looked_ms = now_ms
        if last_ms is None or not last_ms <= now_ms < last_ms + self._settings.silent_ms // 2:
            self.expect_all(now_ms)
        self._doubt(now_ms)
        for (host, broker), standing in list(self._standings.items()):
            self._adopt(host, broker, standing, turn)
        for known in list(self._hosts.values()):
            self._begin(known.beat.broker, turn)
        for broker in list(self.rows):
            self._decide(broker, turn)

    def _doubt(self, now_ms: int) -> None:
        """If most hosts are silent, it is more likely that this registry is cut off."""
        self._silent_ms = self._settings.silent_ms
        hosts = {host for row in self.rows.values() for host in (row.primary, row.backup) if host}
        silent = [host for host in hosts if not self._is_here(host, now_ms)]
        if 2 * len(silent) > len(hosts):
            self._silent_ms = max(self._settings.doubt_ms, self._settings.silent_ms)

    def _is_out(self, broker: str) -> bool:
        """The primary has said that it will not serve."""
        return broker in self._out and self._out[broker][0] == self.rows[broker].term

    def _adopt(self, host: str, broker: str, standing: Standing, turn: Turn) -> None:
        """A host serves in a term of which this registry knows nothing: it has lost its store."""
        row = self.rows.get(broker)
        if standing.state in SERVING and (row is None or standing.term > row.term):
            term = standing.term + 1
            past = [(standing.term, host, ""), (term, host, "")]
            self._appoint(broker, RoleRow(term, host, "", standing.term, past), turn)

    def _begin(self, broker: str, turn: Turn) -> None:
        """A broker that nobody knows of. If a host has data of it, whoever serves it says so soon."""
        if broker in self.rows or any(known == broker for _, known in self._standings):
            return
        home = host_name(broker)
        if self._is_here(home, turn.now_ms):
            backup = self._choose_backup(broker, home, turn.now_ms)
            self._appoint(broker, RoleRow(1, home, backup, 0, [(1, home, backup)]), turn)

    def _decide(self, broker: str, turn: Turn) -> None:
        row, now_ms = self.rows[broker], turn.now_ms
        if self._is_out(broker) or not self._is_here(row.primary, now_ms):
            self._replace(broker, row, turn)
        elif self.state_of(broker) in SERVING:
            self._keep(broker, row, turn)
        elif not row.served and row.backup and not self._is_here(row.backup, now_ms):
            # It is asked whether it knows of the broker, and cannot answer.
            self._change(broker, row.primary, self._choose_backup(broker, row.primary, now_ms), turn)

    def _replace(self, broker: str, row: RoleRow, turn: Turn) -> None:
        """The primary does not serve: another one has to."""
        is_out = self._is_out(broker)
        fitting = [
            host
            for host in self._with_data(broker, turn.now_ms)
            if self._reign(host, broker) >= max(self._after(row, host), 1) and (is_out or host != row.primary)
        ]
        if fitting:
            best = max(fitting, key=lambda host: (host == row.backup, self._reign(host, broker), host))
            self.takeovers += best != row.primary
            self._change(broker, best, self._choose_backup(broker, best, turn.now_ms), turn)
        elif is_out:
            self._salvage(broker, row, turn)

    def _salvage(self, broker: str, row: RoleRow, turn: Turn) -> None:
        """The primary has lost what it had, and nobody has all of it."""
        now_ms, since_ms = turn.now_ms, self._out[broker][1]
        others = {row.backup, *(host for entry in row.past for host in entry[1:])} - {"", row.primary}
        if since_ms <= now_ms < since_ms + self._settings.lost_ms:
            return  # what others have said may be older than what they have
        is_over = not since_ms <= now_ms < since_ms + self._settings.salvage_ms
        if not is_over and not all(self._has_spoken(host, since_ms, now_ms) for host in others):
            return  # one of them may have more
        left = [host for host in self._with_data(broker, now_ms) if host != row.primary]
        self.losses += 1
        term = row.term + 1
        if left:
            best = max(left, key=lambda host: (self._reign(host, broker), self._standings[host, broker].group, host))
            backup = self._choose_backup(broker, best, now_ms)
            self._appoint(broker, RoleRow(term, best, backup, row.served, [(term, best, backup)], 0, True), turn)
        else:
            self._appoint(broker, RoleRow(term, row.primary, "", 0, [(term, row.primary, "")]), turn)

    def _keep(self, broker: str, row: RoleRow, turn: Turn) -> None:
        """The primary serves: see to its backup, and to whether the broker is at home."""
        now_ms, home, state = turn.now_ms, host_name(broker), self.state_of(broker)
        if row.backup and (state == "waiting" or not self._is_here(row.backup, now_ms)):
            self._left_ms[broker, row.backup] = now_ms
            self._change(broker, row.primary, self._choose_backup(broker, row.primary, now_ms, row.backup), turn)
        elif not row.backup:
            backup = self._choose_backup(broker, row.primary, now_ms)
            if backup:
                self._change(broker, row.primary, backup, turn)
        elif row.primary != home and state == "paired" and self._is_here(home, now_ms):
            changed_ms = self._changed_ms.get(broker, 0)
            if changed_ms <= now_ms < changed_ms + self._settings.return_ms:
                return
            if row.backup != home:
                if not self._was_left(broker, home, now_ms):
                    self._change(broker, row.primary, home, turn)
            elif self._reign(home, broker) == row.term:
                self._change(broker, home, row.primary, turn)

    def _change(self, broker: str, primary: str, backup: str, turn: Turn) -> None:
        row = self.rows[broker]
        term = row.term + 1
        past = [*row.past, (term, primary, backup)]
        floor = max((old for old, _, _ in past[:-PAST_MAX]), default=row.floor)
        self._appoint(broker, RoleRow(term, primary, backup, row.served, past[-PAST_MAX:], floor), turn)

    def _appoint(self, broker: str, row: RoleRow, turn: Turn) -> None:
        self._put(broker, row, turn)
        self._changed_ms[broker] = turn.now_ms
        for host in dict.fromkeys((row.primary, row.backup)):
            if host in self._hosts:
                self._tell(host, broker, self._role(broker, row), turn)

    def _put(self, broker: str, row: RoleRow, turn: Turn) -> None:
        self.rows[broker] = row
        turn.put(ROLES, broker, row)

    # --- hosts --------------------------------------------------------------------------------------------------------

    def _is_here(self, host: str, now_ms: int) -> bool:
        known = self._hosts.get(host)
        heard_ms = max(known.heard_ms if known is not None else 0, self._since_ms)
        return (known is not None or bool(self._since_ms)) and heard_ms <= now_ms < heard_ms + self._silent_ms

    def _has_spoken(self, host: str, since_ms: int, now_ms: int) -> bool:
        """It was heard since then, and is still there."""
        return self._is_here(host, now_ms) and host in self._hosts and self._hosts[host].heard_ms > since_ms

    def _with_data(self, broker: str, now_ms: int) -> Iterable[str]:
        return [host for host, of in self._standings if of == broker and self._is_here(host, now_ms)]

    def _reign(self, host: str, broker: str) -> int:
        """The last term in which a host has all that was acknowledged; 0: in none."""
        standing = self._standings.get((host, broker))
        if standing is None:
            return 0
        return standing.complete_term if standing.state == "backup" else standing.term

    def _was_left(self, broker: str, host: str, now_ms: int) -> bool:
        left_ms = self._left_ms.get((broker, host))
        return left_ms is not None and left_ms <= now_ms < left_ms + self._settings.rejoin_ms

    def _choose_backup(self, broker: str, primary: str, now_ms: int, given_up: str = "") -> str:
        """Another host, with few replicas, and near; its own one first. Empty: there is none."""
        counts: dict[str, int] = {}
        for row in self.rows.values():
            counts[row.backup] = counts.get(row.backup, 0) + 1
        place = self._hosts[primary].beat.location if primary in self._hosts else (0.0, 0.0)
        others = [
            (name != host_name(broker), counts.get(name, 0), distance(place, known.beat.location), name)
            for name, known in self._hosts.items()
            if name not in (primary, given_up)
            and self._is_heard(known, now_ms)
            and not self._was_left(broker, name, now_ms)
        ]
        return min(others)[-1] if others else ""

    def _is_heard(self, known: _Host, now_ms: int) -> bool:
        return known.heard_ms <= now_ms < known.heard_ms + self._settings.silent_ms
