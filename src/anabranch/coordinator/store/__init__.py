"""The coordinator's durable memory: one place knows the tables and the queries."""

from anabranch.coordinator.store.records import ContainerRecord, DeploymentRecord, Event, LeaderRecord
from anabranch.coordinator.store.store import Store

__all__ = ["ContainerRecord", "DeploymentRecord", "Event", "LeaderRecord", "Store"]
