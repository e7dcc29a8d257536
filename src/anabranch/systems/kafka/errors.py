"""Cures for errors of Kafka's clients, librdkafka and Java's, and of Spark's connector."""

from __future__ import annotations

__all__ = ["CURES"]

_AWAY = "see that the brokers of [systems.kafka] bootstrap_servers run and answer this machine"

CURES = (
    (
        r"kafka.*(?:AuthorizationException|AUTHORIZATION_FAILED|authorization failed)",
        "give the user of [systems.kafka] the rights to read and write that topic, group or transactional id",
    ),
    (
        r"kafka.*(?:AuthenticationException|SaslAuthentication|SslAuthentication|_AUTHENTICATION)",
        "see user, password and certificates in [systems.kafka]",
    ),
    (
        r"kafka.*(?:UnknownTopicOrPartition|UNKNOWN_TOPIC|_UNKNOWN_TOPIC)",
        "see that the topic is there, with all its partitions: anabranch stream list",
    ),
    (
        r"(?i)kafka.*(?:too ?large|MSG_SIZE)",
        "let the topic take larger messages (max.message.bytes), or make them smaller",
    ),
    (
        r"org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|NotLeader)",
        _AWAY,
    ),
    (r"org\.apache\.kafka\.common\.errors\.(?:CoordinatorNotAvailable|BrokerNotAvailable)", _AWAY),
    (r"KafkaError\{code=(?:_TRANSPORT|_ALL_BROKERS_DOWN|_TIMED_OUT|_RESOLVE)", _AWAY),
    (r"No resolvable bootstrap urls|Failed to construct kafka consumer", _AWAY),
    (r"kafka\.common\.errors\.|KafkaException", "see the broker's log for the same time"),
)
"""Pairs of a regular expression for an error's ``kind: message`` and a cure. The first match counts."""
