"""Posts every new recommendation to a chat: `CHAT_URL=… python examples/post_recommendations.py worker`."""

import os

import aiohttp

from agents.app import your_agents
from agents.app.your_agents import Events, until_done
from schemas.decisions.recommendations import RequestsRecommended

app = your_agents.app("post-recommendations")


@app.agent(app.events("recommendations", RequestsRecommended))
async def post(events: Events[RequestsRecommended]) -> None:
    """Post what containers of a workload should request."""
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        async for event in events:
            targets = {container.container: container.target for container in event.containers}
            text = f"{event.workload.key} should request {targets}"
            (await until_done(session.post, os.environ["CHAT_URL"], json={"text": text})).release()


if __name__ == "__main__":
    app.main()
