"""Keeps the objects of EHPAs in their desired state: generated autoscalers, predictions, substitutes, and the status of each.

From the log it reads which EHPAs and predictions exist, their forecasts and the control record. It reads everything else from the
API server at the moment of a pass. So it does not matter where an earlier process was killed: the next pass finds the world as it
is. These objects are not decisions to carry out once; the consumer keeps them in shape, like the status of a VPA. The scaler
carries out plans to scale, each of them once.
"""

import heapq
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

import structlog

from schemas import times
from schemas.catalogue import Event
from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned, ReplicasRefused
from schemas.facts.replica_scaling import HpaGone, HpaSeen, ScaleSeen
from schemas.outcomes import Action, ActionFinished, ObjectWritten, OutcomeDetail, Result
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved, TimeSeriesPredictionChanged, TimeSeriesPredictionRemoved
from schemas.policies.scaling import ScaleStrategy
from schemas.units import Seconds
from streams import decision_view, own_faults
from streams.compacted_copy import read_present
from streams.consumers.executing.acting_consumer import ActingConsumer, RateLimit, encode_outcome
from streams.consumers.executing.control_state import ControlState
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.replicas import pass_order
from streams.consumers.replicas.ehpa_reconciler import EhpaReconciler
from streams.consumers.replicas.pass_order import ObjectWrite, PassOrder, PassReport, ScalingDecision
from streams.decision_view import DecisionView
from streams.errors import EdgeError, TryAgain, Unreachable
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import Cursor, offset_before_end
from streams.own_faults import OwnFaults

_SOURCE = "/ullage/consumer/autoscalers"
_AT_ONCE = 100
"""The most objects to look at between two looks at the log."""
_REFUSED_AGAIN = 60.0  # seconds after a refusal for good: somebody may have granted the missing right since
_log = structlog.get_logger(__name__)

_ALREADY = OutcomeDetail.ALREADY_DONE
_NOT_ABOUT_THE_EHPA = (OutcomeDetail.MOVED, OutcomeDetail.NOT_ALLOWED)
"""Refusals that say nothing of the EHPA: another plan follows, or a pass gives the control record's reason itself."""
_Policy = EhpaChanged | TimeSeriesPredictionChanged


@dataclass(frozen=True, slots=True)
class AutoscalerOptions:
    """Seconds between looks at each object, objects in parallel, and passes a second in the long run and in a burst."""

    resync: float = 30.0
    preview: float = 15.0
    writers: int = 8
    rate: float = 20.0
    burst: int = 100


_Ended = PassReport | EdgeError


