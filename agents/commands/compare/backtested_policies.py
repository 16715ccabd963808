"""Runs policies over one recording, each from the beginning, and scores them by workload.

Policies as they are named on a command line: `default` is what the settings say; `adaptive` is the policy that comes with
Ullage; `upstream` is the Vertical Pod Autoscaler's rules with its defaults; `recorded` are the recording's own requests;
`oracle` knows each hour in advance. A YAML file has settings as `--config` takes them. A Python file, or the name of an
installed entry point, is a policy written as code. Settings stand in one word,
`p97:vertical.target_cpu_percentile=0.97,vertical.margin=0.1`, with the policy's name before a colon or without one. Any of them
that decides may say how pods of a usage trace are changed: `adaptive@in-place`, `adaptive@recreate`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agents.backtest.backtest import Backtest
from agents.backtest.partial_scores import PartialScore
from agents.backtest.policy_comparison import PolicyScore, figures
from agents.backtest.price_list import PriceList
from agents.backtest.scoring import SampleRows, Score
from agents.backtest.workload_sums import ContainerSums
from agents.commands.compare import backtest_command
from agents.commands.compare.what_if_command import settings_of
from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from agents.logic.vertical.vertical_settings import ADAPTIVE, BUILT_IN, VerticalSettings
from agents.policies import policy_limits, policy_sources
from agents.policies.policy_limits import PolicyLimits
from agents.run.pipeline import stages
from agents.settings import log_factory, recorded_log
from agents.settings.all_settings import Settings
from agents.settings.loading import load
from agents.terminal.output import note
from schemas.policies.vertical import UpdateMode
from streams.errors import BadInput

SIDES = {"recorded": "own", "oracle": "oracle"}
"""Policies that no stage decides."""
BASELINE = "upstream"
MODES = {"in-place": UpdateMode.IN_PLACE, "recreate": UpdateMode.RECREATE}


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """One policy. `settings` is None for one of SIDES; `mode` is how pods are changed, where the name says it."""

    name: str
    settings: Settings | None
    mode: UpdateMode | None = None


def read(texts: Sequence[str], base: Settings, given: Sequence[str]) -> list[PolicySpec]:
    """The policies. `given` are the settings of the command line, which hold for all but `upstream`. Raises BadInput."""
    specs = [_spec(text, base, given) for text in texts]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"two policies are called '{name}'; give one another name, as in 'mine:vertical.margin=0.2'")
    return specs


def _spec(text: str, base: Settings, given: Sequence[str]) -> PolicySpec:
    # from the right, because a file's path may have an `@` of its own
    policy, _, mode = text.rpartition("@")
    if policy and mode in MODES:
        if policy in SIDES:
            raise BadInput(f"'{policy}' changes no pods, so it has no '@{mode}'")
        return replace(_policy(policy, base, given), name=text, mode=MODES[mode])
    return _policy(text, base, given)


def _policy(text: str, base: Settings, given: Sequence[str]) -> PolicySpec:
    if text in SIDES:
        return PolicySpec(text, None)
    if text == "default":
        return PolicySpec(text, base)
    if text == BASELINE:
        # without the command line's settings: a baseline that moves with --set is none
        updates = UpdateSettings(profile=UpdaterProfile.UPSTREAM)
        return PolicySpec(text, base.model_copy(update={"vertical": VerticalSettings(), "updates": updates}))
    if text.endswith((".yaml", ".yml")):
        return PolicySpec(Path(text).stem, load(file=Path(text), flags=_flags(given)).settings)
    if text == ADAPTIVE or text.endswith(".py") or text in policy_sources.offered():
        named = Path(text).stem if text.endswith(".py") else text
        return PolicySpec(named, base.model_copy(update={"vertical": replace(base.vertical, policy=text)}))
    if "=" in text:
        head, colon, rest = text.partition(":")
        # a colon behind the first `=` belongs to a value
        name, settings = (head, rest) if colon and "=" not in head else (text, text)
        return PolicySpec(name, load(flags=_flags([*given, *settings.split(",")])).settings)
    names = ", ".join(("default", BASELINE, ADAPTIVE, *SIDES, *policy_sources.offered()))
    raise BadInput(
        f"'{text}' is no policy: give {names}, a settings file (.yaml), a policy as code (.py), "
        "or settings such as vertical.margin=0.3"
    )


def _flags(given: Sequence[str]) -> dict[str, str]:
    pairs = (item.partition("=") for item in settings_of(given))
    return {name.strip(): value for name, _, value in pairs}


def run(  # noqa: PLR0913, PLR0917  # what is compared, and how
    file: Path,
    specs: Sequence[PolicySpec],
    settings: Settings,
    prices: PriceList,
    jobs: int | None = None,
    samples: Path | None = None,
) -> list[PolicyScore]:
    """A score for each policy. `settings` are those of the command line, for policies that no stage decides.

    `jobs`: processes for each policy, as `backtest_command.scored` has it. `samples`: a folder that gets each sample of each
    policy that stages decide by.
    """
    backtest_command.require_jobs(jobs)
    scores: dict[str, PolicyScore] = {}
    done: PartialScore | None = None
    for number, spec in enumerate(specs):
        if spec.settings is None:
            continue
        rows = None if samples is None else _rows(samples / f"{number:03d}", spec.name)
        note(f"policy '{spec.name}' ...")
        if spec.settings.vertical.policy not in ("", BUILT_IN, ADAPTIVE):
            # strangers' code, so a process of its own with limits
            scores[spec.name] = policy_limits.run_limited(spec.name, PolicyLimits(), scored_alone, file, spec, prices, rows)
        else:
            done = played(file, spec.settings, jobs, rows, mode=spec.mode)
            scores[spec.name] = _scored(spec.name, done, "ours", prices)
    # `recorded` and `oracle` are figures of any run, so they cost a run only where no policy had one
    if done is None:
        done = played(file, settings, jobs)
    for spec in specs:
        if spec.settings is None:
            scores[spec.name] = _scored(spec.name, done, SIDES[spec.name], prices)
    return [scores[spec.name] for spec in specs]


def scored_alone(file: Path, spec: PolicySpec, prices: PriceList, samples: SampleRows | None = None) -> PolicyScore:
    """The score of one policy that stages decide by; what the process of a policy written as code does."""
    if spec.settings is None:
        raise BadInput(f"the policy '{spec.name}' is decided by no stage")
    return _scored(spec.name, played(file, spec.settings, 1, samples, mode=spec.mode), "ours", prices)


def _rows(folder: Path, policy: str) -> SampleRows:
    folder.mkdir()
    return SampleRows(folder, policy)


def played(
    file: Path, settings: Settings, jobs: int | None, samples: SampleRows | None = None, *, mode: UpdateMode | None = None
) -> PartialScore:
    """One policy over a trace, a log file or an incident file. Raises BadInput."""
    if not recorded_log.is_log(file):
        return backtest_command.scored(file, settings, jobs=jobs, by_workload=True, samples=samples, mode=mode)
    if mode is not None:
        raise BadInput(f"'{file}' has policies, which say how pods are changed; only a usage trace is changed as '@' says")
    fitted = recorded_log.reading(settings, file)
    with log_factory.log(fitted) as log:
        backtest = Backtest(
            stages(fitted), log_factory.topics(fitted), fitted.updates, Score(sums=ContainerSums(), samples=samples)
        )
        backtest.play(log)
        if samples is not None:
            samples.write(backtest.score.containers)
        return backtest.score.part()


def _scored(name: str, part: PartialScore, side: str, prices: PriceList) -> PolicyScore:
    # the oracle is summed wherever use was measured, so its seconds are all that was recorded
    recorded = {total.workload: (total.cpu.seconds, total.memory.seconds) for total in part.totals("oracle")}
    workloads = figures(part.totals(side), recorded, prices)
    return PolicyScore(name, workloads, part.card() if side == "ours" else None)
