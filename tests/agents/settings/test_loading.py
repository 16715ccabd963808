from pathlib import Path

import pytest

from agents.settings import loading
from agents.settings.all_settings import Settings
from agents.settings.setting_descriptions import describe
from streams.errors import BadInput


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [n for n in __import__("os").environ if n.startswith("ULLAGE_")]:
        monkeypatch.delenv(name)


def test_nothing_set_gives_the_defaults_and_says_so() -> None:
    loaded = loading.load()
    assert loaded.settings == Settings()
    assert {origin for _, _, origin in loaded.shown()} == {"default"}


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ullage.yaml").write_text("topics: {prefix: f, partitions: 6}\nlog: {brokers: 'f:1'}\nclock: {speed: 3}\n")
    monkeypatch.setenv("ULLAGE_TOPICS__PARTITIONS", "7")
    monkeypatch.setenv("ULLAGE_LOG__BROKERS", "e:1")
    loaded = loading.load(flags={"log.brokers": "x:1"})
    got = loaded.settings
    assert (got.topics.prefix, got.topics.partitions, got.log.brokers, got.clock.speed) == ("f", 7, "x:1", 3.0)
    assert loaded.origins["topics.prefix"] == "file ullage.yaml"
    assert loaded.origins["topics.partitions"] == "environment ULLAGE_TOPICS__PARTITIONS"
    assert loaded.origins["log.brokers"] == "flag log.brokers"
    assert "clock.period_ms" not in loaded.origins


def test_settings_of_the_stages_are_set_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_VERTICAL__MARGIN", "0.25")
    settings = loading.load(flags={"updates.min_replicas": "3"}).settings
    assert settings.vertical.margin == 0.25
    assert settings.updates.min_replicas == 3


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"log.borkers": "x"}, "there is no setting 'log.borkers' (flag log.borkers); did you mean 'log.brokers'?"),
        ({"nope": "1"}, "there is no setting 'nope' (flag nope)"),
        ({"updates.treshold": "1"}, "there is no setting 'updates.treshold' (flag updates.treshold); did you mean"),
        ({"topics.partitions": "0"}, "topics.partitions is '0' (flag topics.partitions), which makes no sense"),
        ({"clock.speed": "fast"}, "clock.speed is 'fast' (flag clock.speed), which makes no sense"),
        ({"updates.expires": "1209601"}, "updates.expires is '1209601' (flag updates.expires), which makes no sense: consumers"),
        ({"updates.interval": "0"}, "updates.interval is '0' (flag updates.interval), which makes no sense: it must be"),
        ({"updates.budget": "-0.1"}, "updates.budget is '-0.1' (flag updates.budget), which makes no sense: it must be a number"),
        ({"vertical.margin": "nan"}, "vertical.margin is 'nan' (flag vertical.margin), which makes no sense: it must be"),
        ({"nodes.unneeded_time": "10m0s"}, "which makes no sense: it is a number without its unit: seconds (10m is 600), bytes"),
        ({"vertical.maximum_memory": "8Gi"}, "which makes no sense: it is a number without its unit: seconds"),
        ({"updates.eviction_tolerance": "50%"}, "a share (5% is 0.05)"),
        ({"log": "x"}, "log is 'x' (flag log), which makes no sense"),
        ({"log": "x", "log.path": "y"}, "'log' is a single value, not a group of settings"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named_with_its_value_and_place(flags: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadInput) as error:
        loading.load(flags=flags)
    assert sentence in str(error.value)


def test_an_environment_variable_of_no_group_is_an_error_and_not_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_LOOG__BROKERS", "x")
    with pytest.raises(BadInput, match="ULLAGE_LOOG__BROKERS in the environment is not a setting: there is no group 'loog'"):
        loading.load()


def test_a_missing_file_that_was_named_is_an_error() -> None:
    with pytest.raises(BadInput, match=r"the settings file 'gone.yaml' does not exist"):
        loading.load(file=Path("gone.yaml"))


def test_a_file_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("log: [1\n")
    with pytest.raises(BadInput, match=r"the settings file 'bad.yaml' is no YAML"):
        loading.load(file=Path("bad.yaml"))


def test_a_secret_is_read_from_its_file_and_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("opensesame\n")
    monkeypatch.setenv("ULLAGE_LOG__SECURITY__PASSWORD_FILE", str(tmp_path / "password"))
    loaded = loading.load()
    password = loaded.settings.log.security.password
    assert password is not None
    assert password.get_secret_value() == "opensesame"
    assert "opensesame" not in str(list(loaded.shown())) + repr(loaded)
    shown = {name: (value, origin) for name, value, origin in loaded.shown()}
    origin = f"file {tmp_path / 'password'} (ULLAGE_LOG__SECURITY__PASSWORD_FILE)"
    assert shown["log.security.password"] == ("(hidden)", origin)


def test_a_secret_in_the_environment_is_not_shown_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_LOG__SECURITY__PASSWORD", "opensesame")
    assert "opensesame" not in str(list(loading.load().shown()))


def test_a_password_that_yaml_takes_for_a_number_is_asked_for_in_quotes_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "ullage.yaml"
    file.write_text("log:\n  security:\n    password: 31415926\nprometheus: 27182818\n", encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        loading.load(file=file)
    assert "log.security.password is (hidden)" in str(caught.value)
    assert "it must be text: put it in quotes" in str(caught.value)
    assert "31415926" not in str(caught.value)
    assert "27182818" not in str(caught.value)


def test_the_password_in_a_url_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_PROMETHEUS__URL", "https://reader:hunter2@prom:9090/at")
    assert {name: value for name, value, _ in loading.load().shown()}["prometheus.url"] == "https://prom:9090/at"


@pytest.mark.parametrize(
    ("content", "why"), [(b"\xd0\xff", "is no text in UTF-8"), (b"x" * 70_000, "holds more than 65536 bytes: it is no setting")]
)
def test_a_file_that_holds_no_setting_is_named(content: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("odd").write_bytes(content)
    monkeypatch.setenv("ULLAGE_LOG__SECURITY__PASSWORD_FILE", "odd")
    with pytest.raises(BadInput, match=f"PASSWORD_FILE names the file 'odd', which {why}"):
        loading.load()


def test_a_secret_of_which_the_file_is_gone_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_LOG__SECURITY__PASSWORD_FILE", "gone")
    with pytest.raises(BadInput, match="PASSWORD_FILE names the file 'gone', which cannot be read: No such file"):
        loading.load()


def test_what_one_process_hands_to_another_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in loading.environment({"log.brokers": "h:1", "clock.period_ms": 60000}).items():
        monkeypatch.setenv(name, value)
    settings = loading.load().settings
    assert (settings.log.brokers, settings.clock.period_ms) == ("h:1", 60000)


def test_every_setting_is_described() -> None:
    described = {name: text for name, _, text in describe()}
    assert set(described) == {name for name, _, _ in loading.load().shown()}
    assert not [name for name, text in described.items() if len(text) < 8]
    assert described["vertical.cpu_half_life"] == "Weight of a CPU sample halves in this time."


@pytest.mark.parametrize("url", ["u:hunter22@h:9090", "ftp://u:hunter22@h:9090", "http://u:hunter22@h:bad"])
def test_no_refusal_of_a_setting_shows_the_password_of_a_url(url: str) -> None:
    with pytest.raises(BadInput) as refused:
        loading.load(flags={"prometheus.url": url})
    assert "prometheus.url is '" in str(refused.value)
    assert "hunter22" not in str(refused.value)
