"""docs/on-call.md: each of its forty answers is what the command prints, and what a program of its own finds in the log."""

import itertools
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import duckdb
import pytest

from agents import cli
from tests.support.raw_log import Json, RawLog, moment, size

DOCS = Path(__file__).parents[3] / "docs"
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| `(.+?)` \| (.+) \|$", (DOCS / "on-call.md").read_text(encoding="utf-8"), re.MULTILINE)
Texts = Iterator[str]
CACHE, THUMBS, SEARCH = "demo/shop/Deployment/cache", "thumbs", "search"


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both nights."""
    folder = tmp_path_factory.mktemp("nights")
    shutil.copytree(DOCS / "scenarios", folder / "scenarios")
    for name in ("night", "storm"):
        assert cli.run(["simulate", str(folder / f"scenarios/{name}.yaml"), "--keep", str(folder / name)]) == 0
    return folder


def read(nights: Path, command: str) -> RawLog:
    return raw(nights / ("night" if "night/" in command else "storm") / "log.jsonl")


@cache
def raw(path: Path) -> RawLog:
    return RawLog(path)


def control(log: RawLog) -> Texts:
    said = log.of("control")[-1]
    yield said["mode"]
    yield f"{said['budget']:.0%}"


def sees(log: RawLog) -> Texts:
    newest = [said for said in log.of("cluster-changes", "source-reported") if said["source"] == "cluster"][-1]
    yield ", ".join(sorted(newest["sees"]))


def unreadable(log: RawLog) -> Texts:
    assert not log.of("dead-letters")
    yield "every record"


def rising(log: RawLog, until: datetime) -> tuple[list[float], datetime]:
    """The lowest use of the cache in each whole hour before a moment, and the end of the last one."""
    lowest: dict[datetime, float] = {}
    for scrape in log.of("pod-metrics"):
        at = datetime.fromisoformat(scrape["at"])
        if CACHE in scrape["names"]["workloads"] and at < until.replace(minute=0):
            used = column(scrape)[scrape["names"]["workloads"].index(CACHE)]
            hour = at.replace(minute=0, second=0)
            lowest[hour] = min(used, lowest.get(hour, used))
    return [lowest[hour] for hour in sorted(lowest)], until.replace(minute=0)


def column(scrape: Json) -> Sequence[float]:
    return [float(used) for used in scrape["memory"]]


def last_scrape(log: RawLog) -> datetime:
    return datetime.fromisoformat(log.of("pod-metrics")[-1]["at"])


def leak_rate(log: RawLog) -> Texts:
    lowest, _ = rising(log, last_scrape(log))
    assert all(low < high for low, high in itertools.pairwise(lowest))
    yield f"about {size((lowest[-1] - lowest[0]) / (len(lowest) - 1))}/h"


def leak_full(log: RawLog) -> Texts:
    lowest, end = rising(log, last_scrape(log))
    [(_, limit, _), *_] = log.limits(log.of("pod-changes", "pod-changed", "cache")[0]["pod"]["name"])
    left = (limit - lowest[-1]) / ((lowest[-1] - lowest[0]) / (len(lowest) - 1))
    yield f"full in {(end + timedelta(hours=left) - last_scrape(log)).total_seconds() / 3600:.0f} h"


def leak_pod(log: RawLog) -> Texts:
    [pod] = {fact["pod"]["name"] for fact in log.of("pod-changes", "pod-changed", "cache")}
    yield pod


def leak_since(log: RawLog) -> Texts:
    lowest, end = rising(log, last_scrape(log))
    yield moment((end - timedelta(hours=len(lowest))).isoformat())[:16]


def leak_most(log: RawLog) -> Texts:
    found = log.of("memory-leaks")[0]["at"]
    before = [said for said in log.of("recommendations", "requests-recommended", "cache") if said["at"] < found][-1]
    yield size(before["containers"][0]["target"]["memory"] * 1.5)


def leak_found(log: RawLog) -> Texts:
    first = datetime.fromisoformat(log.of("pod-metrics")[0]["at"]).replace(minute=0)
    yield moment((first + timedelta(hours=9)).isoformat())  # eight rises need nine whole hours


def kills(log: RawLog, workload: str) -> list[Json]:
    return log.of("oom-events", "container-oom-killed", workload)


def lowered(log: RawLog) -> Iterator[tuple[Json, int]]:
    """Kills of thumbs under a lower limit than its owner had asked for, and that."""
    for kill in kills(log, THUMBS):
        wanted = next(owners or limit for _, limit, owners in log.limits(kill["pod"]["name"]))
        if kill["memory_limit"] < wanted:
            yield kill, wanted


def ours(log: RawLog) -> Texts:
    yield f"in pod {next(kill for kill, _ in lowered(log))['pod']['name']}: ours"


def ours_limit(log: RawLog) -> Texts:
    kill, wanted = next(lowered(log))
    yield f"killed at {size(kill['memory_limit'])}"
    yield f"limit of {size(wanted)}"


def on_pod(log: RawLog, action: str, pod: str) -> list[Json]:
    done = [each for each in log.of("outcomes", "action-finished") if each["action"] == action and each["result"] == "done"]
    return [each for each in done if each["subject"]["name"] == pod]


def before_kill(log: RawLog) -> Texts:
    kill, wanted = next(lowered(log))
    [patch] = on_pod(log, "patch", kill["pod"]["name"])
    yield f"{moment(patch['at'])} patch of {kill['pod']['name']}: memory limit {size(wanted)} to {size(kill['memory_limit'])}"


def after_kill(log: RawLog) -> Texts:
    kill = list(lowered(log))[-1][0]
    resize = next(each for each in on_pod(log, "resize", kill["pod"]["name"]) if each["at"] > kill["at"])
    after = next(limit for at, limit, _ in log.limits(kill["pod"]["name"]) if at >= resize["at"] and limit > kill["memory_limit"])
    yield f"{moment(resize['at'])} resize of {kill['pod']['name']}: memory limit {size(kill['memory_limit'])} to {size(after)}"


def no_kill_since(log: RawLog) -> Texts:
    last = list(lowered(log))[-1][0]
    assert not [kill for kill in kills(log, THUMBS) if kill["at"] > last["at"]]
    yield "not killed again"


def not_ours(log: RawLog) -> Texts:
    kill = max(kills(log, SEARCH), key=lambda each: each["at"])
    assert not [each for each in on_pod(log, "resize", kill["pod"]["name"]) if each["at"] <= kill["at"]]
    yield f"{kill['pod']['name']}: not ours"


def not_ours_limit(log: RawLog) -> Texts:
    kill = max(kills(log, SEARCH), key=lambda each: each["at"])
    assert {limit for at, limit, _ in log.limits(kill["pod"]["name"]) if at <= kill["at"]} == {kill["memory_limit"]}
    yield size(kill["memory_limit"])


def moved(log: RawLog) -> Texts:
    pods = {fact["pod"]["name"] for fact in log.of("pod-changes", "pod-changed", SEARCH)}
    plans = log.of("node-updates", "node-removal-planned")
    yield next(f"'{plan['node']}'" for plan in plans if any(evicted.split("/")[1] in pods for evicted in evictions(plan)))


def evictions(plan: Json) -> list[str]:
    return [f"{pod['namespace']}/{pod['name']}" for pod in plan["evict"]]


def quota(at: str) -> Callable[[RawLog], Texts]:
    def texts(log: RawLog) -> Texts:
        refused = log.of("pod-updates", "update-refused", "report")
        said = [each for each in refused if each["guard"] == "quota" and each["at"] <= at]
        yield re.sub(r".*(ResourceQuota.*asked for).*", r"\1", said[-1]["reason"])

    return texts


def first_refused(log: RawLog) -> Texts:
    yield log.of("pod-updates", "update-refused", "report")[0]["at"][:19]


def needs(log: RawLog) -> Texts:
    target = log.of("recommendations", "requests-recommended", "report")[-1]["containers"][0]["target"]["cpu"]
    yield f"→ {target * 1000:.0f}m"


def at_high_risk(log: RawLog) -> Texts:
    """Killed within the last day, or requesting less memory than each day's peak took."""
    newest = {said["workload"]["name"]: said for said in log.of("recommendations", "requests-recommended")}
    killed = {kill["workload"]["name"] for kill in log.of("oom-events")}
    requests = {each["workload"]["name"]: each["containers"][0]["requests"] for each in log.of("pod-changes", "pod-changed")}
    short = {name for name, said in newest.items() if requests[name]["memory"] < said["containers"][0]["lower"]["memory"]}
    yield f"{len(killed | short)} at high risk"


