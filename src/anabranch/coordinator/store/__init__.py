"""The coordinator's durable memory: the only place with tables and queries."""

from typing import TYPE_CHECKING, Any

from anabranch.coordinator.store.records import ContainerRecord, DeploymentRecord, Event, EventRange, LeaderRecord

if TYPE_CHECKING:
    from anabranch.coordinator.store.store import Store

__all__ = ["ContainerRecord", "DeploymentRecord", "Event", "EventRange", "LeaderRecord", "Store"]


def __getattr__(name: str) -> Any:
    """Import the store itself on demand. SQLAlchemy takes longer to import than most verbs of the command line run, and
    most verbs ask a coordinator instead.
    """
    if name == "Store":
        from anabranch.coordinator.store.store import Store

        return Store
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
