"""A single broker as a state machine: publishing, subscriptions, deliveries, retention. See `broker.py`."""

from treecast.overlay.broker.broker import Broker
from treecast.overlay.broker.settings import BrokerSettings

__all__ = ["Broker", "BrokerSettings"]
