"""The connection to a cluster: one admin client per process, a time limit for answers, and explanations of errors."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]

from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError, ConfigError, UsageError
from anabranch.systems.kafka import clients

__all__ = ["Cluster", "Health", "PerProcess"]

K = TypeVar("K")
V = TypeVar("V")
Client = TypeVar("Client")

_STEP_SECONDS = 0.05
_AGAIN_SECONDS = 0.25
"""How many seconds to wait, after a client has given up a request, before a new client repeats the request."""
_SHORTEST, _SLOWER = 0.125, 4.0
"""How long a request's first client waits before another client makes the request, too: ``_SLOWER`` times as long as
the last answer took, but at least the share ``_SHORTEST`` of ``patience``, and at most ``patience``.
"""
_CLIENTS = 3
"""How many clients make a request."""

_inherited: list[Any] = []

_AUTHENTICATION = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
}
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_NO_ANSWER = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._PARTIAL,
    KafkaError.REQUEST_TIMED_OUT,
}
_PASSING = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
}


class Health:
    """What a client reports about its connections while a call waits for an answer.

    Attributes:
        refused: the error with which a broker has refused the client; None if none has.
        last: the text of the last error; empty if there was none.
    """

    def __init__(self) -> None:
        self.refused: KafkaError | None = None
        self.last = ""

    def __call__(self, error: KafkaError) -> None:
        if (error.code() in _AUTHENTICATION and not _is_cut_off(error)) or error.code() == KafkaError._SSL:
            self.refused = error
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last = error.str()


def _is_cut_off(error: KafkaError) -> bool:
    """Whether a login was interrupted because the broker went away. librdkafka reports this with the same code as a
    refused login.
    """
    return "Broker transport failure" in error.str()


class PerProcess(Generic[V]):
    """A value that each process creates with ``make`` when it first needs it.

    A forked process creates its own value, because librdkafka's threads aren't forked. The inherited value is never
    destroyed, because the process would then wait forever for these threads.
    """

    def __init__(self, make: Callable[[], V]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: tuple[int, V] | None = None

    def get(self) -> V:
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                if self._made is not None:
                    _inherited.append(self._made)
                self._made = (os.getpid(), self._make())
            return self._made[1]

    def drop(self, value: V) -> None:
        """Forget ``value``, so that the next :meth:`get` creates a new value. If :meth:`get` already returns a value
        other than ``value``, do nothing.
        """
        with self._lock:
            if self._made is not None and self._made[1] is value:
                self._made = None


class Cluster:
    """The cluster that settings describe. Thread-safe; can be pickled, and inherited by a forked process.

    Args:
        patience: how many seconds to wait for an answer, or for progress of a longer operation.
    """

    def __init__(self, settings: KafkaSettings, patience: float = 15.0) -> None:
        self.settings = settings
        self.patience = patience
        self._admin = PerProcess(lambda: self.open(AdminClient))
        self._first_wait = patience * _SHORTEST

    def __reduce__(self) -> tuple[type[Cluster], tuple[KafkaSettings, float]]:
        return Cluster, (self.settings, self.patience)

    @property
    def shown(self) -> str:
        return clients.shown(self.settings)

    def metadata(self, doing: str, topic: str | None = None) -> ClusterMetadata:
        """The running brokers, and the metadata of topics by name: of the topic ``topic`` or, if ``topic`` is None, of
        all topics. If there is no answer soon, the request is repeated with a new client, as in :meth:`ask`.

        The request is also repeated if the broker's answer lists no brokers. A broker gives such an answer while it
        starts, and after it has lost contact with the controller.

        This class never calls ``describe_cluster``: if an answer to that call lists no brokers, librdkafka 2.16 ends
        the whole process with "rd_kafka_admin_response_parse: Assertion `rko_result' failed".

        Raises:
            AnabranchError: the brokers don't answer, or they refuse the client. ``doing`` says what was attempted.
        """
        wait, health = self._first_wait, None
        deadline = time.monotonic() + wait + self.patience
        while True:
            client, asked = self._admin.get(), time.monotonic()
            try:
                found: ClusterMetadata = client[0].list_topics(topic, timeout=wait)
                if not found.brokers:
                    raise KafkaException(KafkaError(KafkaError._PARTIAL, "the broker knows no brokers"))
            except KafkaException as error:
                client[0].poll(_AGAIN_SECONDS)
                self._admin.drop(client)
                self.check(client[1], float("inf"))
                health, is_silent = client[1] if client[1].last else health, error.args[0].code() in _NO_ANSWER
                wait = deadline - time.monotonic()
                if not is_silent or wait <= 0:
                    raise (
                        self.silent(health) if is_silent and health else self.explained(error.args[0], doing)
                    ) from None
            else:
                self._learn(time.monotonic() - asked)
                return found

    def open(
        self, make: Callable[[dict[str, Any]], Client], own: Mapping[str, Any] | None = None
    ) -> tuple[Client, Health]:
        """A new client, made by ``make``, and its health. No setting can change the properties in ``own``.

        Raises:
            ConfigError: librdkafka refuses the settings.
        """
        health = Health()
        properties = {**clients.librdkafka(self.settings), **(own or {}), "error_cb": health}
        try:
            return make(properties), health
        except KafkaException as error:
            raise ConfigError(
                f"Kafka's client refuses [systems.kafka]: {self._told(error.args[0].str())}",
                "fix the setting that it names",
            ) from None

    def ask(
        self, request: Callable[[AdminClient], Mapping[K, Future[V]]], *, repeatable: bool = True
    ) -> dict[K, V | KafkaError]:
        """The answers to an admin request, by item. If an item failed, the answer for the item is the error. After
        transient errors, such as a partition without a leader, the request is repeated for at most ``patience``
        seconds.

        If a client's broker has died, the client may keep waiting for this broker, although other brokers answer. So if
        there is no answer soon, a new client makes the same request. The first answer counts.

        Args:
            request: makes the request with the given client, and returns a future for each item.
            repeatable: whether the request can be repeated even if the brokers may already have carried it out.

        Raises:
            AnabranchError: there was no answer in time, authentication failed, or the cluster can't be reached.
            ConfigError: as for :meth:`open`.
        """
        deadline = time.monotonic() + self.patience
        while True:
            answers = self._first_answers(request, deadline, _CLIENTS if repeatable else 1)
            passing = [e for e in answers.values() if isinstance(e, KafkaError) and e.code() in _PASSING]
            if not passing or time.monotonic() > deadline:
                return answers
            self.admin.poll(_STEP_SECONDS)

    def _first_answers(
        self, request: Callable[[AdminClient], Mapping[K, Future[V]]], deadline: float, most: int
    ) -> dict[K, V | KafkaError]:
        """Make a request with one client. While answers are missing, repeat the request with further clients. At most
        ``most`` clients are used in total. Returns the answers of the first client that gets all of its answers. For
        the errors, see :meth:`ask`.
        """
        asked, began = [_Asked(self._admin.get(), request)], time.monotonic()
        following = began + self._first_wait
        number = 1
        while True:
            for each in asked:
                try:
                    answers = each.answers()
                    self.check(each.client[1], float("inf"))
                except AnabranchError:
                    self._admin.drop(each.client)
                    raise
                if answers is not None and not _is_unanswered(answers):
                    self._learn(time.monotonic() - each.began)
                    return answers
            asked = [each for each in asked if not each.is_over]
            now = time.monotonic()
            if (now > following or not asked) and number < most and now <= deadline:
                self._admin.drop(self._admin.get())
                asked.append(_Asked(self._admin.get(), request))
                number, following = number + 1, now + 2 * self._first_wait
            elif now > deadline or not asked:
                client = self._admin.get()
                self._admin.drop(client)
                raise self.silent(client[1])
            _wait(asked[-1].pending())

    @property
    def admin(self) -> AdminClient:
        """This process's admin client."""
        return self._admin.get()[0]

    def _learn(self, seconds: float) -> None:
        """Set how long the first client of the next request waits before another client makes the request, too; see
        ``_SHORTEST``. ``seconds`` is the time that an answer took."""
        self._first_wait = min(max(_SLOWER * seconds, self.patience * _SHORTEST), self.patience)

    def other(self, address: str) -> Cluster:
        """The same cluster, accessed through another broker's address."""
        return Cluster(
            self.settings.model_copy(
                update={"bootstrap_servers": address, "client": {**self.settings.client, "bootstrap.servers": address}}
            ),
            self.patience,
        )

    def check(self, health: Health, deadline: float) -> None:
        """Raise an error if a broker has refused the client to which ``health`` belongs, or if the deadline (on the
        monotonic clock) has passed.
        """
        if health.refused is not None:
            raise self.explained(health.refused, "connecting")
        if time.monotonic() > deadline:
            raise self.silent(health)

    def silent(self, health: Health) -> AnabranchError:
        last = f": {self._told(health.last)}" if health.last else ""
        return AnabranchError(
            f"the Kafka cluster {self.shown} didn't answer for {self.patience:g} s{last}",
            "check that it runs, that this machine reaches it, and [systems.kafka] bootstrap_servers and "
            "security_protocol",
        )

    def explained(self, error: KafkaError, doing: str) -> AnabranchError:
        """The error that explains a Kafka error to the user. ``doing`` is what was attempted, such as ``reading
        flights``.
        """
        code, said = error.code(), self._told(error.str())
        if code in _AUTHENTICATION and not _is_cut_off(error):
            return AnabranchError(
                f"the Kafka cluster {self.shown} refuses the login: {said}",
                "check sasl_username, sasl_password and sasl_mechanism in [systems.kafka]",
            )
        if code == KafkaError._SSL:
            return AnabranchError(
                f"no secure connection to the Kafka cluster {self.shown}: {said}",
                "check ssl_ca, ssl_certificate and ssl_key in [systems.kafka], and the broker's certificate",
            )
        if code in _DENIED:
            user = self.settings.sasl_username
            who = f"the user {user}" if user is not None else "the user"
            return AnabranchError(
                f"{doing} on the Kafka cluster {self.shown} isn't allowed: {said}",
                f"give {who} the rights on the cluster (ACLs), or connect as another one",
            )
        if code in _NO_ANSWER:
            health = Health()
            health(error)
            return self.silent(health)
        if code in {KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.INVALID_REPLICA_ASSIGNMENT}:
            return ConfigError(
                f"{doing} on the Kafka cluster {self.shown} failed: {said}",
                "set [systems.kafka] replication_factor to at most the number of its brokers, or -1 for its default",
            )
        if code in {KafkaError.TOPIC_EXCEPTION, KafkaError.INVALID_PARTITIONS, KafkaError.INVALID_CONFIG}:
            return UsageError(f"{doing} on the Kafka cluster {self.shown} failed: {said}", "change what it names")
        return AnabranchError(
            f"{doing} on the Kafka cluster {self.shown} failed: {said} ({error.name()})",
            "see the log of the broker; if the problem is temporary, try again",
        )

    def _told(self, text: str) -> str:
        for secret in clients.secrets(self.settings):
            text = text.replace(secret, "…")
        return text


