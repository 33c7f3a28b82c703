"""The registration service: who takes part, where sources and subscriptions go, and a backup that can take over."""

from treecast.overlay.onyx.registry.registry import Registry
from treecast.overlay.onyx.registry.settings import RegistrySettings

__all__ = ["Registry", "RegistrySettings"]
