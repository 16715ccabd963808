"""The options of every command that reads settings. Flags override the environment, which overrides the file and the defaults."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter, validators

from streams.errors import BadInput
from streams.url_redaction import without_password

if TYPE_CHECKING:
    from agents.settings.all_settings import Settings
    from agents.settings.loading import LoadedSettings

_GROUP = Group("Settings", sort_key=9)
LimitOption = Annotated[int | None, Parameter(help="Only so many rows.", validator=validators.Number(gte=1))]
OutputOption = Annotated[
    Literal["table", "wide", "json", "yaml", "csv", "md"],
    Parameter(
        name=("--output", "-o"),
        help="For people (`table`, which fits the terminal, `wide` with all columns, `md`) or for programs, in cores and bytes.",
    ),
]

TextOutputOption = Annotated[
    Literal["table", "wide", "json", "yaml"],
    Parameter(
        name=("--output", "-o"),
        help="For people (`table`, here as text that fits the terminal, `wide` as it is) or for programs, with every number.",
    ),
]
"""The form of an answer that is no table."""


At = Annotated[
    str | None,
    Parameter(name="--at", help="As it was then: `2026-01-05T03:02`, `03:02`, or `30m` before the log's newest tick."),
]


@Parameter(name="*", group=Group("Prometheus", sort_key=2))
@dataclass(frozen=True, slots=True)
class PrometheusOptions:
    """A server that stores usage, by flag."""

    url: Annotated[str | None, Parameter(name=("--prometheus-url", "-p"), help="A server that stores usage.")] = None
    header: Annotated[
        tuple[str, ...],
        Parameter(name=("--prometheus-headers", "-H"), help="A header, as `'X-Scope-OrgID: shop'`.", consume_multiple=False),
    ] = ()
    label: Annotated[
        tuple[str, ...],
        Parameter(
            name=("--prometheus-cluster-label", "-l"),
            help="What tells the cluster from others on that server: the label `cluster`, as `prod`, or another, as `env=prod`.",
            consume_multiple=False,
        ),
    ] = ()
    history: Annotated[str | None, Parameter(name="--history", help="How far back to ask it, as `8d`.")] = None
    step: Annotated[str | None, Parameter(name="--step", help="What lies between two samples, as `1h`.")] = None
    until: Annotated[datetime | None, Parameter(help="The end of that history, with an offset from UTC; now if not given.")] = (
        None
    )

    def overrides(self) -> dict[str, object]:
        """The settings that these flags set, for `SettingsOptions.load`. Raises BadInput."""
        from agents.settings import event_times

        length, step = (
            None if text is None else event_times.duration(text, flag).total_seconds()
            for text, flag in ((self.history, "--history"), (self.step, "--step"))
        )
        return {
            "prometheus__url": self.url,
            # `or None`: an empty tuple would take the place of what the settings file says
            "prometheus__headers": "\n".join(self.header) or None,
            "prometheus__labels": tuple(label if "=" in label else f"cluster={label}" for label in self.label) or None,
            "history__length_seconds": length,
            "history__resolution_seconds": step,
        }


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True, slots=True)
class SettingsOptions:
    """Settings by flag, for a command that has a log of its own."""

    config: Annotated[
        Path | None, Parameter(help="A YAML file of settings, instead of ./ullage.yaml.", env_var="ULLAGE_CONFIG")
    ] = None
    set: Annotated[
        tuple[str, ...],
        Parameter(
            help="One setting, as in `--set topics.prefix=shop`; may be repeated. `ullage config show` lists them.",
            consume_multiple=False,
        ),
    ] = ()
    cluster: Annotated[str | None, Parameter(help="Which cluster, short for `--set cluster.name=NAME`.")] = None
    brokers: Annotated[str | None, Parameter(help="Kafka's HOST:PORT, short for `--set log.brokers=HOST:PORT`.")] = None

    def load(self, **more: object) -> LoadedSettings:
        """All settings with their origins. `more` are the command's own, with `__` for the dot in names; None means unset."""
        from agents.settings.loading import load
        from agents.settings.setting_texts import written

        # in this order: what a recorded log fits gives way to --set, and --set to the short flags
        flags = self._of_the_log()
        flags |= dict(_split(item) for item in self.set)
        # as texts, so that they are read by the same rule as those of `--set`
        flags |= {name.replace("__", "."): written(value) for name, value in more.items() if value is not None}
        short = {"cluster.name": self.cluster, "log.brokers": self.brokers}
        flags |= {name: value for name, value in short.items() if value is not None}
        return load(file=self.config, flags=flags)

    def settings(self, **more: object) -> Settings:
        """All settings as from `load`, without their origins."""
        return self.load(**more).settings

    def _of_the_log(self) -> dict[str, str]:
        """The settings that follow from the log that was named, which all other flags come before."""
        return {}


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True, slots=True)
class CommonOptions(SettingsOptions):
    """Settings by flag, and the log to read."""

    log: Annotated[
        Path | None,
        Parameter(help="Read this log file (.jsonl) or incident file (.parquet) instead of Kafka."),
    ] = None

    def _of_the_log(self) -> dict[str, str]:
        from agents.settings.recorded_log import fitting_settings
        from agents.settings.setting_texts import written

        return {} if self.log is None else {name: written(value) for name, value in fitting_settings(self.log).items()}


def given(common: CommonOptions | None) -> CommonOptions:
    """The options given on the command line, or the defaults if there are none."""
    return common or CommonOptions()


def _split(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals:
        raise BadInput(f"--set takes NAME=VALUE, as in --set log.brokers=127.0.0.1:9092, not '{without_password(item)}'")
    return name.strip(), value
