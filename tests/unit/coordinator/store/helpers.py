"""Stores for tests, and a look at their databases past them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from anabranch.coordinator.jobs import plans
from anabranch.coordinator.store import Event, Store
from anabranch.model.deployment_state import DeploymentState
from tests.unit.coordinator.helpers import plan


def event(what: str = "planned") -> Event:
    return Event(kind="other", job="delays", at=5.0, who="user", what=what)


def filled(store: Store) -> Store:
    store.create_deployment(plans.numbered(plan(), 1), DeploymentState.PLANNED, event())
    return store


@contextmanager
def raw(url: str) -> Iterator[sa.Connection]:
    """A transaction on the database of a store."""
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()
