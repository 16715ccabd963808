"""`ullage policy`: what the vertical policies of workloads are, as the log has them."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from agents.cli.options import CommonOptions, given

app = App(name="policy", help="Say which workloads may be changed, how, and within which bounds.")
Target = Annotated[str, Parameter(help="A workload, as `demo/shop/Deployment/cart`, or a beginning, as `'demo/shop/*'`.")]


@app.command(name="set")
def set_policy(  # noqa: PLR0913  # the flags of a command
    target: Target,
    /,
    *,
    mode: Annotated[
        Literal["Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto"] | None,
        Parameter(help="How its pods may be changed, in VPA's words; InPlaceOrRecreate for a new policy."),
    ] = None,
    least: Annotated[str, Parameter(name="--min", help="Never recommend less: `cpu=250m,memory=512Mi`, or one of them.")] = "",
    most: Annotated[str, Parameter(name="--max", help="Never recommend more.")] = "",
    container: Annotated[str, Parameter(help="The container that the bounds are for; `*` means every other.")] = "*",
    common: CommonOptions | None = None,
) -> None:
    """Make a policy, or change what is named here and leave the rest of it as it is. The longest target that fits wins."""
    from agents.operate import policy

    policy.change(given(common).settings(), target, mode, policy.BoundFlags(container, least, most))


@app.command
def apply(
    file: Annotated[Path, Parameter(help="A YAML list of policies: target, mode, and containers with container, min and max.")],
    /,
    *,
    common: CommonOptions | None = None,
) -> None:
    """Make each policy of a file what the file says. All of it or, when something in it is wrong, nothing."""
    from agents.operate import policy

    policy.apply(given(common).settings(), file)


@app.command
def remove(target: Target, /, *, common: CommonOptions | None = None) -> None:
    """Take the policy with exactly this target away. A workload without any policy is left alone."""
    from agents.operate import policy

    policy.remove(given(common).settings(), target)


@app.command(name="list")
def list_policies(*, common: CommonOptions | None = None) -> None:
    """Print the policies in force, as the YAML that `apply` takes."""
    from agents.operate import policy

    policy.show(given(common).settings())
