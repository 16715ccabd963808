"""`ullage policy`: set, remove and list the vertical policies of workloads in the log, and check policies as code."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from agents.cli.options import CommonOptions, OutputOption, given

app = App(name="policy", help="Say which workloads may be changed, how, within which bounds; and write policies as code.")
TakeOver = Annotated[
    bool, Parameter(negative="", help="Also where an object says it, for one that is gone or not mirrored; else it wins again.")
]
Target = Annotated[str, Parameter(help="A workload, as `demo/shop/Deployment/cart`, or a beginning, as `'demo/shop/*'`.")]


@app.command(name="set")
def set_policy(  # noqa: PLR0913  # the flags of a command
    target: Target,
    /,
    *,
    mode: Annotated[
        Literal["Off", "Initial", "Recreate", "InPlace", "InPlaceOrRecreate", "Auto"] | None,
        Parameter(help="How its pods may be changed, in VPA's words; InPlaceOrRecreate for a new policy."),
    ] = None,
    least: Annotated[str, Parameter(name="--min", help="Never recommend less: `cpu=250m,memory=512Mi`, or one of them.")] = "",
    most: Annotated[str, Parameter(name="--max", help="Never recommend more.")] = "",
    container: Annotated[str, Parameter(help="The container that the bounds are for; `*` means every other.")] = "*",
    take_over: TakeOver = False,
    common: CommonOptions | None = None,
) -> None:
    """Make a policy, or change what is named here and leave the rest of it as it is. The longest target that fits wins."""
    from agents.commands.change import policy

    policy.change(given(common).settings(), target, mode, policy.BoundFlags(container, least, most), take_over=take_over)


@app.command
def apply(
    file: Annotated[Path, Parameter(help="A YAML list of policies: target, mode, and containers with container, min and max.")],
    /,
    *,
    take_over: TakeOver = False,
    common: CommonOptions | None = None,
) -> None:
    """Make each policy of a file what the file says. All of it or, when something in it is wrong, nothing."""
    from agents.commands.change import policy

    policy.apply(given(common).settings(), file, take_over=take_over)


@app.command
def remove(target: Target, /, *, take_over: TakeOver = False, common: CommonOptions | None = None) -> None:
    """Take the policy with exactly this target away. A workload without any policy is left alone."""
    from agents.commands.change import policy

    policy.remove(given(common).settings(), target, take_over=take_over)


@app.command(name="list")
def list_policies(
    *,
    output: OutputOption = "yaml",
    as_objects: Annotated[
        bool, Parameter(negative="", help="As VerticalPolicy objects of the cluster instead, for `kubectl apply -f -`.")
    ] = False,
    common: CommonOptions | None = None,
) -> None:
    """Print the policies in force, as the YAML that `apply` takes.

    A VPA object is a policy for its workload, too, and comes before a pattern; those are listed by `kubectl get vpa -A`.
    """
    from agents.commands.change import policy

    policy.show_in_force(given(common).settings(), output, as_objects=as_objects)


Code = Annotated[str, Parameter(help="A policy as code: a .py file, or the name of an installed entry point.")]
Seconds = Annotated[float, Parameter(help="CPU time that one call may take; it judges 1,024 containers at most.")]
MiB = Annotated[int, Parameter(help="Memory in MiB that it may take beyond what its process has.")]


@app.command
def new(file: Annotated[Path, Parameter(help="The file to write, as `steady.py`.")], /) -> None:
    """Write a small policy as code that works, with comments that say what can be changed."""
    from agents.commands.compare import policy_code_command

    policy_code_command.new(file)


@app.command
def lint(policy: Code, /, *, seconds: Seconds = 10.0, memory: MiB = 1024) -> int:
    """Check a policy as code: that it is pure, that its types are right, and that it runs. Exits with 1 when something is wrong.

    Refused with the reason and the line: the clock, chance, the network, files, threads, the environment. It runs on made-up
    containers in a process with limits, and mypy checks its types where that is installed.
    """
    from agents.commands.compare import policy_code_command as command

    return command.lint(policy, command.limits(seconds, memory))


@app.command(name="test")
def try_policy(policy: Code, /, *, seconds: Seconds = 10.0, memory: MiB = 1024, common: CommonOptions | None = None) -> int:
    """Try a policy as code on made-up usage: is it deterministic, how fast is it, and how does it score beside the built-in one?

    Needs no broker and no recording. Exits with 1 when it answers the same question in two ways.
    """
    from agents.commands.compare import policy_code_command as command

    return command.test(given(common).settings(), policy, command.limits(seconds, memory))
