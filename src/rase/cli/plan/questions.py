"""``rase plan --devices N`` and nothing more: what a fleet of that size can learn, as lines."""

from collections.abc import Iterator

from rase.accounting.plan.learnable import ROUGH, USEFUL, Answerable, Learnable
from rase.domain import Range

__all__ = ["learnable_lines"]


def learnable_lines(found: Learnable, public: Range | None) -> Iterator[str]:
    """Yield what a fleet can learn.

    Args:
        found: What it can learn.
        public: The range of readings, where it is known; else errors are shares of it.
    """
    yield (
        f"fleet     {found.devices} devices, all in every round; rounds of fewer than "
        f"{found.k_min} reports are withheld."
    )
    yield (
        f"promise   ({found.shuffled_epsilon:g}, {found.delta:g}) towards the fusion centre for "
        "all reports of an answer together, and what owners allow unasked if both servers work "
        "together: epsilon 4.5 a report, 8 a day."
    )
    yield ""
    head = ("what you ask", "reports", "error", "useful?", "towards fusion", "both together")
    rows = [head, *(_cells(one, public) for one in found.answers)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(head))]
    for row in rows:
        shown = (
            cell.rjust(width) if place in (1, 2) else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(shown).rstrip()
    yield ""
    yield (
        f"useful    a standard error of at most {100 * USEFUL:g} % of the range; roughly, of "
        f"{100 * ROUGH:g} %. Errors are those of the readings for which they are largest."
    )
    best = min(found.answers, key=lambda one: one.share)
    reach = 1 / best.share
    yield (
        f"range     halve it and the error halves. For an error of 1 in the best of these answers "
        f"it may be {reach:.3g} wide, for 10 it may be {10 * reach:.3g}."
    )
    yield f"says      {_advice(found)}"


def _cells(one: Answerable, public: Range | None) -> tuple[str, ...]:
    error = f"{100 * one.share:.2g} %" if public is None else f"{one.share * public.width:.3g}"
    return (
        one.question,
        str(one.reports),
        error,
        one.verdict,
        f"epsilon {one.claim.epsilon:.3g}",
        f"epsilon {one.claim.local_epsilon:.3g}",
    )


def _advice(found: Learnable) -> str:
    """Return in a sentence what to ask of such a fleet."""
    good = [one.question for one in found.answers if one.verdict == "yes"]
    rough = [one.question for one in found.answers if one.verdict == "roughly"]
    if not good and not rough:
        return (
            f"No: {found.devices} devices hide each other too little for a mean that is worth "
            "much. Take more devices or a narrower range; or agree on a larger epsilon, knowing "
            "what it gives away."
        )
    bad = [one.question for one in found.answers if one.verdict == "no"]
    parts = (("Useful", good), ("Rough", rough), ("Noise wins for", bad))
    return " ".join(f"{name}: {', '.join(some)}." for name, some in parts if some)
