"""Provider ids of nodes, and which instance they name."""

import re

PLACEHOLDER = "i-placeholder"
_WHOLE = re.compile(r"aws:///[-0-9a-z]*/[-0-9a-z]*(/[-0-9a-z.]*)?", re.ASCII)
_PLACEHOLDER = re.compile(r"aws:///[-0-9a-z]*/i-placeholder.*", re.ASCII)
_START = len("aws:///")


class IdentityError(ValueError):
    """An id that names no instance of AWS."""


def instance_name(provider_id: str) -> str:
    """The instance that a provider id names; raises IdentityError. Source: AwsRefFromProviderId in cloudprovider/aws.

    The second segment after 'aws:///'. As upstream, an id of a placeholder is looked for anywhere in the text, up to its end.
    """
    placeholder = _PLACEHOLDER.search(provider_id)
    fits = _WHOLE.fullmatch(provider_id) or (placeholder is not None and placeholder.end() == len(provider_id))
    if not fits:
        raise IdentityError(f"wrong id: expected format aws:///<zone>/<name>, got {provider_id}")
    return provider_id[_START:].split("/")[1]


def provider_id(zone: str, name: str) -> str:
    """The id of an instance in a zone."""
    return f"aws:///{zone}/{name}"


def placeholder(group: str, number: int) -> str:
    """The name that stands for an instance that a group wants and AWS has not made."""
    return f"{PLACEHOLDER}-{group}-{number}"


def is_placeholder(name: str) -> bool:
    """Whether an instance's name stands for one that is not there yet."""
    return name.startswith(PLACEHOLDER)
