"""Messages about settings that aren't allowed: they show what is wrong, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import config
from anabranch.coordinator.api.client import Client
from anabranch.errors import ConfigError, UnreachableError, UsageError
from anabranch.systems.systems import Systems

OUTPUT = '[outputs.x]\nto = "postgresql"\ntable = "x"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[outputs.x]\nurl = "postgresql://u:hunter2@db/x"\npassword = "hunter2"', "setting 'outputs.x.to' isn't set"),
        (
            "[systems.kafka]\nsasl_password = 48151623",
            "'systems.kafka.sasl_password' has a value that isn't allowed: Input should be a valid string",
        ),
        ('[systems.kafka]\nclient = "sasl.password=hunter2"', "'systems.kafka.client' has a value that isn't allowed"),
        ('[systems.kafka.client]\n"sasl.password" = 48151623', "'systems.kafka.client.sasl.password' has a value that"),
        ('[systems]\nkafka = ["hunter2"]', "'systems.kafka' has a value that isn't allowed"),
        ('systems = "hunter2"', "'systems' has a value that isn't allowed"),
        ('[formats.registry_client]\n"basic.auth.user.info" = ["me:hunter2"]', "user.info.str' has a value that isn't"),
        ('[coordinator]\nurl = "https://me:hunter2@host:99999"', "has the value 'https://***@host:99999': "),
        ('[coordinator]\nurl = "https://me:hun/hunter2@host"', "'https://***@host' can't be used: its host or port is"),
        ('[coordinator]\nurl = "me:hunter2@host"', "'***@host' isn't of the form http://HOST:PORT"),
        ('[coordinator.links]\nlog = "ftp://me:hunter2@host"', "'ftp://me:***@host' isn't of the form https://"),
        ('[job]\non_error = "x://h?token=hunter2"', "has the value 'x://h?token=***': Input should be"),
        (f'{OUTPUT}url = "mysql://u:hunter2@db/x"', "outputs.x.url has the value 'mysql://***@db/x': write postgresql"),
        (f'{OUTPUT}url = "postgresql://db/x"\nmode = ["hunter2"]', "outputs.x.mode has a value that isn't allowed"),
        (f'{OUTPUT}url = ["postgresql://u:hunter2@db/x"]', "outputs.x.url has a value that isn't allowed"),
        (f"{OUTPUT}url = 48151623", "outputs.x.url has the value 48151623: Input should be a valid string"),
    ],
)
def test_what_is_wrong_is_told_without_secrets(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / config.FILE_NAME).write_text(text)
    with pytest.raises(ConfigError) as caught:
        Systems(config.load(tmp_path / config.FILE_NAME)).table("x")
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "48151623" not in str(caught.value) or "url" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[job]\nstall_after = "0 seconds"', "'job.stall_after' has the value '0 seconds': it must be longer than 0"),
        ('[coordinator]\nlease = "0 seconds"', "'coordinator.lease' has the value '0 seconds': it must be longer"),
        ('[coordinator]\nperiod = "0 hours"', "'coordinator.period' has the value '0 hours': it must be longer"),
        ('[systems.kafka]\ntransaction_timeout = "0 seconds"', "it must be longer than 0"),
    ],
)
def test_durations_that_would_stop_a_job_are_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / config.FILE_NAME).write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path / config.FILE_NAME)
    assert told in str(caught.value)


@pytest.mark.parametrize("value", ['{"sasl.password": 12345}', '{"sasl.password": "12345"', '["12345"]'])
def test_a_secret_in_the_environment_is_not_shown(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ANABRANCH__SYSTEMS__KAFKA__CLIENT", value)
    with pytest.raises(ConfigError, match=r"systems\.kafka\.client|isn't a JSON object") as caught:
        config.load()
    assert "12345" not in str(caught.value)


def test_a_coordinator_that_does_not_answer_is_told_without_its_password() -> None:
    with pytest.raises(UnreachableError, match=r"nothing runs at http://me:\*\*\*@127\.0\.0\.1:9\n"):
        Client("http://me:hunter2@127.0.0.1:9").jobs()
    with pytest.raises(UsageError) as caught:
        Client("http://me:hunter2@host:99999")
    assert "hunter2" not in str(caught.value)
