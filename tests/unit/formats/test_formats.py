"""What a job keeps of its streams' formats: from settings, schema files and a registry."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from anabranch import config
from anabranch.config import Settings
from anabranch.errors import AnabranchError, ConfigError
from anabranch.formats import Format, modules, settling
from tests.support import kafka_peers
from tests.support.registry import FakeRegistry, serving

OLD = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "delay", "type": "int", "default": 0}]}  # type: ignore[misc]

Load = Callable[[str], Settings]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serving() as served:
        yield served


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Settings from a file in a folder that has ``flights.avsc``, which is ``NEW``."""
    (tmp_path / "flights.avsc").write_text(json.dumps(NEW, indent=2))

    def loaded(text: str) -> Settings:
        (tmp_path / "anabranch.toml").write_text(text)
        return config.load(tmp_path / "anabranch.toml")

    return loaded


def confluent(registry: FakeRegistry, more: str = "") -> str:
    return f'[formats]\nregistry = "{registry.url}/"\n[streams.flights]\nformat = "confluent"\n{more}'


def test_what_is_not_bound_is_json_and_not_listed(load: Load) -> None:
    settings = load('[streams.a]\nformat = "raw"\n[streams.other]\nformat = "confluent"')
    assert settling.settled(settings, ["a", "b"], ["c"]) == {"a": Format(name="raw")}
    assert settling.declared(settings, ["a", "b", "c"]) == {}


def test_avro_is_read_and_written_by_its_file(load: Load) -> None:
    settings = load('[streams.flights]\nformat = "avro"\nschema_file = "flights.avsc"')
    (found,) = settling.settled(settings, [], ["flights"]).values()
    assert (found.name, json.loads(found.schema)) == ("avro", NEW)


def test_what_tells_a_format_from_another_is_what_the_file_says_and_not_how(load: Load, tmp_path: Path) -> None:
    settings = load('[streams.flights]\nformat = "avro"\nschema_file = "flights.avsc"')
    before = settling.declared(settings, ["flights"])
    (tmp_path / "flights.avsc").write_text(json.dumps(NEW))
    assert settling.declared(settings, ["flights"]) == before
    (tmp_path / "flights.avsc").write_text(json.dumps(OLD))
    assert settling.declared(settings, ["flights"]) != before


def test_a_registry_gives_the_newest_schema_and_all_that_values_may_have(load: Load, registry: FakeRegistry) -> None:
    old, new = registry.register("flights-value", OLD), registry.register("flights-value", NEW)
    (found,) = settling.settled(load(confluent(registry)), ["flights"], []).values()
    assert (found.id, json.loads(found.schema)) == (new, NEW)
    assert {int(number): json.loads(schema) for number, schema in found.writers.items()} == {old: OLD, new: NEW}


def test_a_job_that_has_run_keeps_what_it_had(load: Load, registry: FakeRegistry) -> None:
    registry.register("flights-value", OLD)
    kept = settling.settled(load(confluent(registry)), ["flights"], [])
    registry.register("flights-value", NEW)
    registry.asked.clear()
    assert settling.settled(load(confluent(registry)), ["flights"], [], kept) == kept
    assert registry.asked == []


def test_a_schema_that_is_written_is_registered_by_a_run_and_not_by_a_plan(load: Load, registry: FakeRegistry) -> None:
    settings = load(confluent(registry, 'schema_file = "flights.avsc"\nsubject = "of a/job"'))
    (planned,) = settling.settled(settings, [], ["flights"]).values()
    assert (planned.id, registry.subjects) == (-1, {})
    (run,) = settling.settled(settings, [], ["flights"], register=True).values()
    assert registry.subjects == {"of a/job": [run.id]}
    assert json.loads(run.writers[str(run.id)]) == NEW
    assert settling.settled(settings, [], ["flights"]) == {"flights": run}


