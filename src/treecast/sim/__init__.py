"""A simulated world in which peers are tested: virtual time, a faulty network, faulty disks, and checkers.

The peers are those of `treecast.overlay`, unchanged. Everything that could differ between two runs comes from one seed;
so a run that fails can be repeated, and its faults can be shortened to those that it needs.

`python -m treecast.sim --seeds 100` runs the scenario of a broker with its clients. For developers: nothing here is
needed to use treecast.
"""

from treecast.sim.faults import Crash, Fault, FaultRates, HostFault, LinkFault, Partition, draw_faults
from treecast.sim.host import Host
from treecast.sim.storage import SimulatedStorage
from treecast.sim.world import World

__all__ = [
    "Crash",
    "Fault",
    "FaultRates",
    "Host",
    "HostFault",
    "LinkFault",
    "Partition",
    "SimulatedStorage",
    "World",
    "draw_faults",
]
