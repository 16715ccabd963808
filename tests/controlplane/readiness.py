"""What a process answers to the readiness probe of the kubelet."""

import json
import urllib.error
import urllib.request


def reasons(url: str) -> list[str] | None:
    """Why the process whose probe is at `url` is not ready; None while nothing answers."""
    try:
        with urllib.request.urlopen(url, timeout=5.0) as answer:  # noqa: S310  # loopback
            return list(json.loads(answer.read())["reasons"])
    except urllib.error.HTTPError as error:
        return list(json.loads(error.read())["reasons"])
    except OSError:
        return None
