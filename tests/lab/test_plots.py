"""Pictures of the lab: drawn without a screen, the same bytes for the same values."""

import pytest

from rase.lab.pictures import Chart, HeatMap, Level, Line, Picture
from rase.lab.plots import draw_picture

LINE = Line("raw", [1, 2, 4], [3.0, 5.0, 6.0], low=[2, 4, 5], high=[4, 6, 7])


def chart(**changes: object) -> Chart:
    """Return a chart with some changes."""
    usual = {"title": "t", "x_label": "x axis", "y_label": "y axis", "lines": (LINE,)}
    return Chart(**{**usual, **changes})  # type: ignore[arg-type]


def text_of(picture: Picture) -> str:
    """Return the SVG of a picture."""
    return draw_picture(picture)[0].decode()


@pytest.mark.uncovered
def test_pictures_repeat() -> None:
    """The same picture gives the same bytes, without a date."""
    picture = Picture((chart(), chart()), columns=2)
    assert draw_picture(picture) == draw_picture(picture)
    assert "dc:date" not in text_of(picture)


def test_labels_are_text() -> None:
    """Axes, legend and levels can be read, searched and spoken."""
    text = text_of(
        Picture((chart(levels=(Level(4.0, "chance 2 %"), Level(2.0, "bound", is_upright=True))),))
    )
    for label in ("x axis", "y axis", "raw", "chance 2 %", "bound"):
        assert label in text


@pytest.mark.parametrize("x_scale", ["linear", "log", "even"])
def test_scales(x_scale: str) -> None:
    """Every scale names the places measured."""
    text = text_of(Picture((chart(x_scale=x_scale, y_scale="log", y_limits=(1.0, 9.0)),)))
    assert ">4<" in text


@pytest.mark.parametrize(
    ("hours", "left_out"), [(range(0, 49, 4), "time, 2026"), (range(2, 9), "time, 2026-Mar-01")]
)
def test_times_say_what_their_labels_leave_out(hours: range, left_out: str) -> None:
    """The day stands under the axis where no label has it, and the year alone where one does."""
    midnight_s = 1_772_323_200.0  # 2026-03-01
    line = Line("a", [midnight_s + 3600 * hour for hour in hours], [1.0] * len(hours))
    text = text_of(Picture((chart(lines=(line,), x_label="time", x_scale="time"),)))
    assert f">{left_out}<" in text


def test_close_places_leave_room() -> None:
    """On a logarithmic axis places too near to each other are not all named."""
    line = Line("a", [1, 1.01, 10], [1, 2, 3])
    assert ">1.01<" not in text_of(Picture((chart(lines=(line,), x_scale="log"),)))


def test_large_numbers_are_short() -> None:
    """A logarithmic axis of few decades names large numbers by their power."""
    line = Line("a", [1, 2], [2e5, 4e6])
    assert ">1e6<" in text_of(Picture((chart(lines=(line,), y_scale="log"),)))


def test_many_points_and_dots() -> None:
    """Long lines have no markers, dots no line; a series without a label is not in the legend."""
    long = Line("long", list(range(60)), list(range(60)), style="dashed")
    dots = Line("", [1.5, 2.5], [1, 2], style="dots", look="recall")
    assert "long" in text_of(Picture((chart(lines=(long, dots)),)))


@pytest.mark.uncovered
def test_legends_are_shared() -> None:
    """Charts with the same series share one legend; others have their own."""
    assert text_of(Picture((chart(), chart()), columns=2)).count(">raw<") == 1
    other = chart(lines=(Line("other", [1, 2], [1, 2]),), y_label="other axis")
    apart = text_of(Picture((chart(), other, chart(lines=())), columns=2))
    assert apart.count(">raw<") == apart.count(">other<") == 1
    assert apart.count('id="legend_') == 2


def test_heat_maps() -> None:
    """A heat map shows its numbers, and leaves blank what is not there."""
    table = HeatMap(
        "t", "k", "n", ["1", "2"], ["8", "16"], [[12.5, float("nan")], [99.99, 60.0]], "%", (0, 100)
    )
    text = text_of(Picture((table, chart()), columns=2))
    for number in ("12.5", "100", "60"):
        assert f">{number}<" in text
    assert "nan" not in text


def test_columns_must_fit() -> None:
    """A line whose columns differ in length is refused."""
    with pytest.raises(ValueError, match="one length"):
        Line("a", [1, 2], [1])
