"""Settings: what the file says, what the environment says over it, and what a wrong one is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from anabranch import config
from anabranch.config import JobSettings, Settings, sqlite_urls
from anabranch.errors import ConfigError, NotFoundError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def written(folder: Path, text: str) -> Path:
    file = folder / "anabranch.toml"
    file.write_text(text)
    return file


def test_without_a_file_everything_has_a_default_under_the_working_folder(elsewhere: Path) -> None:
    found = config.load()
    assert (found.job.grouper, found.job.factor, found.job.containers) == ("partition", 1, 1)
    assert (found.job.on_null_key, found.job.state_partitions) == ("dead-letter", 4)
    assert found.storage.root == f"{elsewhere}/.anabranch/lanes"
    assert found.coordinator.store == f"sqlite:///{elsewhere}/.anabranch/coordinator.db"
    assert found.systems.embedded.root == elsewhere / ".anabranch/streams"
    assert found.streams == {}


def test_the_file_beside_the_job_goes_before_the_one_in_the_working_folder(tmp_path: Path, elsewhere: Path) -> None:
    written(elsewhere, "[job]\nfactor = 2")
    job = tmp_path / "jobs" / "job.py"
    job.parent.mkdir()
    assert config.load(beside=job).job.factor == 2
    written(job.parent, "[job]\nfactor = 4")
    assert config.load(beside=job).job.factor == 4
    assert config.load().job.factor == 2
    named = tmp_path / "other.toml"
    named.write_text("[job]\nfactor = 8")
    assert config.load(named, beside=job).job.factor == 8


def test_relative_paths_start_at_the_file_s_folder(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        [storage]
        root = "lanes"
        [coordinator]
        store = "sqlite:///up/../store.db"
        [systems.embedded]
        root = "../log"
        """,
    )
    found = config.load(file)
    assert found.storage.root == f"{tmp_path}/lanes"
    assert found.coordinator.store == f"sqlite:///{tmp_path}/store.db"
    assert found.systems.embedded.root == tmp_path.parent / "log"


@pytest.mark.parametrize(
    "root",
    ["s3a://bucket/lanes", "hdfs://h:1/x", "hdfs:/x", "foo:/x", "file:///var/lanes", "file:/var/lanes", "/abs"],
)
def test_a_uri_and_an_absolute_path_stay(tmp_path: Path, root: str) -> None:
    assert config.load(written(tmp_path, f'[storage]\nroot = "{root}"')).storage.root == root


def test_a_colon_alone_makes_no_uri(tmp_path: Path) -> None:
    assert config.load(written(tmp_path, '[storage]\nroot = "a:b/lanes"')).storage.root == f"{tmp_path}/a:b/lanes"


@pytest.mark.parametrize("uri", ["hdfs://h:1/x", "hdfs:/x", "file:/x"])
def test_a_table_s_and_a_system_s_uri_stay(tmp_path: Path, uri: str) -> None:
    text = f'[outputs.x]\nto = "m:C"\npath = "{uri}"\n[systems.mine]\nclass = "m:C"\nroot = "{uri}"'
    found = config.load(written(tmp_path, text))
    assert (found.outputs["x"].options["path"], found.systems.others["mine"].options["root"]) == (uri, uri)


@pytest.mark.parametrize("store", ["sqlite:////var/store.db", "sqlite://", "postgresql://host/db"])
def test_other_stores_stay(tmp_path: Path, store: str) -> None:
    assert config.load(written(tmp_path, f'[coordinator]\nstore = "{store}"')).coordinator.store == store


ODD_FOLDERS = ["why?", "a&b=c?d=1", "50%41", "100%", "a%3Fb", "a#b", "a b", "ü", "${env:HOME}", "${file:x%41?}"]


@pytest.mark.parametrize("name", ODD_FOLDERS)
def test_a_project_s_files_stay_in_its_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    for store in ("store.db", "./below/store.db", "other%20place/store.db", "store.db?timeout=5"):
        found = config.load(written(folder, f'[coordinator]\nstore = "sqlite:///{store}"')).coordinator
        file = sqlite_urls.path_of(found.store)
        assert file == folder / store.removesuffix("?timeout=5").replace("%20", " ")
        assert found.token_file == file.with_name("store.db.token")
        assert found.logs == file.parent / "containers"
        assert found.store.endswith("?timeout=5") == store.endswith("?timeout=5")


@given(st.text(st.sampled_from("aB .:@%2?#&=\\~é${env:}"), min_size=1))
def test_a_file_s_url_leads_to_the_file(name: str) -> None:
    file = Path("/home/me") / name
    assert sqlite_urls.path_of(sqlite_urls.url_of(file)) == file