def test_a_schema_that_was_only_planned_is_registered_when_the_plan_is_carried_out(
    load: Load, registry: FakeRegistry
) -> None:
    settings = load(confluent(registry, 'schema_file = "flights.avsc"'))
    planned = settling.settled(settings, [], ["flights"])
    assert planned["flights"].id == -1
    done = settling.settled(settings, [], ["flights"], planned, register=True)
    assert done["flights"].id >= 0, "records would be written with the id of no schema"
    assert settling.settled(settings, [], ["flights"], done, register=True) == done
    read = settling.settled(settings, ["flights"], [])
    assert settling.settled(settings, ["flights"], [], read, register=True) == read
    assert settling.settled(settings, ["flights"], ["flights"], read, register=True)["flights"].id >= 0


def test_the_topic_names_the_subject(load: Load, registry: FakeRegistry) -> None:
    registry.register("prod.flights-value", OLD)
    settings = load(confluent(registry, 'system = "kafka"\ntopic = "prod.flights"'))
    assert json.loads(settling.settled(settings, ["flights"], [])["flights"].schema) == OLD


def test_the_login_is_a_reference(load: Load, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.register("flights-value", OLD)
    registry.login = "ann:s3cret"
    monkeypatch.setenv("REGISTRY_PASSWORD", "s3cret")
    login = 'registry_username = "ann"\nregistry_password = "${env:REGISTRY_PASSWORD}"\n'
    settings = load(confluent(registry).replace("[streams", f"{login}[streams"))
    assert settling.settled(settings, ["flights"], [])["flights"].id == 100
    monkeypatch.setenv("REGISTRY_PASSWORD", "wr0ng")
    with pytest.raises(AnabranchError, match=r"refuses the login: 401(.|\n)*check registry_username") as refused:
        settling.settled(settings, ["flights"], [])
    assert "wr0ng" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('[streams.flights]\nformat = "avro"', r'has format = "avro" and no schema\n.*schema_file = "flights.avsc"'),
        ('[streams.flights]\nformat = "avro"\nschema_file = "none"', "none, the schema of stream flights, can't be"),
        ('[streams.flights]\nformat = "avro"\nschema_file = "anabranch.toml"', "is not JSON"),
        ('[streams.flights]\nformat = "protobuf"\nschema_file = "flights.avsc"', "and no message"),
        ('[streams.flights]\nformat = "protobuf"\nmessage = "F"', 'schema_file = "flights.desc"'),
        ('[streams.flights]\nformat = "confluent"', r"no schema registry is set\n.*\[formats\] registry"),
        ('[streams.flights]\nformat = "json"\nsubject = "x"', "streams.flights.subject is for format confluent, not"),
        ('[streams.flights]\nmessage = "x"', "streams.flights.message is for format protobuf, not json"),
    ],
)
def test_what_is_missing_is_named(load: Load, settings: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settling.settled(load(settings), ["flights"], [])


def _unknown(registry: FakeRegistry) -> None:
    registry.register("others-value", OLD)


def _json_schema(registry: FakeRegistry) -> None:
    registry.register("flights-value", "{}", schemaType="JSON")


def _references(registry: FakeRegistry) -> None:
    registry.register("flights-value", OLD, references=[{"name": "x"}])


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (_unknown, r"knows no subject 'flights-value', that of stream flights\n.*its subjects: others-value"),
        (_json_schema, "version 1 of subject 'flights-value' is of type JSON"),
        (_references, "version 1 of subject 'flights-value' refers to other schemas"),
    ],
)
def test_what_a_registry_lacks_is_named(
    load: Load, registry: FakeRegistry, held: Callable[[FakeRegistry], None], said: str
) -> None:
    held(registry)
    with pytest.raises(ConfigError, match=said):
        settling.settled(load(confluent(registry)), ["flights"], [])


NO_SUBJECT = {"error_code": 40401, "message": "Subject not found."}


