"""What README and docs/sizing.md say in figures is what was played, and what was measured."""

import pytest

from tests.support import front_figures, sizing_page


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_readme_has_the_figures_and_the_picture_that_make_figures_writes() -> None:
    readme, picture = front_figures.front()
    assert front_figures.README.read_text() == readme, "make figures"
    assert front_figures.PICTURE.read_text() == picture, "make figures"


def test_the_page_on_sizing_has_the_figures_that_were_measured() -> None:
    assert sizing_page.PAGE.read_text() == sizing_page.page(), "make sizing"
