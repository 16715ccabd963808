"""Reads the YAML (and so the JSON) that people write: settings, policies, scenarios, kubeconfigs, rules. Nothing else reads YAML.

What would cost too much, or says two things, is refused by one sentence before anything is made of the text.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from streams.errors import BadInput

MOST_BYTES = 4 << 20
MOST_NODES = 200_000
"""Scalars, lists and mappings, with each alias counted as all that it stands for."""
DEEPEST = 64
LONGEST_NUMBER = 64
"""Characters of a number."""
_LOADER: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBER = re.compile(r"[-+]?(0[xXoObB][0-9a-fA-F_]+|[0-9._:]+([eE][-+]?[0-9]+)?)")
_SHOWN = 300


class _BoundError(ValueError):
    """The text is beyond a bound."""


def read_file(path: Path, what: str) -> object:
    """What a file says. Raises BadInput, which begins with `what`, such as "the policy file 'x.yaml'"."""
    return parse(read_text(path, what), what)


def read_text(path: Path, what: str, most: int = MOST_BYTES) -> str:
    """The text of a file that a person gave. Raises BadInput."""
    try:
        return read_bytes(path, what, most).decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{what} cannot be read: it is no text in UTF-8") from error


def read_bytes(path: Path, what: str, most: int = MOST_BYTES) -> bytes:
    """The bytes of such a file. Raises BadInput."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise BadInput(f"{what} cannot be read: {error.strerror}") from error
    if len(content) > most:
        raise BadInput(f"{what} has more than {most} bytes")
    return content


def parse(text: str, what: str) -> object:
    """What a text says. Raises BadInput, as `read_file`."""
    try:
        _check(text)
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_keys(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except _BoundError as error:
        raise BadInput(f"{what} is not read: {error}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{what} is no YAML: {' '.join(str(error).split())[:_SHOWN]}") from error
    except (ValueError, OverflowError, TypeError, AttributeError, LookupError, RecursionError) as error:
        # Its constructors let any error of a value through, such as that of the 31st of February.
        raise BadInput(f"{what} is no YAML: a value in it cannot be read: {str(error)[:_SHOWN]}") from error


def _check(text: str) -> None:
    """Count what the text would become, from its events alone."""
    if len(text) > MOST_BYTES:
        raise _BoundError(f"it has more than {MOST_BYTES} characters")
    # A few bytes can cost minutes and gigabytes, by aliases of aliases, by depth, or by a number of ten thousand digits.
    nodes = 0
    sizes: dict[str, int] = {}
    begun: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, _LOADER):
        match event:
            case yaml.CollectionStartEvent():
                begun.append((event.anchor, nodes))
                nodes += 1
            case yaml.CollectionEndEvent():
                anchor, before = begun.pop()
                sizes[anchor or ""] = nodes - before
            case yaml.AliasEvent():
                nodes += _size_of(event, sizes, begun)
            case yaml.ScalarEvent():
                nodes, sizes[event.anchor or ""] = nodes + 1, 1
                _check_number(event)
            case _:
                pass
        if len(begun) > DEEPEST:
            raise _BoundError(f"it is nested more than {DEEPEST} deep, at line {_line(event)}")
        if nodes > MOST_NODES:
            raise _BoundError(f"it has more than {MOST_NODES} values, with what its aliases stand for, at line {_line(event)}")


def _size_of(alias: yaml.AliasEvent, sizes: dict[str, int], begun: list[tuple[str | None, int]]) -> int:
    if any(anchor == alias.anchor for anchor, _ in begun):
        raise _BoundError(f"the alias '*{alias.anchor}' stands inside of what it stands for")
    return sizes.get(alias.anchor or "", 1)


def _check_number(event: yaml.ScalarEvent) -> None:
    plain = event.implicit[0] or (event.tag or "").endswith((":int", ":float"))
    if plain and len(event.value) > LONGEST_NUMBER and _NUMBER.fullmatch(event.value):
        raise _BoundError(f"a number of {len(event.value)} characters, at line {_line(event)}; {LONGEST_NUMBER} are the most")


def _line(event: yaml.Event | yaml.Node) -> int:
    return 1 if event.start_mark is None else event.start_mark.line + 1


def _check_keys(root: yaml.Node) -> None:
    """Refuse a key that stands twice in one mapping."""
    seen: set[int] = set()  # what an alias stands for is looked at once
    rest = [root]
    while rest:
        node = rest.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys: set[tuple[str, str]] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    name = key.tag, key.value
                    if name in keys:
                        raise _BoundError(f"the key '{key.value[:_SHOWN]}' stands twice, at line {_line(key)}")
                    keys.add(name)
        rest += _children(node)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
