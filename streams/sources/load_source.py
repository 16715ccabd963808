"""The load source: queries the loads that workloads are scaled by at an interval, and once the past of each.

Which queries there are follows from the objects in the log. A series that is seen for the first time gets its history, as far
back as forecasts look; after a restart only what is missing since its newest row. A failing query is reported once, as a fact
with the reason. When the server answers nothing, the rest of the round is skipped: the loads grow old, and forecasts with them.
It reads no clock for what it publishes: `at` is given.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Protocol

import structlog

from schemas import times
from schemas.catalogue import Event
from schemas.facts.replica_scaling import MOST_ROWS, LoadHistoryRead, LoadQueryFailed, LoadScraped
from schemas.facts.sources import SourceReported
from schemas.names import Workload
from schemas.units import Seconds
from streams import log_range
from streams.compacted_copy import read_present
from streams.errors import EdgeError, GiveUp, LogUnavailable, TryAgain, Unreachable
from streams.log.log_port import NewRecord, Record
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.sources.load_queries import LoadHistory, LoadQueries, QueryTurns, TurnLimits

_log = structlog.get_logger(__name__)
NAME = "load"
SOURCE = f"/ullage/source/{NAME}"
READ_BACK = timedelta(hours=2)
"""How far back the log is read at a start, for what was published before. A series without a row since gets its history again."""
SELDOM = timedelta(minutes=10)
"""How often a query that fails again and again is asked, at least."""
_SLOW = Seconds(1.0)
"""A query that takes longer is asked more seldom: after twenty times as long, so that it costs a twentieth of one place."""
_PAUSES = 20
_PART, _PART_OF_TIME, _PART_OF_PERIOD = 4, 10, 2
"""Of the places one namespace has a fourth, and of the time of a round a tenth. A round ends after half of the period."""
_NOT_OURS = "it is PromQL that a tenant wrote, and load.tenant_queries is off: only the rules of prometheus-adapter give queries"
_LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class LoadWish:
    """One wanted series: its workload (key), its name, and its query.

    `scraped`: another source has its present value, so the query is only for its history. `by_tenant`: a tenant wrote it.
    """

    workload: str
    series: str
    query: str
    scraped: bool = False
    by_tenant: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What the series is known by."""
        return self.workload, self.series


class LoadWishes(Protocol):
    """The series that objects in the log ask for."""

    def apply(self, event: Event) -> None:
        """Take in one event of `policies`."""

    def series(self) -> Sequence[LoadWish]:
        """Every series that some query gives, each once."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Seconds between two rounds, how far back a history goes, histories per round, and simultaneous queries.

    `tenant_queries`: whether queries that tenants wrote are asked.
    """

    period: Seconds = Seconds(60.0)
    history: Seconds = Seconds(15 * 86_400.0 + 3600.0)
    histories: int = 50
    concurrency: int = 10
    tenant_queries: bool = True


@dataclass(slots=True)
class SeriesProgress:
    """The progress of a series: the newest moment in the log, and failures in a row with the moment of the next try."""

    newest: float | None = None
    has_history: bool = False
    failures: int = 0
    again: datetime | None = None
    reason: str = ""
    asked: float = 0.0
    """When it was asked last, in seconds since the epoch."""
    took: float = 0.0
    """Real seconds that the last answer for now took."""

    def is_due(self, at: datetime) -> bool:
        """Whether it is time to ask."""
        return self.again is None or at >= self.again

    def follow(self, now: float) -> None:
        """There is a value now (seconds since the epoch). After a gap the past is queried again, from the newest value on."""
        if self.has_history and self.newest is not None and now - self.newest > SELDOM.total_seconds():
            self.has_history = False
        elif self.has_history:
            self.newest = now


