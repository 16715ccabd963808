"""Opens a ticket for each workload that a guard holds back: `TICKETS_URL=… python examples/open_tickets.py worker`."""

import os

import aiohttp

from agents.app import your_agents
from agents.app.your_agents import Events, until_done
from schemas.decisions.pod_updates import UpdateRefused

app = your_agents.app("open-tickets")
opened: set[tuple[str, str]] = set()


@app.agent(app.events("pod-updates", UpdateRefused))
async def open_ticket(refusals: Events[UpdateRefused]) -> None:
    """Open a ticket at the first refusal of a workload by a guard."""
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        async for event in refusals:
            if (event.workload.key, event.guard) not in opened:
                ticket = {"title": f"{event.workload.key} is held back by {event.guard}", "body": event.reason}
                (await until_done(session.post, os.environ["TICKETS_URL"], json=ticket)).release()
                opened.add((event.workload.key, event.guard))


if __name__ == "__main__":
    app.main()
