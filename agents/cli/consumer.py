"""`ullage consumer NAME...`: carry decisions out on the cluster."""

from typing import Annotated, Literal

from cyclopts import Parameter

from agents.cli.options import Common, given

Name = Literal["resizer", "evictor"]


def consumer(
    names: Annotated[
        tuple[Name, ...], Parameter(help="Which: `resizer` changes requests in place, `evictor` evicts.", negative=())
    ],
    /,
    *,
    url: Annotated[str | None, Parameter(help="The cluster's address, short for `--set cluster.url=URL`.")] = None,
    common: Common | None = None,
) -> None:
    """Carry out decisions on a cluster until stopped, and append an outcome for each.

    Does nothing until the control topic says `apply`, and nothing twice, however often it is restarted.
    """
    from agents.cli import consuming

    consuming.run(given(common).settings(cluster__url=url), names)