def test_the_environment_goes_over_the_file_setting_by_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(
        tmp_path,
        """
        [job]
        factor = 2
        interval = "1 second"
        [streams.flights]
        format = "raw"
        [spark.conf]
        "spark.a" = "kept"
        """,
    )
    monkeypatch.setenv("ANABRANCH__JOB__FACTOR", "16")
    monkeypatch.setenv("ANABRANCH__STREAMS__FLIGHTS__FORMAT", "string")
    monkeypatch.setenv("ANABRANCH__SYSTEMS__EMBEDDED__ROOT", "/log")
    monkeypatch.setenv("ANABRANCH_HOLD_AT", "not a setting")
    found = config.load(file)
    assert (found.job.factor, found.job.interval) == (16, "1 second")
    assert found.streams["flights"].format == "string"
    assert found.systems.embedded.root == Path("/log")
    assert found.spark.conf == {"spark.a": "kept"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, text) for text in ("12e4", "1.10", "null", "true", "12345678", '"quoted"', "[no JSON", "")),
        (' {"a": 1}', {"a": 1}),
        ('["id", 2]', ["id", 2]),
    ],
)
def test_a_table_s_text_in_the_environment_stays_text(
    monkeypatch: pytest.MonkeyPatch, text: str, value: object
) -> None:
    for name, each in (("TO", "m:C"), ("PASSWORD", text), ("CATALOG__TOKEN", text)):
        monkeypatch.setenv(f"ANABRANCH__OUTPUTS__ORDERS__{name}", each)
    assert config.load().outputs["orders"].options == {"password": value, "catalog": {"token": value}}


def test_a_table_s_section_in_the_environment_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH__OUTPUTS__ORDERS", '{"to": "m:C", "size": 12e4}')
    assert config.load().outputs["orders"].options == {"size": 12e4}


@pytest.mark.parametrize(
    ("text", "what", "cure"),
    [
        ("[job]\nfactr = 4", "unknown setting 'job.factr'", "did you mean 'factor'?"),
        ("[jobs]\nfactor = 4", "unknown setting 'jobs'", "did you mean 'job'?"),
        (
            "zzz = 1",
            "unknown setting 'zzz'",
            "known here: assignment, coordinator, formats, job, outputs, spark, storage, streams",
        ),
        ('[storage]\nrot = "x"', "unknown setting 'storage.rot'", "did you mean 'root'?"),
        ('[systems.embeded]\nroot = "x"', "unknown setting 'systems.embeded'", "did you mean 'embedded'?"),
        ('[systems.embedded]\nroots = "x"', "unknown setting 'systems.embedded.roots'", "did you mean 'root'?"),
        (
            '[systems.embedded]\nroot = "hdfs:/streams"',
            "'systems.embedded.root' has the value 'hdfs:/streams': the embedded log is on a local disk",
            "allowed",
        ),
        ('[streams.flights]\nformt = "raw"', "unknown setting 'streams.flights.formt'", "did you mean 'format'?"),
        ('[streams.flights]\nformat = "xml"', "'streams.flights.format' has the value 'xml'", "allowed"),
        ('[streams.flights]\nsystem = "rabbit"', "'streams.flights.system' has the value 'rabbit'", "embedded, kafka"),
        ('[job]\nfactor = "many"', "'job.factor' has the value 'many'", "allowed"),
        ("[job]\ncontainers = 0", "'job.containers' has the value 0", "allowed"),
        ("[job]\nmax_rows_per_batch = 0", "'job.max_rows_per_batch' has the value 0", "allowed"),
        ("[job]\nstate_partitions = 4000", "'job.state_partitions' has the value 4000", "allowed"),
        ('[job]\non_null_key = "drp"', "'job.on_null_key' has the value 'drp'", "allowed"),
        (
            '[job]\ninterval = "soon"',
            "'job.interval' has the value 'soon': 'soon' is no duration: write a n",
            "allowed",
        ),
        ("[job.autoscale]\nmin = 1", "setting 'job.autoscale.max' isn't set", "set [job.autoscale] max"),
        ('[outputs."eu.x"]\npath = "x"', "setting 'outputs.eu.x.to' isn't set", 'set [outputs."eu.x"] to'),
        ("[job.autoscale]\nmax = 3", "'job.autoscale.max' has the value 3: a factor is a power of two", "allowed"),
        ("[job.autoscale]\nmax = 2048", "a factor is a power of two from 1 to 1024", "allowed"),
        ("[job.autoscale]\nmin = 8\nmax = 4", "min = 8 is above max = 4", "allowed"),
        ("[job.autoscale]\nmax = 4\ntarget_busy = 1", "'job.autoscale.target_busy' has the value 1", "allowed"),
        ("[job.autoscale]\nmax = 4\ntarget_busy = 0.0", "'job.autoscale.target_busy' has the value 0.0", "allowed"),
        ('[job.autoscale]\nmax = 4\ncooldown = "soon"', "'job.autoscale.cooldown' has the value 'soon'", "allowed"),
        ("[job.autoscale]\nmax = 4\ntarget_lag_seconds = 0", "'job.autoscale.target_lag_seconds' has", "allowed"),
        ("[job.autoscale]\nmax = 4\ntarget_lag_seconds = inf", "'job.autoscale.target_lag_seconds' has", "allowed"),
        ("[job.autoscale]\nmax = 4\ntarget_lag_seconds = nan", "'job.autoscale.target_lag_seconds' has", "allowed"),
        ("[job.autoscale]\nmax = 4\ntarget = 0.5", "'job.autoscale.target'", "did you mean 'target_busy'?"),
        ("[job.autoscale]\nmin = 2\nmax = 4", "job.factor = 1 isn't in job.autoscale: 2 to 4", "take one"),
        ('[job]\ntrigger = "real-time"\nautoscale = { max = 4 }', "job.autoscale is for Python functions", "take one"),
        ('[job]\ngrouper = "all"\nautoscale = { max = 4 }', "job.autoscale changes the factor", "take one"),
        ("job = 3", "'job' has the value 3", "allowed"),
        ("[job\n", "is not TOML", "line"),
    ],
)
def test_a_wrong_file_is_told_the_setting_the_file_and_the_cure(
    tmp_path: Path, text: str, what: str, cure: str
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        config.load(file)
    assert what in caught.value.what
    assert str(file) in caught.value.what
    assert cure in caught.value.cure
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("variable", "value", "what", "cure"),
    [
        ("ANABRANCH__JBO__FACTOR", "4", "ANABRANCH__JBO__FACTOR sets an unknown section 'jbo'", "did you mean 'job'?"),
        ("ANABRANCH__JOB__FACTR", "4", "'job.factr'", "did you mean 'factor'?"),
        ("ANABRANCH__JOB__FACTOR", "x", "'job.factor' has the value 'x'", "allowed"),
        ("ANABRANCH__JOB", "x", "a JSON object", "ANABRANCH__JOB__FACTOR=4"),
    ],
)
def test_a_wrong_variable_is_told(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, what: str, cure: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError) as caught:
        config.load()
    assert what in caught.value.what
    assert cure in caught.value.cure


