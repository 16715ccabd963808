"""Each setting by each way in which it can be given: they must agree, and all must refuse what makes no sense."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import SecretStr

from agents.settings import loading, setting_texts
from agents.settings.all_settings import Settings
from agents.settings.setting_descriptions import describe
from streams.errors import BadInput

DEFAULTS = {name: default for name, default, _ in describe()}
TOGETHER: Mapping[str, Mapping[str, object]] = {
    "webhook.certificate": {"webhook.key": "our.key"},
    "webhook.key": {"webhook.certificate": "our.pem"},
    "metrics_api.certificate": {"metrics_api.key": "our.key"},
    "metrics_api.key": {"metrics_api.certificate": "our.pem"},
    "receiver.certificate": {"receiver.key": "our.key"},
    "receiver.key": {"receiver.certificate": "our.pem"},
}
"""Settings that make sense only with others."""
PAIRS = ("cluster.adapter_labels", "prometheus.labels")
LISTS = [name for name, default in DEFAULTS.items() if isinstance(default, tuple) and name not in PAIRS]
"""Lists of names; the others are of `name=value`."""


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [n for n in __import__("os").environ if n.startswith("ULLAGE_")]:
        monkeypatch.delenv(name)


def annotation(name: str) -> object:
    kind: object = Settings
    for part in name.split("."):
        kind = kind.model_fields[part].annotation if hasattr(kind, "model_fields") else None
    return kind


def others(name: str) -> Iterator[object]:
    """Values that the setting may have, beside its default."""
    default = DEFAULTS[name]
    if isinstance(default, bool):
        yield not default
    elif isinstance(default, int):
        yield from (default + 1, default - 1)
    elif isinstance(default, float):
        yield from (default * 0.75, default * 1.5)
    elif isinstance(default, tuple):
        yield from (["web-1", "shop"], ["cluster=prod"])
    for kind in (annotation(name), *get_args(annotation(name))):
        yield from get_args(kind)
    yield from (
        "some",
        "4",
        "kafka-1:9093,kafka-2:9093",
        "https://there:8443/at",
        "2026-01-02T03:04:05+02:00",
        3.5,
        "upstream",
        "price",
        "0% @ 0 9 * * mon-fri for 8h",
        "Namespace:team=a",
    )


def given_in_file(values: Mapping[str, object]) -> Settings:
    Path("given.yaml").write_text(yaml.safe_dump(loading.nested(values)), encoding="utf-8")
    return loading.load(file=Path("given.yaml")).settings


def another(name: str) -> tuple[dict[str, object], Settings]:
    """Values with another one than the default for this setting, and what a file with them gives."""
    for value in others(name):
        values = {name: value, **TOGETHER.get(name, {})}
        if isinstance(value, str | int | float | list):
            try:
                got = given_in_file(values)
            except BadInput:
                continue
            if got != Settings():
                return values, got
    pytest.fail(f"the test knows no other value of {name}")


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_setting_means_the_same_in_the_file_the_environment_a_flag_and_a_child_process(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, by_file = another(name)
    texts = {each: setting_texts.written(value) for each, value in values.items()}
    assert loading.load(flags=texts).settings == by_file
    handed = {each: value for each, value in loading.flat(loading._dump(by_file)).items() if each in values}
    for variable, text in loading.environment(handed).items():
        monkeypatch.setenv(variable, text)
    assert loading.load().settings == by_file


def test_every_setting_has_a_text_of_its_own() -> None:
    assert [name for name, _, text in describe() if not text] == []


def test_all_settings_together_survive_being_handed_to_a_child_process(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = loading.load(flags={"cluster.namespaces": "a,b", "log.security.password": "opensesame"}).settings
    for variable, text in loading.environment(loading.flat(loading._dump(settings))).items():
        monkeypatch.setenv(variable, text)
    assert loading.load().settings == settings


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("text", ["shop,web", " shop , web ", '["shop", "web"]'])
def test_a_list_is_written_with_commas_or_as_json_wherever_it_is_given(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_flag = loading.load(flags={name: text}).settings
    assert by_flag == given_in_file({name: ["shop", "web"]}) == given_in_file({name: text})
    monkeypatch.setenv(next(iter(loading.environment({name: ""}))), text)
    assert loading.load().settings == by_flag


def test_an_empty_text_is_the_empty_list_and_unsets_what_may_be_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("ullage.yaml").write_text("cluster: {namespaces: [a], context: prod}\n")
    monkeypatch.setenv("ULLAGE_CLUSTER__NAMESPACES", "")
    monkeypatch.setenv("ULLAGE_CLUSTER__CONTEXT", "")
    assert loading.load().settings == Settings()


def test_an_entry_with_a_comma_arrives_as_one() -> None:
    assert setting_texts.read("x", setting_texts.written(["a,b", "[c"]), {"x": ()}) == ("a,b", "[c")
    assert setting_texts.read("x", setting_texts.written(["[c"]), {"x": ()}) == ("[c",)


def test_a_list_that_is_no_json_is_named_with_what_to_write() -> None:
    with pytest.raises(BadInput, match=r"cluster\.namespaces is '\[a', which begins like a JSON list and is none"):
        loading.load(flags={"cluster.namespaces": "[a"})


def test_an_entry_that_makes_no_sense_is_named_with_its_list_and_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_CLUSTER__NAMESPACES", "shop,no way")
    with pytest.raises(BadInput, match=r"cluster\.namespaces is .*no way.* \(environment ULLAGE_CLUSTER__NAMESPACES\)"):
        loading.load()


ABSURD = {
    bool: ["maybe"],
    int: ["-1000000000000000000000", "1000000000000000000000"],
    float: ["-1e300", "1e300", "nan", "inf"],
    str: ["x" * 5000, "a\x07b"],
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_setting_has_bounds(name: str) -> None:
    default = DEFAULTS[name]
    absurd = ABSURD.get(type(default), [])
    if not absurd:
        absurd = ["x,y," * 2000] if isinstance(default, tuple) else ["x" * 5000] if default is None else ["x" * 5000, "a\x07b"]
    if name in {"vertical.maximum_cpu", "vertical.maximum_memory"}:
        absurd = ABSURD[float]
    for text in absurd:
        with pytest.raises(BadInput, match=name.replace(".", r"\.")):
            loading.load(flags={name: text})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("vertical.target_cpu_percentile", "90", "it must not be above 1, a share of 1 as in 0.9 for 90 %"),
        ("log.brokers", "kafka", "'kafka' is no HOST:PORT, as in 127.0.0.1:9092"),
        ("log.brokers", "a:9092,b:99999", "'b:99999' is no HOST:PORT"),
        ("cluster.url", "there", "it must be an address such as http://127.0.0.1:8899"),
        ("worker.checkpoint_least", "31", "it is above worker.checkpoint_most, 30"),
        ("worker.checkpoint_most", "0.5", "worker.checkpoint_least is '1.0' (default), which makes no sense: it is above"),
    ],
)
def test_what_no_type_expresses_is_refused_with_what_to_write(name: str, text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        loading.load(flags={name: text})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("ULLAGE_CLUSTER_NAME", "is not a setting; did you mean ULLAGE_CLUSTER__NAME?"),
        ("ULLAGE_LOG__BROKER", "is not a setting; did you mean ULLAGE_LOG__BROKERS?"),
        ("ULLAGE_LOG", "is not a setting"),
        ("ULLAGE_XYZZY", "is not a setting"),
    ],
)
def test_an_environment_variable_that_only_looks_like_ours_is_named(
    variable: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "x")
    with pytest.raises(BadInput) as caught:
        loading.load()
    assert f"{variable} in the environment {said}" in str(caught.value)


def test_the_variables_that_kubernetes_makes_of_a_service_are_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for end in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTPS", "PORT", "PORT_443_TCP", "PORT_443_TCP_ADDR"):
        monkeypatch.setenv(f"ULLAGE_WEBHOOK_{end}", "10.0.0.1")
    assert loading.load().settings == Settings()
    monkeypatch.setenv("ULLAGE_METRICS_PORT", "9")
    with pytest.raises(BadInput, match="did you mean ULLAGE_METRICS__PORT"):
        loading.load()


def test_a_secret_is_handed_over_as_it_is() -> None:
    assert loading.environment({"log.security.password": SecretStr("x")}) == {"ULLAGE_LOG__SECURITY__PASSWORD": "x"}


def test_a_settings_file_that_holds_no_groups_or_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("- a\n")
    with pytest.raises(BadInput, match=r"the settings file 'list.yaml' holds no groups of settings"):
        loading.load(file=Path("list.yaml"))
    with pytest.raises(BadInput, match=r"the settings file '.' cannot be read: Is a directory"):
        loading.load(file=Path())


NO_TRUTHS = [name for name, default in DEFAULTS.items() if default is None or type(default) in {int, float}]


@pytest.mark.parametrize("name", NO_TRUTHS)
def test_yes_without_quotes_is_no_number(name: str) -> None:
    Path("ullage.yaml").write_text(yaml.safe_dump(loading.nested({name: True})))
    with pytest.raises(BadInput, match=rf"{name} is .* \(file ullage.yaml\), which makes no sense: it is neither true nor false"):
        loading.load()


@pytest.mark.parametrize("name", [*LISTS, *PAIRS])
@pytest.mark.parametrize("entry", ["a=\x07", "a=" + "b" * 5000])
def test_an_entry_of_a_list_is_bounded_and_printable_as_other_texts_are(name: str, entry: str) -> None:
    with pytest.raises(BadInput, match=name):
        loading.load(flags={name: entry})


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_file_pasted_by_mistake_does_not_fill_the_screen(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        loading.load(flags={name: "x" * 100_000})
    assert len(str(refused.value)) < 1500


@pytest.mark.parametrize(("name", "value"), [("aws.endpoint", "nonsense"), ("aws.region", "eu west"), ("aws.region", "../x")])
def test_an_address_or_region_of_aws_that_is_none_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadInput, match=f"{name} is '{value}'"):
        loading.load(flags={name: value})
