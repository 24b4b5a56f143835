"""A solved optimal channel as it is shipped: outputs, masses and patterns, and its lower bound.

Pure Python without NumPy, because the device agent draws from it. An output y has a value z_y, a
mass m_y and the set S_y of inputs that draw it with probability m_y e^epsilon; the other inputs
draw it with probability m_y. Inputs are the ends of ``parts`` equal parts of the range, and values
are in units of the range's width from its middle. The mirror image of an output is an output, too.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Any, Self

from rase.errors import DataError
from rase.kernels.fixed import FIXED_ONE, WORD, decay_powers
from rase.laws.certificate import Drawn

__all__ = ["FORMAT", "PRICE_UNIT", "Output", "Programme", "mixed_sum"]

FORMAT = 1
# Dual prices are whole numbers in this unit, so that the bound is a sum of whole numbers.
PRICE_UNIT = 10**12
# How far rows may be from sums of one, and means from the reading, before integers are made.
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Output:
    """One output of the upper half; its mirror image has value -z and the mirrored inputs.

    Args:
        value: What a report of it is read as, z, in widths of the range from its middle.
        mass: The probability with which the inputs outside ``favoured`` draw it.
        favoured: The inputs that draw it with e^epsilon times the mass: bit j is input j.
    """

    value: float
    mass: float
    favoured: int

    def __post_init__(self) -> None:
        """Refuse values that are not probabilities."""
        if not (math.isfinite(self.value) and self.value >= 0):
            raise ValueError(f"value must be 0 or greater and finite, got {self.value}.")
        if not 0 < self.mass <= 1:
            raise ValueError(f"mass must be greater than 0 and at most 1, got {self.mass}.")
        if self.favoured < 0:
            raise ValueError(f"favoured must be 0 or greater, got {self.favoured}.")


# Without slots, because what follows from the outputs is computed once and kept.
@dataclass(frozen=True)
class Programme:
    """One optimal channel, with the proof of how good any channel can be.

    Args:
        epsilon: The budget it was solved for.
        parts: How many equal parts the range is cut into; even.
        outputs: The outputs of the upper half.
        prices: For each input the dual prices (variance, mean, sum) in units of 1e-12; a feasible
            dual solution, from which `rase.laws.optimum_bound` computes the lower bound.

    Raises:
        ValueError: If the parts do not make an unbiased channel.
    """

    epsilon: float
    parts: int
    outputs: tuple[Output, ...]
    prices: tuple[tuple[int, int, int], ...]

    def __post_init__(self) -> None:
        """Check that rows add up to one and means are the readings, before integers are made."""
        if self.parts < 2 or self.parts % 2:
            raise ValueError(f"parts must be an even number from 2 on, got {self.parts}.")
        if len(self.prices) != self.parts + 1:
            raise ValueError(f"prices must be {self.parts + 1} triples, got {len(self.prices)}.")
        if any(output.favoured >> (self.parts + 1) for output in self.outputs):
            raise ValueError("favoured must name inputs of the programme only.")
        factor = math.exp(self.epsilon)
        for place in range(self.parts + 1):
            total = mean = 0.0
            for output in self.outputs:
                here = output.mass * (factor if output.favoured >> place & 1 else 1)
                there = output.mass * (factor if output.favoured >> (self.parts - place) & 1 else 1)
                total += here + there
                mean += output.value * (here - there)
            reading = place / self.parts - 0.5
            if abs(total - 1) > _CLOSE or abs(mean - reading) > _CLOSE * (1 + 1 / self.epsilon):
                raise ValueError(f"outputs must make an unbiased channel; input {place} is not.")

    def __hash__(self) -> int:
        """Return the hash of all parts, computed once: laws are looked up by their programme."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.epsilon, self.parts, self.outputs, self.prices))

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The decoded value of each output, ascending, in widths of the range from its middle."""
        return tuple(value for value, _, _ in self._sorted_outputs)

    @cached_property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """The weight of each output (column, as in ``values``) for each input; rows sum to 2^64.

        Guarantee: all weights of an output lie between a whole number a and the largest whole
        number b <= a e^epsilon, so no two inputs differ by more than e^epsilon in any output
        (tests/laws/test_optimal.py).
        """
        # The decay is rounded up and the quotient down: b is at most a e^epsilon.
        decay = decay_powers(self.epsilon, 2)[1] + 1
        low = [max(int(mass * WORD), 1) for _, mass, _ in self._sorted_outputs]
        high = [weight * FIXED_ONE // decay for weight in low]
        heaviest = sorted(range(len(high)), key=lambda output: high[output], reverse=True)
        return tuple(self._row(place, low, high, heaviest) for place in range(self.parts + 1))

    @cached_property
    def blanket(self) -> int:
        """How many of 2^64 words are independent of the reading: each output's smallest weight."""
        return sum(map(min, zip(*self.rows, strict=True)))

    def blanket_share(self, epsilon: float) -> int:
        """Return how many of 2^64 reports must come from the blanket for a smaller budget.

        Reports of the blanket alone, the law min_x R_x / gamma, with probability s leave each
        output two likelihoods, whose ratio falls from E to ((1 - s) E + s / gamma) / ((1 - s) + s /
        gamma). For a ratio of E' that is s / (1 - s) = gamma (E - E') / (E' - 1), rounded up.

        Args:
            epsilon: A budget of at most this programme's.
        """
        (_, own), (_, wished) = decay_powers(self.epsilon, 2), decay_powers(epsilon, 2)
        mixed = self.blanket * (wished - own) * FIXED_ONE
        return -(-WORD * mixed // (mixed + WORD * own * (FIXED_ONE - wished)))

    def mix_blanket(self, epsilon: float) -> Self:
        """Return the channel that reports its own blanket so often that a smaller budget is kept.

        It favours the same inputs by the same outputs, so what is proven of channels with two
        likelihoods holds for it; values are stretched to stay unbiased. It loses at most 0.5 % of
        the error of a channel solved for the budget if its own is up to 0.1 above.

        Args:
            epsilon: A budget below this programme's.

        Raises:
            ValueError: If the budget is not below.
        """
        if not 0 < epsilon < self.epsilon:
            raise ValueError(f"epsilon must be above 0 and below {self.epsilon}, got {epsilon}.")
        share = self.blanket_share(epsilon)
        # Quotients of whole numbers are rounded alike on every machine, exponentials are not.
        kept, scale = (WORD - share) / WORD, (WORD - share) / WORD + share / self.blanket
        return type(self)(
            epsilon,
            self.parts,
            tuple(Output(o.value / kept, o.mass * scale, o.favoured) for o in self.outputs),
            self.prices,
        )

    def _row(
        self, place: int, low: list[int], high: list[int], heaviest: list[int]
    ) -> tuple[int, ...]:
        row = [
            large if favoured >> place & 1 else small
            for (_, _, favoured), small, large in zip(self._sorted_outputs, low, high, strict=True)
        ]
        rest = WORD - sum(row)
        # What rounding left over goes to the outputs that weigh most, within [a, b] of each.
        for output in heaviest:
            moved = min(max(row[output] + rest, low[output]), high[output]) - row[output]
            row[output] += moved
            rest -= moved
        if rest:
            raise ValueError(f"outputs must leave room for rounding; input {place} has none.")
        return tuple(row)

    def mixed_row(self, below: int, rest: int, of: int) -> tuple[int, ...]:
        """Return the weights between an input and the next, ``rest / of`` of the way.

        Partial sums are mixed and truncated to whole numbers towards the lower input's, so that
        each weight lies between those of the two inputs and all add up to 2^64.
        """
        share = (rest << 64) // of
        above = min(below + 1, self.parts)
        both = (accumulate(self.rows[place]) for place in (below, above))
        sums = [mixed_sum(low, high, share) for low, high in zip(*both, strict=True)]
        return tuple(later - sooner for sooner, later in pairwise([0, *sums]))

    def places(self, steps: int) -> tuple[int, ...]:
        """Return the grid place of each output: the nearest to its value that is still free.

        Places are symmetric about the middle of the range and ascend with the values, so that
        reports taken as they are lie near what they are read as.
        """
        upper: list[int] = []
        # Twice the distance from the middle in steps: a whole number, odd if there are odd steps.
        odd = steps % 2
        last = -odd
        for value in self.values[len(self.outputs) :]:
            wished = 2 * round((2 * value * steps - odd) / 2) + odd
            last = max(wished, last + 2)
            upper.append(last)
        return tuple((steps + twice) // 2 for twice in (*(-u for u in upper[::-1]), *upper))

    def drawn_ratio(self, steps: int) -> Drawn:
        """Return what is drawn with, and the two inputs and the output of the largest ratio."""
        numerator, denominator, worst, pair = 1, 1, 0, (0, 0)
        for output, column in enumerate(zip(*self.rows, strict=True)):
            most, least = max(column), min(column)
            if most * denominator > numerator * least:
                numerator, denominator, worst = most, least, output
                pair = column.index(most), column.index(least)
        first, second = (place * steps / self.parts for place in pair)
        return Drawn(
            "optimal",
            self.epsilon,
            WORD,
            (first, second),
            self.places(steps)[worst],
            (numerator, denominator),
        )

    @cached_property
    def _sorted_outputs(self) -> tuple[tuple[float, float, int], ...]:
        """All outputs with their mirror images, by value; ties by mass and pattern."""
        both = [(o.value, o.mass, o.favoured) for o in self.outputs]
        both += [(-o.value + 0.0, o.mass, self._reflect_pattern(o.favoured)) for o in self.outputs]
        return tuple(sorted(both))

    def _reflect_pattern(self, favoured: int) -> int:
        return sum(1 << self.parts - j for j in range(self.parts + 1) if favoured >> j & 1)

    @cached_property
    def worst_variance(self) -> float:
        """The largest variance over all readings, in squared widths, as the integers are drawn."""
        squares = [
            math.fsum(weight * value**2 for weight, value in zip(row, self.values, strict=True))
            / WORD
            for row in self.rows
        ]
        part = 1 / self.parts
        worst = 0.0
        for place, (here, after) in enumerate(pairwise(squares)):
            # Between two inputs E[z^2] is a line, so line minus x^2 is largest at its vertex.
            start = place * part - 0.5
            slope = (after - here) / part
            top = min(max(slope / 2, start), start + part)
            worst = max(worst, here + slope * (top - start) - top * top)
        return worst

    def to_fields(self) -> dict[str, Any]:
        """Return plain values with their checksum, as a line of the ladder holds them."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "epsilon": self.epsilon,
            "parts": self.parts,
            "outputs": [[o.value, o.mass, f"{o.favoured:x}"] for o in self.outputs],
            "prices": [list(triple) for triple in self.prices],
        }
        return fields | {"sha256": _checksum(fields)}

    @classmethod
    def from_fields(cls, fields: object) -> Self:
        """Read a programme.

        Raises:
            DataError: If the format is another, the checksum does not fit or a part is missing.
        """
        if not isinstance(fields, Mapping):
            raise DataError("a programme must be a table of fields, got something else.")
        if fields.get("format") != FORMAT:
            raise DataError(
                f"format must be {FORMAT}, got {fields.get('format')!r}; solve the programme again."
            )
        plain = {name: value for name, value in fields.items() if name != "sha256"}
        if fields.get("sha256") != _checksum(plain):
            raise DataError("sha256 must be that of the programme; it was damaged or changed.")
        try:
            return cls(
                float(fields["epsilon"]),
                int(fields["parts"]),
                tuple(
                    Output(float(value), float(mass), int(favoured, 16))
                    for value, mass, favoured in fields["outputs"]
                ),
                tuple((int(w), int(mu), int(nu)) for w, mu, nu in fields["prices"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the programme must be whole: {error}") from error


def mixed_sum(below: int, above: int, share: int) -> int:
    """Return a share of 2^64 of the way from one partial sum to another, truncated towards it.

    Example:
        >>> mixed_sum(10, 13, 1 << 63), mixed_sum(13, 10, 1 << 63)
        (11, 12)
    """
    if above < below:
        return below - (share * (below - above) >> 64)
    return below + (share * (above - below) >> 64)


def _checksum(fields: Mapping[str, Any]) -> str:
    return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
