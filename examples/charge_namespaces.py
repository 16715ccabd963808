"""Charges namespaces for the CPU that they use: `BILLING_URL=… python examples/charge_namespaces.py worker`."""

import os
from collections import Counter

import aiohttp

from agents.app import your_agents
from agents.app.your_agents import Events, until_done
from schemas.facts.usage import MetricsScraped
from schemas.names import Workload

PRICE = 0.04  # for a core and hour
app = your_agents.app("charge-namespaces")


@app.agent(app.events("pod-metrics", MetricsScraped))
async def charge(scrapes: Events[MetricsScraped]) -> None:
    """Send the bill of each scrape."""
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        async for scrape in scrapes:
            bill: Counter[str] = Counter()
            for workload, cores in zip(scrape.workloads, scrape.cores, strict=True):
                bill[Workload.parse(workload).namespace] += float(cores) * scrape.window / 3600 * PRICE
            (await until_done(session.post, os.environ["BILLING_URL"], json=bill)).release()


if __name__ == "__main__":
    app.main()
