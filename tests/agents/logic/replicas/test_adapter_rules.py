"""Rules of prometheus-adapter, and the queries that they give for the metrics of an EHPA."""

from typing import Any

import pytest
import yaml

from agents.logic.replicas import adapter_rules, metric_series
from agents.logic.replicas.ehpa_manifest import ehpa_of
from schemas.policies.scaling import MetricSpec, MetricTarget
from tests.support.replica_scene import CPU, RATE, ehpa

CONFIG = """
rules:
- seriesQuery: 'http_requests_total{namespace!="",pod!="",code=~"2.."}'
  resources: {overrides: {kube_ns: {resource: namespace}, kube_pod: {resource: pod}}}
  name: {matches: "^(.*)_total$", as: "${1}_per_second"}
  metricsQuery: 'sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)'
- seriesQuery: '{__name__=~"^jvm_.*",namespace!=""}'
  resources: {template: "<<.Resource>>"}
  metricsQuery: 'max({<<.LabelMatchers>>})'
externalRules:
- seriesQuery: 'queue_depth{queue!=""}'
  resources: {namespaced: false}
  name: {as: "depth"}
  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'
resourceRules:
  cpu:
    containerQuery: 'sum(rate(container_cpu_usage_seconds_total{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>)'
    resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
    containerLabel: container
"""
PODS = "^cart-[a-z0-9]+-[a-z0-9]{5}$"
AVERAGE = MetricTarget("AverageValue", average_value="10")


def query(metric: MetricSpec, config: str = CONFIG, extra: tuple[str, ...] = ()) -> str:
    read = ehpa_of(ehpa(metrics=(metric,)))
    return adapter_rules.query(read, read.metrics[0], adapter_rules.read(yaml.safe_load(config)), extra)


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        (
            MetricSpec("Pods", "http_requests_per_second", AVERAGE, match_labels={"verb": "GET"}),
            'sum(rate(http_requests_total{namespace!="",pod!="",code=~"2..",env="prod",verb="GET",kube_ns="shop",kube_pod=~"PODS"}[2m]))'.replace(
                "PODS", PODS
            ),
        ),
        (
            MetricSpec("Pods", "jvm_threads", AVERAGE),
            f'max({{__name__=~"^jvm_.*",namespace!="",env="prod",namespace="shop",pod=~"{PODS}"}})',
        ),
        (
            MetricSpec("External", "depth", AVERAGE, match_labels={"queue": 'a"b'}),
            'sum(queue_depth{queue!="",env="prod",queue="a\\"b"})',
        ),
        (CPU, f'sum(rate(container_cpu_usage_seconds_total{{env="prod",namespace="shop",pod=~"{PODS}"}}[1m]))'),
        (
            MetricSpec("ContainerResource", "cpu", AVERAGE, "app"),
            f'sum(rate(container_cpu_usage_seconds_total{{env="prod",namespace="shop",pod=~"{PODS}",container="app"}}[1m]))',
        ),
        (MetricSpec("Pods", "depth", AVERAGE), ""),
        (MetricSpec("Resource", "memory", AVERAGE), ""),
    ],
)
def test_the_first_rule_that_fits_gives_the_query(metric: MetricSpec, wanted: str) -> None:
    assert query(metric, extra=('env="prod"',)) == wanted


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"seriesQuery": "a b", "metricsQuery": "x"}, "rules[0].seriesQuery 'a b' is no series"),
        ({"seriesQuery": '{pod!=""}', "metricsQuery": "x"}, "rules[0].seriesQuery names no series"),
        ({"seriesQuery": "a", "metricsQuery": ""}, "rules[0] has no query"),
        (
            {"seriesQuery": "a", "metricsQuery": "sum(<<.LabelValuesByName>>)"},
            "'<<.LabelValuesByName>>' cannot be filled",
        ),
        ({"seriesQuery": '{__name__=~"("}', "metricsQuery": "x"}, "is no pattern that fits its name"),
        ({"seriesQuery": "a", "metricsQuery": "x", "name": {"matches": "a", "as": "$7"}}, "is no pattern that fits its name"),
    ],
)
def test_a_rule_that_makes_no_sense_is_named(rule: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=r"rules") as refused:
        adapter_rules.read({"rules": [rule]})
    assert words in str(refused.value)


def test_an_annotation_goes_before_a_rule_and_a_rule_before_the_default() -> None:
    name, annotation = "pods.http_requests", "metric-query.autoscaling.crane.io/pods.http_requests"
    default = metric_series.of_ehpa(ehpa(metrics=(RATE,)))[0].query
    assert default.startswith("sum(http_requests{")
    ruled = ehpa(metrics=(RATE,), queries={name: "by rule"})
    assert metric_series.of_ehpa(ruled)[0].query == "by rule"
    told = ehpa(metrics=(RATE,), queries={name: "by rule"}, annotations={annotation: "by annotation"})
    assert metric_series.of_ehpa(told)[0].query == "by annotation"


def test_default_queries_are_asked_with_the_labels_of_the_cluster_and_known_by_the_same_name() -> None:
    name = "pods.http_requests"
    plain = metric_series.of_ehpa(ehpa(metrics=(RATE, CPU)))
    labelled = metric_series.of_ehpa(ehpa(metrics=(RATE, CPU)), ('cluster="prod"',))
    assert [(each.series, each.query) for each in labelled] == [(each.series, each.query) for each in plain]
    assert [each.asked for each in plain] == [each.query for each in plain]
    assert [each.asked.count('cluster="prod"') for each in labelled] == [1, 1]
    [ruled] = metric_series.of_ehpa(ehpa(metrics=(RATE,), queries={name: "by rule"}), ('cluster="prod"',))
    assert ruled.asked == "by rule"


def test_a_rule_for_cpu_takes_its_value_from_the_metrics_store() -> None:
    [wanted] = metric_series.of_ehpa(ehpa(queries={"resource.cpu": "by rule"}))
    assert (wanted.query, wanted.scraped) == ("by rule", False)


def test_a_rule_without_a_name_is_for_its_series_alone() -> None:
    config = "rules: [{seriesQuery: queue_depth, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>})'}]"
    assert query(MetricSpec("Pods", "queue_depth", AVERAGE), config).startswith("sum(queue_depth{")
    assert query(MetricSpec("Pods", "errors", AVERAGE), config) == ""
