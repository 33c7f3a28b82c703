"""The paper's operator network over YFilter's NFA: what ONYX describes, to be measured (ONYX, sections 4.1 to 4.3).

Use it to see what sharing, short-cuts and priorities do, operator by operator. To match documents use `Index`: its
engine has no operators to skip or to schedule, and is faster by far. A network broker matches in two stages, first the
routing table, then its own subscriptions, each an index.

    >>> from treecast.document import read
    >>> plan = Plan()
    >>> plan.add_route("broker5", '/news[@area="SF"][.//sport]')
    >>> plan.add_local("q1", "//sport[@team]")
    >>> outcome = run_plan(plan, read(b'<news area="SF"><sport/></news>'))
    >>> outcome.links, outcome.local, outcome.predicates
    (['broker5'], [], 2)

The parts: `path_nfa` (the machine), `decomposition` (a query as linear paths), `plan` (the network), `plan_run`
(short-cuts and priorities), `path_tuples` and `value_tests` (what operators work on).
"""

from __future__ import annotations

from treecast.engines.operators.plan import Build, Operator, Plan, Priority, Target
from treecast.engines.operators.plan_run import Outcome, RunSettings, Watch, run_plan

__all__ = ["Build", "Operator", "Outcome", "Plan", "Priority", "RunSettings", "Target", "Watch", "run_plan"]