def halted(log: RawLog) -> Texts:
    said = [each for each in log.of("node-updates", "node-scaling-halted") if each["at"] <= "2026-01-05T03:02"][-1]
    yield said["code"]
    yield said["reason"].split(":")[0]


def last_growth(log: RawLog) -> Json:
    return [each for each in log.of("node-updates", "scale-up-planned") if each["at"] <= "2026-01-05T03:02"][-1]


def growth(log: RawLog) -> Texts:
    plan = last_growth(log)
    yield f"group {plan['group']}, nodes {plan['before']} to {plan['after']}, pods {plan['pods']}"


def waited(log: RawLog) -> Texts:
    yield ", ".join(last_growth(log)["examples"])


def removed(log: RawLog) -> Texts:
    plan = next(each for each in log.of("node-updates", "node-removal-planned") if each["node"] == "general-2")
    yield plan["reason"]
    yield ", ".join(evictions(plan))


def stays(log: RawLog) -> Texts:
    said = [each for each in log.of("node-updates", "scale-refused") if each["subject"]["name"] == "general-1"][-1]
    yield f"{said['code']}: {said['reason']}"


def replicas(log: RawLog) -> Texts:
    plan = [each for each in log.of("replica-plans", "replicas-planned") if each["at"] <= "2026-01-05T02:30"][-1]
    yield f"replicas {plan['current']} to {plan['replicas']}, bounds {plan['least']} to {plan['most']}"


