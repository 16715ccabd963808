"""The description of every setting, taken from the docstring under its field, so that text and code cannot drift apart."""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass

from pydantic import BaseModel

from agents.settings.all_settings import Settings


def describe() -> Iterator[tuple[str, object, str]]:
    """Dotted name, default and description of every setting."""
    yield from _describe(Settings(), "")


def _describe(part: object, before: str) -> Iterator[tuple[str, object, str]]:
    if isinstance(part, BaseModel):
        texts = _docstrings(type(part), list(type(part).model_fields))
    elif is_dataclass(part) and not isinstance(part, type):
        texts = _docstrings(type(part), [f.name for f in fields(part)])
    else:
        return
    for name, text in texts.items():
        value = getattr(part, name)
        if isinstance(value, BaseModel) or is_dataclass(value):
            yield from _describe(value, f"{before}{name}.")
        else:
            yield before + name, value, text


def _docstrings(kind: type, names: Sequence[str]) -> dict[str, str]:
    """The docstring under each attribute, as the source of the class and of those that it inherits from has it."""
    texts = dict.fromkeys(names, "")
    # from the base on, so that a class's own text wins over one that it inherits
    for owner in reversed(kind.__mro__):
        if texts.keys() & inspect.get_annotations(owner).keys():
            texts |= {name: text for name, text in _own_docstrings(owner) if name in texts}
    return texts


def _own_docstrings(kind: type) -> Iterator[tuple[str, str]]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    if isinstance(tree, ast.ClassDef):
        # the text of a field is the statement after it
        for field, after in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                value = after.value if isinstance(after, ast.Expr) else None
                text = value.value if isinstance(value, ast.Constant) else ""
                yield field.target.id, inspect.cleandoc(str(text))
