"""The store: the coordinator's database. All of its tables and SQL queries are in this package."""

from typing import TYPE_CHECKING, Any

from anabranch.coordinator.store.records import (
    ChangeStep,
    ContainerRecord,
    DeploymentRecord,
    Event,
    EventRange,
    LeaderRecord,
)

if TYPE_CHECKING:
    from anabranch.coordinator.store.store import Store

__all__ = ["ChangeStep", "ContainerRecord", "DeploymentRecord", "Event", "EventRange", "LeaderRecord", "Store"]


def __getattr__(name: str) -> Any:
    """Import ``Store`` only when it is used, because importing SQLAlchemy takes longer than most CLI commands do."""
    if name == "Store":
        from anabranch.coordinator.store.store import Store

        return Store
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