@pytest.mark.parametrize(
    ("variable", "stays"),
    [
        ("ANABRANCH__COORDINATOR__PERIOD", True),
        ("ANABRANCH__COORDINATOR", True),
        ("ANABRANCH__SPARK__MEMORY", True),
        ("ANABRANCH__SPARK", True),
        ("ANABRANCH__Spark", True),
        ("ANABRANCH__SPARKS", False),
        ("ANABRANCH__JOB__FACTOR", False),
        ("ANABRANCH__JOB", False),
        ("anabranch__job__factor", False),
        ("ANABRANCH_RACK", True),
    ],
)
def test_containers_get_the_sections_of_the_machine_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, stays: bool
) -> None:
    monkeypatch.setenv(variable, "{}")
    assert config.environment_of_containers().get(variable) == ("{}" if stays else None)


def test_a_file_that_isn_t_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no configuration file .*none\.toml"):
        config.load(tmp_path / "none.toml")


def test_a_file_that_cannot_be_read_is_told() -> None:
    with pytest.raises(ConfigError, match=r"/mem can't be read: Input/output error\n  let this user read it"):
        config.load(Path("/proc/self/mem"))


@pytest.mark.parametrize(
    "text",
    [
        '[storage]\nroot = "~nosuch-user/x"',
        '[systems.embedded]\nroot = "~nosuch-user/x"',
        '[coordinator]\nlogs = "~nosuch-user/x"',
        '[coordinator]\ntoken_file = "~nosuch-user/x"',
        '[outputs.x]\nto = "parquet"\npath = "~nosuch-user/x"',
    ],
)
def test_the_home_of_a_user_who_does_not_exist_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="'~nosuch-user/x' can't be used: the home folder of ~nosuch-user isn't"):
        config.load(written(tmp_path, text))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfe[job]", "byte 0xff in line 1"),
        ("[job]\r\nfactor = 2\r\n# größer\r\n".encode("latin-1"), "byte 0xf6 in line 3"),
        ("\ufeff[job]\n# \xfc\n# ".encode() + b"\xfc", "byte 0xfc in line 3"),
    ],
)
def test_bytes_that_are_no_text_are_told(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "anabranch.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=f"anabranch.toml is not UTF-8: there is a {told}\n  save the file as UTF-8"):
        config.load(file)


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "anabranch.toml"
    file.write_bytes(b"\xef\xbb\xbf[job]\r\nfactor = 2\r\n")
    assert config.load(file).job.factor == 2


def test_settings_are_utf_8_in_every_locale(tmp_path: Path) -> None:
    file = tmp_path / "anabranch.toml"
    file.write_text('[spark.conf]\nsize = "größe"\n', encoding="utf-8")
    code = "from anabranch import config; print(ascii(config.load().spark.conf))"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "'gr\\xf6\\xdfe'" in ran.stdout


def test_settings_that_were_handed_on_are_the_same() -> None:
    """As a coordinator keeps them, with all that isn't set."""
    for settings in (Settings(), Settings(job=JobSettings(message_timeout="3 seconds"))):
        assert Settings(**settings.model_dump(mode="json")) == settings


def test_no_time_at_all_for_a_message_is_refused() -> None:
    with pytest.raises(ValidationError, match="give a duration"):
        JobSettings(message_timeout="0 seconds")