class _Asked(Generic[K, V]):
    """A request that a client has made.

    Attributes:
        is_over: whether all answers have arrived.
    """

    def __init__(
        self, client: tuple[AdminClient, Health], request: Callable[[AdminClient], Mapping[K, Future[V]]]
    ) -> None:
        self.client = client
        self.began = time.monotonic()
        self.is_over = False
        self._futures = request(client[0])

    def answers(self) -> dict[K, V | KafkaError] | None:
        """The answer or the error for each item; None if some answers are missing."""
        self.client[0].poll(0)
        if not all(future.done() for future in self._futures.values()):
            return None
        self.is_over = True
        answers: dict[K, V | KafkaError] = {}
        for key, future in self._futures.items():
            error = future.exception()
            if error is None:
                answers[key] = future.result()
            elif isinstance(error, KafkaException):
                answers[key] = error.args[0]
            else:
                raise error
        return answers

    def pending(self) -> Future[V]:
        """An answer that hasn't arrived yet. If all answers have arrived, the last answer."""
        futures = [*self._futures.values()]
        return next((each for each in futures if not each.done()), futures[-1])


def _is_unanswered(answers: Mapping[Any, Any]) -> bool:
    """Whether a client gave up some items because it got no answer."""
    return any(isinstance(each, KafkaError) and each.code() in _NO_ANSWER for each in answers.values())


def _wait(future: Future[Any]) -> None:
    try:
        future.exception(timeout=_STEP_SECONDS)
    except TimeoutError:
        return
