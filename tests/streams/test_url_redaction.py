"""No part of a password or token that a URL carries is shown, whatever characters it has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.units import Seconds
from streams.errors import GiveUp, TryAgain
from streams.url_redaction import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@h/x", "https://h/x"),
        ("HTTPS://u:p@h", "HTTPS://h"),
        ("https://u:p/w@h/x", "https://h/x"),
        ("https://u:pa?ss@h", "https://h"),
        ("https://u:pa#ss@h/", "https://h/"),
        ("https://u:a b@h/", "https://h/"),
        ("https://u:a@b@h/", "https://h/"),
        ("https://u:it's@h/", "https://h/"),
        ("https://u:a://b@h/", "https://h/"),
        ("http://u:p@h:1,http://u:q@g", "http://h:1,http://g"),
        ("https://h/x?token=SECRET", "https://h/x?token=(hidden)"),
        ("https://h/x?a=1&access_token=S&b=2#id_token=S", "https://h/x?a=1&access_token=(hidden)&b=2#id_token=(hidden)"),
        ("https://h/x?X-Amz-Signature=S&Api-Key=T", "https://h/x?X-Amz-Signature=(hidden)&Api-Key=(hidden)"),
        ("https://h/x?%74oken=S&client%5Fsecret=T", "https://h/x?%74oken=(hidden)&client%5Fsecret=(hidden)"),
        ("https://h/x?password=", "https://h/x?password=(hidden)"),
        ("https://h:9090/x?match=up", "https://h:9090/x?match=up"),
        ("u:SECRET@h:9090", "h:9090"),
        ("//u:SECRET@h/x", "h/x"),
        ("http:/u:SEC@RET@h/x", "h/x"),
        ("prometheus.url=u:SEC=RET@h", "prometheus.url=h"),
        ("nginx:1.27@sha256:0a1b", "nginx:1.27@sha256:0a1b"),
        ("a/path?with=out@address", "a/path?with=out@address"),
    ],
)
def test_a_url_is_shown_without_what_lets_somebody_in(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_of_a_sentence_what_stands_around_its_urls_stays() -> None:
    said = "asking 'https://u:a b@h/x?token=S' did not work: /api?key=S at \"http://u:q@g\" of me@home"
    shown = "asking 'https://h/x?token=(hidden)' did not work: /api?key=(hidden) at \"http://g\" of me@home"
    assert without_password(said) == shown
    assert without_password("the token=abc of nobody stays, as does a@b") == "the token=abc of nobody stays, as does a@b"


@given(user=st.text(max_size=20), secret=st.text(min_size=1, max_size=20))
def test_no_word_of_a_password_is_left(user: str, secret: str) -> None:
    word = "hunter2"
    url = f"https://{user}:{secret}{word}{secret}@host/path".replace("\n", " ").replace("\r", " ")
    assert word not in without_password(url)
    assert word not in without_password(f"https://host/path?api_key={word}")


def test_an_error_of_the_edge_shows_none() -> None:
    for error in (
        TryAgain(doing="asking", to="https://u:p@h", answer="no route to https://u:q w@g/?sig=S", after=Seconds(1.0)),
        GiveUp(doing="asking", to="https://h/?token=S", answer="no"),
    ):
        assert "=S" not in str(error)
        assert "@" not in f"{error} {error.to} {error.answer}"
