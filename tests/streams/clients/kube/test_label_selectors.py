"""Label selectors in Kubernetes' two spellings."""

import pytest

from schemas.policies.vpa import Operator, Requirement
from streams.clients.kube import label_selectors
from streams.clients.kube.watched_objects import LabelExpression, LabelSelector


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", ()),
        ("app=web", (Requirement("app", Operator.IN, ("web",)),)),
        ("app==web", (Requirement("app", Operator.IN, ("web",)),)),
        ("app!=web", (Requirement("app", Operator.NOT_IN, ("web",)),)),
        ("app.io/name in (b, a)", (Requirement("app.io/name", Operator.IN, ("a", "b")),)),
        ("env notin (a,b),!old,app", (
            Requirement("app", Operator.EXISTS),
            Requirement("env", Operator.NOT_IN, ("a", "b")),
            Requirement("old", Operator.DOES_NOT_EXIST),
        )),
        ("app=", (Requirement("app", Operator.IN, ("",)),)),
    ],
)  # fmt: skip
def test_the_text_of_a_selector_is_read(text: str, requirements: tuple[Requirement, ...]) -> None:
    assert label_selectors.of_text(text) == requirements


@pytest.mark.parametrize("text", ["app in web", "=x", "a=b c"])
def test_what_is_no_selector_is_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="is no part of a label selector"):
        label_selectors.of_text(text)


def test_the_object_of_a_selector_is_read_in_one_order() -> None:
    expressions = [LabelExpression("env", "NotIn", ["b", "a"]), LabelExpression("app", "Exists")]
    assert label_selectors.of_object(LabelSelector({"z": "1", "a": "2"}, expressions)) == (
        Requirement("a", Operator.IN, ("2",)),
        Requirement("z", Operator.IN, ("1",)),
        Requirement("app", Operator.EXISTS),
        Requirement("env", Operator.NOT_IN, ("a", "b")),
    )


def test_an_operator_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="the selector's operator 'Near' for 'app' is none"):
        label_selectors.of_object(LabelSelector(None, [LabelExpression("app", "Near")]))