@dataclass(frozen=True, slots=True)
class _Query:
    """What is asked for one series in one round."""

    wish: LoadWish
    at: datetime
    with_history: bool


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one series got in one round. `at`: that of its round."""

    wish: LoadWish
    at: datetime
    value: float | None = None
    history: tuple[LoadHistory, ...] | None = None
    error: EdgeError | None = None


class LoadSource:
    """The loads of one cluster into one log. One thread calls it; it makes queries in a few threads of its own."""

    def __init__(
        self,
        ask: LoadQueries,
        context: LogContext,
        wishes: LoadWishes,
        options: LoadOptions | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        """`outbox` is another one in tests of its bound."""
        self._clock: Callable[[], float] = time.monotonic
        self._ask, self._context, self._wishes, self._options = ask, context, wishes, options or LoadOptions()
        self._outbox = Outbox(context) if outbox is None else outbox
        self._pool = ThreadPoolExecutor(self._options.concurrency, thread_name_prefix=NAME)
        places, period = self._options.concurrency, self._options.period
        part, round_ends = Seconds(period / _PART_OF_TIME), Seconds(period / _PART_OF_PERIOD)
        limits = TurnLimits(places, max(1, places // _PART), part, round_ends)
        self._turns: QueryTurns[_Query, _Answer | None] = QueryTurns(self._pool, limits, self._answer, self._clock)
        self._away = False
        self._next: int | None = None
        self._published: dict[tuple[str, str], float] | None = None
        self._series: dict[tuple[str, str], SeriesProgress] = {}

    @property
    def dropped(self) -> Mapping[str, int]:
        """Records dropped since the start because the log was away for too long, by topic (wire name)."""
        return self._outbox.dropped

    def scrape(self, at: datetime) -> bool:
        """One round. False when the log is away and the facts wait. Raises Unreachable when the server does not answer.

        The first round needs the log, to know which series are wanted and what was published before: it raises LogUnavailable.
        """
        self._catch_up(at)
        self._away = False
        unreachable, heard, flushed = None, False, self._publish(list(self._refusals(at)), at)
        for answers in self._answers(at):
            heard = True
            # What one query brings is published now, so that no value waits for a slow query of somebody else.
            unreachable = unreachable or next((answer.error for answer in answers if isinstance(answer.error, Unreachable)), None)
            flushed = self._publish(answers, at, flush=flushed)
        away = unreachable if heard else self._silence(at)
        self._outbox.publish(facts=(), scrapes=self._report(at, sees=away is None))
        flushed = self._outbox.flush()
        if flushed and self._outbox.report_losses():
            # Facts were dropped, so the log does not hold what is believed to be published: read it again, as at a start.
            self._series.clear()
            self._published = None
        if away is not None:
            raise away
        return flushed

    def _publish(self, answers: Sequence[_Answer], at: datetime, *, flush: bool = True) -> bool:
        """Publish these. False when the log is away, or was before."""
        facts = [record for answer in answers for record in self._facts(answer, at)]
        rows = self._rows([answer for answer in answers if answer.value is not None])
        self._outbox.publish(facts=facts, scrapes=rows)
        return flush and (not answers or self._outbox.flush())

    def close(self) -> None:
        """Stop querying."""
        self._pool.shutdown(cancel_futures=True)

    def _catch_up(self, at: datetime) -> None:
        """Follow the policies, and at a start learn what was published. Later the log may be away for a while."""
        log, topics = self._context.log, self._context.topics
        try:
            if self._next is None:
                present = read_present(log, topics, "policies", 0)
                self._apply(present)
                self._next = present.position
            place = (topics.wire("policies"), 0)
            while self._next < log.end(*place) and (records := log.poll({place: self._next})):
                self._apply(records)
                self._next = records[-1].offset + 1
            if self._published is None:
                self._published = self._read_back(at)
        except LogUnavailable:
            if self._next is None or self._published is None:
                raise
        wanted = {wish.key for wish in self._wishes.series()}
        # Tenants make and delete series at will, so nothing is kept of those that nobody wants any more.
        self._series = {key: progress for key, progress in self._series.items() if key in wanted}

    def _apply(self, records: Iterable[Record]) -> None:
        for record in records:
            event = self._context.codec.decode_or_none(record)
            if event is not None:
                self._wishes.apply(event)

    def _read_back(self, at: datetime) -> dict[tuple[str, str], float]:
        """The newest moment of each series in the log, by workload and series."""
        context, newest = self._context, dict[tuple[str, str], float]()
        for record in log_range.read_range(context.log, [context.topics.wire("load-metrics")], since=at - READ_BACK):
            event = context.codec.decode_or_none(record)
            if isinstance(event, LoadScraped) and event.cluster == context.cluster:
                seen = times.to_seconds(event.at)
                newest.update(dict.fromkeys(zip(event.workloads, event.series, strict=True), seen))
            elif isinstance(event, LoadHistoryRead):
                end = times.to_seconds(event.start) + (len(event.values) - 1) * event.step
                key = event.workload.key, event.series
                newest[key] = max(end, newest.get(key, end))
        return newest

    def _silence(self, at: datetime) -> EdgeError | None:
        """Why the server is away, by a question that costs it nothing; None when it is there."""
        try:
            self._ask.look(at)
        except EdgeError as error:
            return error
        return None

    def _progress(self, wish: LoadWish) -> SeriesProgress:
        if wish.key not in self._series:
            self._series[wish.key] = SeriesProgress(newest=(self._published or {}).get(wish.key))
        return self._series[wish.key]

    def _refusals(self, at: datetime) -> Iterator[_Answer]:
        """Of what tenants wrote, where that is not asked."""
        for wish in self._wishes.series():
            if self._is_refused(wish) and self._progress(wish).is_due(at):
                yield _Answer(wish, at, error=GiveUp(doing="reading a load from", to=wish.query[:200], answer=_NOT_OURS))

    def _is_refused(self, wish: LoadWish) -> bool:
        return wish.by_tenant and not self._options.tenant_queries

    def _answers(self, at: datetime) -> Iterator[list[_Answer]]:
        """Make all due queries, several at the same time; stop once the server does not answer."""
        busy = {query.wish.key for query in self._turns.under_way()}
        wishes = [wish for wish in self._wishes.series() if wish.key not in busy and not self._is_refused(wish)]
        due = [wish for wish in wishes if self._progress(wish).is_due(at)]
        new = {id(wish) for wish in islice((w for w in due if not self._progress(w).has_history), self._options.histories)}
        turns = [wish for wish in due if id(wish) in new or not wish.scraped]
        # Those first that have waited longest, because a round may end before all have had their turn.
        turns.sort(key=lambda wish: self._progress(wish).asked)
        queries = [(Workload.parse(wish.workload).namespace, _Query(wish, at, id(wish) in new)) for wish in turns]
        for answers in self._turns.round(queries):
            yield [answer for answer in answers if answer is not None]

    def _answer(self, query: _Query) -> _Answer | None:
        """The answer to one query; None if the server was found to be away before."""
        if self._away:
            return None
        answer = self._asked(query)
        error = answer.error
        if isinstance(error, Unreachable):
            # A trivial query is answered: this one is too much for the server, and the server is not away.
            if self._silence(query.at) is None:
                return _Answer(query.wish, query.at, error=GiveUp(doing=error.doing, to=error.to, answer=error.answer))
            self._away = True
        return answer

    def _asked(self, query: _Query) -> _Answer:
        wish, at = query.wish, query.at
        progress, begun = self._progress(wish), self._clock()
        progress.asked = times.to_seconds(at)
        try:
            value = None if wish.scraped else self._ask.now(wish.query, at)
            progress.took = 0.0 if wish.scraped else self._clock() - begun
            return _Answer(wish, at, value, self._history(wish, at) if query.with_history else None)
        except EdgeError as error:
            return _Answer(wish, at, error=error)

    def _history(self, wish: LoadWish, at: datetime) -> tuple[LoadHistory, ...] | None:
        """The past; None to ask again later. If the server has no past at all, the present must do. Raises Unreachable."""
        until = times.to_seconds(at)
        since = max(until - self._options.history, self._progress(wish).newest or 0.0)  # after a restart, only what is missing
        try:
            return tuple(self._ask.history(wish.query, since=since, until=until))
        except Unreachable:  # it is a TryAgain, too, and says that the server is away
            raise
        except TryAgain:
            return None
        except GiveUp as error:
            _log.warning("the past of a load cannot be read", workload=wish.workload, series=wish.series, reason=error.answer)
            return ()

    def _facts(self, answer: _Answer, at: datetime) -> list[NewRecord]:
        """The history, or a failure that was not published before."""
        wish, progress = answer.wish, self._progress(answer.wish)
        if answer.error is not None:
            return self._failed(answer.error, wish, progress, at)
        progress.failures, progress.reason = 0, ""
        # A slow query is asked the more seldom the longer it takes, so that it never keeps a place for itself.
        pause = min(timedelta(seconds=progress.took * _PAUSES), SELDOM)
        progress.again = at + pause if progress.took > _SLOW else None
        progress.follow(times.to_seconds(at))
        if answer.history is None:
            return []
        progress.has_history, progress.newest = True, times.to_seconds(at)
        workload = Workload.parse(wish.workload)
        return [
            self._record(
                LoadHistoryRead(at, workload, wish.series, times.from_seconds(part.start), part.step, part.values), wish.workload
            )
            for part in answer.history
        ]

    def _failed(self, error: EdgeError, wish: LoadWish, progress: SeriesProgress, at: datetime) -> list[NewRecord]:
        if isinstance(error, Unreachable):  # the server is away, which the source's report says; the query is not at fault
            return []
        progress.failures += 1
        wait = min(timedelta(seconds=self._options.period) * 2 ** min(progress.failures, 10), SELDOM)
        progress.again = at + wait
        reason = error.answer[:_LONGEST_REASON]
        if reason == progress.reason:  # it is in the log already
            return []
        progress.reason = reason
        _log.warning("a load cannot be read", workload=wish.workload, series=wish.series, reason=reason)
        return [self._record(LoadQueryFailed(at, Workload.parse(wish.workload), wish.series, reason), wish.workload)]

    def _record(self, event: LoadHistoryRead | LoadQueryFailed, workload: str) -> NewRecord:
        partition = self._context.topics.partition_of(workload)
        return self._context.codec.encode(event, topic="load-metrics", key=workload, partition=partition, source=SOURCE)

    def _rows(self, answers: Sequence[_Answer]) -> list[NewRecord]:
        """The loads of now as columns: a record for each partition and round that has rows, more where one would be too long."""
        context, by_record = self._context, dict[tuple[int, datetime], list[_Answer]]()
        for answer in answers:
            by_record.setdefault((context.topics.partition_of(answer.wish.workload), answer.at), []).append(answer)
        records = []
        for partition, at in sorted(by_record):
            rows = sorted(by_record[partition, at], key=lambda answer: answer.wish.key)
            for first in range(0, len(rows), MOST_ROWS):
                part = rows[first : first + MOST_ROWS]
                event = LoadScraped(
                    at,
                    context.cluster,
                    tuple(row.wish.workload for row in part),
                    tuple(row.wish.series for row in part),
                    tuple(row.value for row in part if row.value is not None),
                )
                records.append(
                    context.codec.encode(event, topic="load-metrics", key=context.cluster, partition=partition, source=SOURCE)
                )
        return records

    def _report(self, at: datetime, *, sees: bool) -> list[NewRecord]:
        """Report to every partition that this source is running."""
        cluster = self._context.cluster
        event = SourceReported(at, cluster, NAME, ("load-metrics",) if sees else (), self._options.period)
        # A worker reads its own partitions and no others, and judges by these reports whether facts are missing.
        return self._context.codec.encode_for_all(event, topic="cluster-changes", key=cluster, source=SOURCE)