def new_pod(log: RawLog) -> Texts:
    first = log.of("pod-changes", "pod-changed", "web")[0]["containers"][0]["requests"]
    target = log.of("recommendations", "requests-recommended", "web")[-1]["containers"][0]["target"]
    yield f"cpu {first['cpu'] * 1000:.0f}m to {target['cpu'] * 1000:.0f}m"
    yield f"memory {size(first['memory'])} to {size(target['memory'])}"


def policy(log: RawLog) -> Texts:
    said = log.of("rules", "vertical-policy-changed")[-1]
    yield f"target: {said['target']}"
    yield f"mode: {said['update_mode']}"


def published(log: RawLog) -> Texts:
    ids = list(log.ids())
    assert len(set(ids)) == len(ids) > 50
    yield "every decision"


def changed_rule(log: RawLog) -> Texts:
    [rules] = [said["settings"] for said in log.of("rules", "stage-rules-changed") if said["stage"] == "updater"]
    yield f"lifetime is {float(rules['lifetime'])} in the log"


def evicted(log: RawLog) -> Texts:
    yield f"evictions planned {len(log.of('pod-updates', 'eviction-planned'))} "


def carried_out(log: RawLog) -> Texts:
    done = [each for each in log.of("outcomes", "action-finished") if (each["action"], each["result"]) == ("evict", "done")]
    last = max(at for at in (each["at"] for each in log.of("pod-metrics")))
    yield f"{sum(each['at'] < last for each in done)} evict"


def cart_kills(log: RawLog) -> Texts:
    found = kills(log, "cart")
    assert all(kill["memory_limit"] == log.limits(kill["pod"]["name"])[0][1] for kill in found)
    yield f"{len(found)} in all, {len(found)} not ours"


def cart_limits(log: RawLog) -> Texts:
    first = kills(log, "cart")[0]
    owners = first["memory_limit"]
    seen = {each for fact in log.of("pod-changes", "pod-changed", "cart") for each in log.limits(fact["pod"]["name"])}
    given = [limit for at, limit, _ in sorted(seen, key=str) if at > first["at"]]
    yield size(owners)
    yield size(next(limit for limit in given if limit != owners))


def first_eviction(log: RawLog) -> Texts:
    plan = log.of("pod-updates", "eviction-planned", "web")[0]
    yield plan["at"][:19]
    yield plan["pod"]["name"]


def budget(log: RawLog) -> Texts:
    refused = log.of("pod-updates", "update-refused", "web")
    yield next(each["reason"] for each in refused if each["guard"] == "disruption-budget").split(", and")[0]


CHECKS: Sequence[Callable[[RawLog], Texts]] = (
    *(control, sees, unreadable, leak_rate, leak_full, leak_pod, leak_since, leak_most, leak_found, ours),
    *(ours_limit, before_kill, after_kill, no_kill_since, not_ours, not_ours_limit, moved),
    *(quota("2026-01-05T12"), quota("2026-01-05T03:02"), first_refused, needs, at_high_risk, halted, growth, waited),
    *(removed, stays, replicas, new_pod, policy, published, changed_rule, evicted, carried_out, cart_kills, cart_limits),
    *(first_eviction, budget, policy, published),
)


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_forty_answers_are_printed_and_are_in_the_log(
    nights: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(nights)
    assert [int(number) for number, *_ in ROWS] == list(range(1, 41))
    printed: dict[str, str] = {}
    wrong = []
    for (number, question, command, answer), check in zip(ROWS, CHECKS, strict=True):
        if command not in printed:
            capsys.readouterr()
            cli.run(shlex.split(command)[1:])
            printed[command] = squeezed(" ".join(capsys.readouterr()))
        if answer not in printed[command]:
            wrong.append(f"{number} {question} `{command}` does not print: {answer}")
        wrong += [
            f"{number} {question} the log says {text}, not {answer}"
            for text in check(read(nights, command))
            if text not in answer
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_of_a_night_without_names_no_name_is_left(nights: Path) -> None:
    """Neither as a value nor as the key of an entry; names that are words of Kubernetes' API or of ours stay."""
    log, file = raw(nights / "night" / "log.jsonl"), nights / "night.parquet"
    command = ["export", str(file), "--log", str(nights / "night" / "log.jsonl"), "--pseudonyms", str(nights / "key")]
    assert cli.run(command) == 0
    pods = log.of("pod-changes", "pod-changed")
    names = {name for fact in pods for name in (fact["pod"]["name"], fact["workload"]["name"], fact["workload"]["namespace"])}
    names |= {seen["name"] for fact in pods for seen in fact["containers"]} | {"general", "general-1", "general-2", "demo"}
    rows = duckdb.read_parquet(str(file)).project("topic, key, value::varchar, headers::varchar").fetchall()
    shown = {(topic, name) for topic, *texts in rows for text in texts for name in names & set(re.split(r"[^\w.-]+", text or ""))}
    assert len(names) > 20
    assert shown == set()