class AutoscalerConsumer(ActingConsumer):
    """The consumer of the context's cluster. The scaler beside it renews the `lease`."""

    def __init__(
        self,
        context: LogContext,
        reconciler: EhpaReconciler,
        options: AutoscalerOptions | None = None,
        lease: HolderLease | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(context, lease)
        self._reconciler, self._options, self._clock = reconciler, options or AutoscalerOptions(), clock
        self._limit = RateLimit(self._options.rate, self._options.burst, clock=clock)
        self._pool = ThreadPoolExecutor(self._options.writers, thread_name_prefix="autoscalers")
        self._control, self._faults = ControlState(context), OwnFaults("autoscalers")
        self._cursor: Cursor | None = None
        self._forecasts: DecisionView | None = None
        self._objects: dict[str, _Policy] = {}
        self._of_target: dict[str, set[str]] = {}
        self._scaled: dict[str, ActionFinished] = {}
        """The last thing that the scaler did to a target, or failed to do."""
        self._decided: dict[str, ScalingDecision] = {}
        """The newest decision about the replicas of each EHPA."""
        self._due: dict[str, float] = {}
        """The real time of the next look at each object, by key."""
        self._away = float("-inf")
        self._objection: str | None = ""
        self._refused: dict[str, str] = {}

    def poll_once(self) -> int:
        """Read the log to its end and look at some objects. Returns how many outcomes it appended. Raises LogUnavailable."""
        appended = self._flush()
        self._read()
        now = self._control.now
        if now is None or self._clock() < self._away or not self._may_act:
            return appended
        for key, ended in self._run_due(now):
            self._finish(key, ended, now)
        self._faults.check()
        return appended + self._flush()

    @property
    def waiting(self) -> int:
        """How many objects are due now; 0 while the API server is away."""
        now = self._clock()
        return 0 if now < self._away else sum(at <= now for at in self._due.values())

    def reasons(self) -> list[str]:
        """Why the consumer is not ready; empty when it is. An instance on standby is ready."""
        if self._cursor is None:
            return ["policies and forecasts in the log were not read to their end yet"]
        return [*self._control.silence.reasons(), *self._faults.reasons()]

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, but do nothing while the log is unavailable."""
        try:
            super().run(stop)
        finally:
            self._pool.shutdown(cancel_futures=True)

    @property
    def _news(self) -> Callable[[], bool] | None:
        return None if self._unpublished or self.waiting or self._cursor is None else self._cursor.has_more

    def _start(self) -> Cursor:
        """Read the policies in force; the cursor starts at forecasts that may still be valid, else at the end."""
        log, topics = self._context.log, self._context.topics
        present = read_present(log, topics, "policies", 0)
        for record in present:
            self._apply(record)
        longest = max(map(decision_view.forecast_window, self._objects.values()), default=Seconds(0.0))
        span = decision_view.forecast_span(longest)
        forecasts = self._context.partitions_with("load-forecasts")
        plans = self._context.partitions_with("replica-plans")
        # Only what comes from now on: each object gets a pass at a start anyway.
        followed = [self._context.cluster_partition(topic) for topic in ("pod-changes-by-cluster", "outcomes")]
        return Cursor(
            log,
            {
                (topics.wire("policies"), 0): present.position,
                **{place: log.end(*place) for place in followed},
                **{place: offset_before_end(log, *place, span) for place in (*forecasts, *plans)},
            },
        )

    def _read(self) -> None:
        self._control.catch_up()
        if self._forecasts is None:
            log, topics = self._context.log, self._context.topics
            self._forecasts = DecisionView(log, self._context.codec, topics.wire("load-forecasts"))
        self._cursor = self._cursor or self._start()
        for record in self._cursor.catch_up():
            self._apply(record)
        objection = self._control.objection()
        # The status of every object gives the reason, so each one is due when a pause or a mode begins or ends.
        if objection != self._objection:
            self._objection = objection
            self._due.update(dict.fromkeys(self._due, float("-inf")))

    def _apply(self, record: Record) -> None:
        event = self._context.codec.decode_or_none(record)
        if self._context.topics.short(record.topic) == "load-forecasts" and self._forecasts is not None:
            self._forecasts.apply(record)
        if event is not None and _cluster(event) == self._context.cluster:
            self._apply_event(event)

    def _apply_event(self, event: Event) -> None:
        match event:
            case EhpaChanged() | TimeSeriesPredictionChanged():
                self._forget(event.key)
                self._objects[event.key] = event
                if isinstance(event, EhpaChanged):
                    self._of_target.setdefault(event.target, set()).add(event.key)
                self._look_soon(event.key)
            case EhpaRemoved() | TimeSeriesPredictionRemoved():
                self._forget(event.key)
                self._decided.pop(event.key, None)
                self._scaled = {target: done for target, done in self._scaled.items() if target in self._of_target}
            case LoadForecast():
                self._look_soon(event.key)
            case HpaSeen() | HpaGone() | ScaleSeen():
                self._look_at_scalers(event.workload.key)
            case ReplicasPlanned() | ReplicasRefused():
                self._plan_decided(event)
            case ActionFinished(action=Action.SCALE):
                self._scale_finished(event)
            case _:
                pass

    def _plan_decided(self, event: ScalingDecision) -> None:
        """Keep the newest decision about an EHPA."""
        before = self._decided.get(event.ehpa)
        self._decided[event.ehpa] = event
        # A decision that shows nothing new is not worth a pass, which is several requests to the API server.
        if before is None or _shown(before) != _shown(event):
            self._look_soon(event.ehpa)

    def _scale_finished(self, event: ActionFinished) -> None:
        """Keep what became of the newest plan for a target, until one is carried out or found to be."""
        target = event.subject.workload
        before = self._scaled.get(target)
        if event.detail is _ALREADY:
            if before is None or before.result is Result.DONE:
                return
            del self._scaled[target]
        elif event.result is not Result.REFUSED or event.detail not in _NOT_ABOUT_THE_EHPA:
            self._scaled[target] = event
        self._look_at_scalers(target)

    def _look_at_scalers(self, target: str) -> None:
        for key in self._of_target.get(target, ()):
            self._look_soon(key)

    def _look_soon(self, key: str) -> None:
        if key in self._objects:
            now = self._clock()
            self._due[key] = min(self._due.get(key, now), now)

    def _forget(self, key: str) -> None:
        """Drop an object that is gone or replaced."""
        before = self._objects.pop(key, None)
        self._due.pop(key, None)
        self._refused.pop(key, None)
        if isinstance(before, EhpaChanged):
            # The target is free now for an EHPA that was kept from it.
            rivals = self._of_target.get(before.target, set())
            rivals.discard(key)
            for rival in rivals:
                self._look_soon(rival)
            if not rivals:
                self._of_target.pop(before.target, None)

    def _run_due(self, now: datetime) -> list[tuple[str, _Ended]]:
        """Look at the objects that are due, several in parallel, the longest due first."""
        real = self._clock()
        due = [(at, place, key) for place, (key, at) in enumerate(self._due.items()) if at <= real]
        keys = [key for _, _, key in heapq.nsmallest(_AT_ONCE, due)]
        for key in keys:
            # Again after a while without any news, because the log may miss what somebody changed by hand.
            self._due[key] = real + self._again(self._objects[key])
        return list(self._pool.map(lambda key: (key, self._run_pass(self._objects[key], now)), keys))

    def _again(self, policy: _Policy) -> float:
        preview = isinstance(policy, EhpaChanged) and policy.strategy is ScaleStrategy.PREVIEW
        return self._options.preview if preview else self._options.resync

    def _run_pass(self, policy: _Policy, now: datetime) -> _Ended:
        """One pass, in a thread of the pool. If the API does not answer, all other passes wait, too."""
        if self._clock() < self._away:
            return PassReport()
        self._limit.wait()
        latest = None if self._forecasts is None else self._forecasts.get(policy.key)
        forecast = latest.decision if latest is not None and isinstance(latest.decision, LoadForecast) else None
        queries = policy.queries if isinstance(policy, EhpaChanged) else {}
        about = (policy.namespace, policy.name, policy.uid, now)
        scaled = self._scaled.get(policy.target) if isinstance(policy, EhpaChanged) else None
        unsupported, decided = policy.unsupported, self._decided.get(policy.key)
        contenders = self._contenders(policy)
        rival = pass_order.rival(policy.key, contenders, self._decided)
        contested = len(contenders) > 1
        order = PassOrder(*about, forecast, self._objection or None, rival, queries, scaled, unsupported, decided, contested)
        try:
            report = PassReport()
            if isinstance(policy, EhpaChanged):
                report = self._reconciler.run_pass(order)
            elif not policy.owner_uid:
                self._reconciler.write_prediction(order)
        except Unreachable as error:
            self._away = self._clock() + error.after
            return error
        except EdgeError as error:
            return error
        except Exception as fault:  # noqa: BLE001  # a pass calls everything that we have written
            self._due[policy.key] = self._clock() + own_faults.PAUSE
            self._faults.happened(f"looking at '{policy.key}'", fault)
            return PassReport()
        self._faults.none()
        return report

    def _contenders(self, policy: _Policy) -> list[EhpaChanged]:
        """The EHPAs that name the same target, this one among them."""
        if not isinstance(policy, EhpaChanged) or not policy.target:
            return []
        objects = (self._objects.get(key) for key in list(self._of_target.get(policy.target, ())))
        return [ehpa for ehpa in objects if isinstance(ehpa, EhpaChanged)]

    def _finish(self, key: str, ended: _Ended, at: datetime) -> None:
        policy = self._objects.get(key)
        if policy is None:
            return
        if isinstance(ended, PassReport):
            faults = "; ".join(write.fault for write in ended.writes if write.fault)
            # A write that fails in every pass is one outcome, not one each half minute.
            new = faults != self._refused.get(key, "")
            self._refused[key] = faults
            for write in ended.writes:
                if not write.fault or new:
                    self._publish(policy, ended.generation, write, at)
            return
        self._due[key] = self._clock() + (ended.after if isinstance(ended, TryAgain) else _REFUSED_AGAIN)
        if self._refused.get(key) != str(ended):
            self._refused[key] = str(ended)
            _log.warning("an autoscaler cannot be looked at", policy=key, error=str(ended))

    def _publish(self, policy: _Policy, generation: int, write: ObjectWrite, at: datetime) -> None:
        """Queue the outcome of one write."""
        failed = bool(write.fault)
        which = f"refused/{times.to_ms(at)}" if failed else write.version
        event = ObjectWritten(
            id=f"{policy.key}/{write.kind}/{write.change}/{which}",
            at=at,
            cluster=policy.cluster,
            object_kind=write.kind,
            namespace=policy.namespace,
            name=write.name,
            policy=policy.key,
            generation=generation,
            change=write.change,
            result=Result.FAILED if failed else Result.DONE,
            reason=write.fault or write.reason,
        )
        self._unpublished.append(encode_outcome(self._context, event, source=_SOURCE))
        _log.info("finished", action=str(write.change), policy=policy.key, result=event.result.value, reason=event.reason)


def _shown(decided: ScalingDecision) -> tuple[object, ...]:
    """What the status of an EHPA shows of a decision."""
    if isinstance(decided, ReplicasRefused):
        return decided.guard, decided.reason, decided.conditions
    return decided.carried_out_by, decided.replicas, decided.conditions


def _cluster(event: Event) -> str:
    """The cluster that an event is about."""
    about = getattr(event, "workload", None) or getattr(event, "subject", None)
    return str(getattr(event, "cluster", "") or getattr(about, "cluster", ""))