def test_a_subject_that_does_not_exist_is_not_read_by_a_schema_file(load: Load, registry: FakeRegistry) -> None:
    """No value of it could ever be read, as a job keeps the schemas of values."""
    settings = load(confluent(registry, 'schema_file = "flights.avsc"'))
    with pytest.raises(
        ConfigError, match=r"knows no subject 'flights-value'.*\n *register a schema; or set .* subject;"
    ):
        settling.settled(settings, ["flights"], [])
    empty = {"flights": Format(name="confluent", schema=json.dumps(NEW))}
    with pytest.raises(ConfigError, match="knows no subject"):
        settling.settled(settings, ["flights"], [], empty)
    number = registry.register("flights-value", OLD)
    found = settling.settled(settings, ["flights"], [], empty)["flights"]
    assert ([*found.writers], json.loads(found.schema)) == ([str(number)], NEW)


def test_a_subject_that_does_not_exist_can_be_written(load: Load, registry: FakeRegistry) -> None:
    with pytest.raises(ConfigError, match=r"knows no subject 'flights-value'.*\n.* subject, or schema_file;"):
        settling.settled(load(confluent(registry)), [], ["flights"])
    settings = load(confluent(registry, 'schema_file = "flights.avsc"'))
    assert settling.settled(settings, ["flights"], ["flights"])["flights"].writers == {}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (b"default backend - 404", ": .*default backend - 404"),
        (b"", ": "),
        ({"error_code": 404, "message": "HTTP 404 Not Found"}, ": HTTP 404 Not Found"),
        ({"status": 404, "error": "Not Found"}, ""),
        ([], ": "),
    ],
)
@pytest.mark.parametrize(
    ("asked", "file", "written"),
    [
        ("GET /subjects/flights-value/versions", "", False),
        ("GET /subjects/flights-value/versions", 'schema_file = "flights.avsc"', False),
        ("GET /subjects/flights-value/versions/1", "", False),
        ("POST /subjects/flights-value", 'schema_file = "flights.avsc"', True),
    ],
)
def test_a_404_that_is_not_the_registrys_says_nothing_about_a_subject(
    load: Load, registry: FakeRegistry, asked: str, file: str, written: bool, told: object, said: str
) -> None:
    registry.register("flights-value", OLD)
    registry.answers[asked] = 404, told
    shown = rf"registry {registry.url}/ answered {asked} with 404{said}(.|\n)*check \[formats\] registry"
    with pytest.raises(AnabranchError, match=shown):
        settling.settled(load(confluent(registry, file)), [] if written else ["flights"], ["flights"] * written)


def test_a_listed_version_that_is_not_found_is_not_left_out(load: Load, registry: FakeRegistry) -> None:
    registry.register("flights-value", OLD)
    registry.register("flights-value", NEW)
    registry.answers["GET /subjects/flights-value/versions/1"] = 404, {**NO_SUBJECT, "error_code": 40402}
    with pytest.raises(AnabranchError, match=r"lists version 1 of subject 'flights-value', and doesn't find it\n"):
        settling.settled(load(confluent(registry)), ["flights"], [])


def test_a_registry_that_refuses_a_schema_is_quoted(load: Load, registry: FakeRegistry) -> None:
    registry.register("flights-value", OLD)
    registry.frozen.add("flights-value")
    settings = load(confluent(registry, 'schema_file = "flights.avsc"'))
    with pytest.raises(ConfigError, match="refuses the schema for flights-value: Schema being registered is incompat"):
        settling.settled(settings, [], ["flights"], register=True)


def test_a_registry_that_is_down_is_named(load: Load) -> None:
    with serving() as gone:
        settings = load(confluent(gone))
    with pytest.raises(AnabranchError, match=rf"registry {gone.url}/ didn't answer GET .*\n.*check that it runs"):
        settling.settled(settings, ["flights"], [])


def test_the_password_of_a_registry_is_in_no_error(load: Load) -> None:
    with serving() as gone:
        settings = load(confluent(gone).replace("http://", "http://anna:s3cret@"))
    with pytest.raises(AnabranchError, match=r"registry http://anna:\*\*\*@127") as found:
        settling.settled(settings, ["flights"], [])
    assert "s3cret" not in str(found.value)


def test_a_registry_that_is_busy_is_asked_again(load: Load, registry: FakeRegistry) -> None:
    registry.register("flights-value", OLD)
    registry.busy = 2
    assert settling.settled(load(confluent(registry)), ["flights"], [])["flights"].id == 100
    registry.busy = 1000
    with pytest.raises(AnabranchError, match="answered GET /subjects/flights-value/versions with 503: later"):
        settling.settled(load(confluent(registry)), ["flights"], [])


def client(registry: FakeRegistry, **properties: object) -> str:
    """Settings with properties of the registry's client."""
    lines = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in properties.items())
    return confluent(registry).replace("[streams", f"[formats.registry_client]\n{lines}[streams")


def test_a_registry_with_tls_is_known_by_its_certificate(load: Load, tmp_path: Path) -> None:
    made = kafka_peers.certified(tmp_path)
    key, certificate, _ = pkcs12.load_key_and_certificates(made.keystore.read_bytes(), made.password.encode())
    assert key is not None
    assert certificate is not None
    own = tmp_path / "own.pem"
    own.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
    )
    with serving(own) as registry:
        registry.register("flights-value", OLD)
        trusting = load(client(registry, **{"ssl.ca.location": str(made.ca)}))
        assert settling.settled(trusting, ["flights"], [])["flights"].id == 100
        with pytest.raises(AnabranchError, match=r"didn't answer GET .*certificate verify failed"):
            settling.settled(load(confluent(registry)), ["flights"], [])


def test_a_registry_with_oauth_gets_a_token(
    load: Load, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register("flights-value", OLD)
    registry.token = "t0ken"
    monkeypatch.setenv("REGISTRY_SECRET", "s3cret")
    login = {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": f"{registry.url}/token",
        "bearer.auth.client.id": "orders",
        "bearer.auth.client.secret": "${env:REGISTRY_SECRET}",
        "bearer.auth.scope": "registry",
        "bearer.auth.logical.cluster": "lsrc-1",
    }
    settings = load(client(registry, **login))
    assert settling.settled(settings, ["flights"], [])["flights"].id == 100
    config.dumped(settings)
    with pytest.raises(ConfigError, match=r"formats\.registry_client\.bearer\.auth\.client\.secret"):
        config.dumped(load(client(registry, **{**login, "bearer.auth.client.secret": "s3cret"})))
    with pytest.raises(AnabranchError, match="refuses the login: 401"):
        settling.settled(load(confluent(registry)), ["flights"], [])


def test_a_property_that_the_client_does_not_know_is_named(load: Load, registry: FakeRegistry) -> None:
    with pytest.raises(ConfigError, match=r"can't be made: Unrecognized properties: ssl\.ca\n.*registry_client"):
        settling.settled(load(client(registry, **{"ssl.ca": "x"})), ["flights"], [])


def test_without_its_client_no_registry_is_asked(
    load: Load, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(ConfigError, match=r"is missing\n.*anabranch\[registry\]"):
        settling.settled(load(confluent(registry)), ["flights"], [])


def test_where_sparks_modules_come_from(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = '[streams.a]\nformat = "avro"\n[streams.b]\nformat = "confluent"\n[streams.c]\nformat = "protobuf"\n'
    held: dict[str, Any] = {"spark.jars": "kafka.jar"}
    avro = "org.apache.spark:spark-avro_2.13:4.1.1"
    assert modules.conf(load(""), held) == held
    assert modules.conf(load(text), held) == {**held, "spark.jars.packages": avro}
    fetched = tmp_path / "cache" / "anabranch" / "avro-4.1.1" / "spark-avro_2.13-4.1.1.jar"
    fetched.parent.mkdir(parents=True)
    fetched.touch()
    assert modules.conf(load(text), {}) == {"spark.jars": str(fetched)}
    mine = tmp_path / "mine"
    mine.mkdir()
    jar = mine / "spark-avro_2.13-9.jar"
    jar.touch()
    assert modules.conf(load(text + '[formats]\njars = "mine"'), {}) == {"spark.jars": str(jar)}
    with pytest.raises(ConfigError, match=r"which lacks spark-avro_2.13-\*.jar"):
        modules.conf(load(text + '[formats]\njars = "none"'), {})
