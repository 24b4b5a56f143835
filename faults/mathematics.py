"""Faults of the mathematics: noise, orders and certificates that are a little off.

All leave what is stated unchanged, as a careless edit does, so that only the draws differ.
"""

from typing import Final

from faults.fault import Fault

__all__ = ["MATHEMATICS"]

_TWINS: Final = ("tests/laws/test_pure.py::test_the_same_words_give_the_same_report",)
_RANDOMIZER: Final = "rase/laws/randomizer.py"
_PERMUTE: Final = "rase/kernels/permute.py"

_SHARES: Final = (
    ("1-percent", "1 %", 100),
    ("3-in-1000", "0.3 %", 333),
    ("1-in-1000", "0.1 %", 1000),
)


def _noise(name: str, factor: str) -> tuple[Fault, Fault, Fault]:
    """Return noise drawn at a larger epsilon than stated: in the library, on devices, in both."""
    return (
        Fault(
            name=f"noise-epsilon-{name}",
            wrong=f"The library draws its noise at {factor} times the stated epsilon.",
            file=_RANDOMIZER,
            old="drawn = self.law(self.epsilon).draw_many(values",
            new=f"drawn = self.law({factor} * self.epsilon).draw_many(values",
            tests=_TWINS,
        ),
        Fault(
            name=f"device-noise-epsilon-{name}",
            wrong=f"A device draws its noise at {factor} times the stated epsilon.",
            file=_RANDOMIZER,
            old="return self.law(self._one_budget).draw(index, share, entropy)",
            new=f"return self.law({factor} * self._one_budget).draw(index, share, entropy)",
            tests=_TWINS,
        ),
        Fault(
            name=f"shared-noise-rate-{name}",
            wrong=f"Library and devices draw unclamped noise at {factor} times its rate.",
            file="rase/kernels/digits.py",
            old="*lower, (weight, highest) = geometric_digits(rate) or [(1, rate)]",
            new=f"rate *= {factor}\n"
            "    *lower, (weight, highest) = geometric_digits(rate) or [(1, rate)]",
            tests=("tests/kernels/test_digits.py", "tests/kernels/test_geometric_numbers.py"),
        ),
    )


def _left(name: str, share: str, one_in: int) -> tuple[Fault, Fault, Fault]:
    """Return orders that leave some rounds as they came: batches, single rounds, the live path.

    In a batch the last word of a round decides which: the last place has one item left.
    """
    return (
        Fault(
            name=f"batch-order-left-{name}",
            wrong=f"Shuffling many rounds at once leaves {share} of them as they came.",
            file=_PERMUTE,
            old="""        if backend.native is None:
            numpy_swap_rows(words, some, source)
            continue
        kept = some.copy()
        if not backend.native.swap_rows(words, some, len(some)):
            some[:] = kept
            numpy_swap_rows(words, some, source)
""",
            new=f"""        kept = some.copy()
        if backend.native is None or not backend.native.swap_rows(words, some, len(some)):
            some[:] = kept
            numpy_swap_rows(words, some, source)
        left = words.reshape(some.shape)[:, -1:] % np.uint64({one_in}) == 0
        np.copyto(some, kept, where=left)
""",
            tests=("tests/faults/test_uniform_orders.py::test_batches_are_shuffled",),
        ),
        Fault(
            name=f"single-order-left-{name}",
            wrong=f"Shuffling a single round leaves {share} of them as they came.",
            file=_PERMUTE,
            old="""    bits = entries.view(f"u{entries.itemsize}")
""",
            new=f"""    bits = entries.view(f"u{{entries.itemsize}}")
    if source.words(1)[0] % {one_in} == 0:
        return
""",
            tests=("tests/faults/test_uniform_orders.py::test_single_rounds_are_shuffled",),
        ),
        Fault(
            name=f"live-order-left-{name}",
            wrong=f"The shuffler releases {share} of its rounds in the order of arrival.",
            file="rase/shuffler/order.py",
            old="    return np.asarray(release.values, np.int64), release.manifest\n",
            new=f"""    if source.words(1)[0] % {one_in} == 0:
        return np.arange(len(groups)), release.manifest
    return np.asarray(release.values, np.int64), release.manifest
""",
            tests=("tests/faults/test_uniform_orders.py::test_released_rounds_are_shuffled",),
        ),
    )


def _theta(percent: int) -> Fault:
    return Fault(
        name=f"mallows-theta-{percent}-percent",
        wrong=f"Mallows orders are drawn with a theta {percent} % larger than stated.",
        file="rase/shuffle/mallows.py",
        old="exact_geometric(self.theta, count * self.n, source)",
        new=f"exact_geometric({1 + percent / 100} * self.theta, count * self.n, source)",
        tests=("tests/faults/test_mallows_theta.py",),
    )


MATHEMATICS: Final = (
    *_noise("3-percent", "1.03"),
    *_noise("1-percent", "1.01"),
    *_noise("3-in-10000", "1.0003"),
    Fault(
        name="clamped-table-3-in-10000",
        wrong="Tables of clamped noise are made for another epsilon than they say.",
        file="rase/kernels/fixed.py",
        old="powers = decay_powers(epsilon / steps, steps + 1)",
        new="powers = decay_powers(1.0003 * epsilon / steps, steps + 1)",
        tests=("tests/laws/test_certificate.py::test_tables_are_unbiased_in_fractions",),
    ),
    Fault(
        name="report-one-step-off",
        wrong="Every report of the library lies one grid step too high.",
        file=_RANDOMIZER,
        old="        places = self.draw_many(readings, rng=rng)\n",
        new="        places = self.draw_many(readings, rng=rng) + 1\n",
        tests=_TWINS,
    ),
    Fault(
        name="device-report-one-step-off",
        wrong="Every report of a device lies one grid step too high.",
        file=_RANDOMIZER,
        old="return self.law(self._one_budget).draw(index, share, entropy)",
        new="return self.law(self._one_budget).draw(index, share, entropy) + 1",
        tests=_TWINS,
    ),
    Fault(
        name="decoded-one-step-off",
        wrong="Every decoded report lies one grid step too high.",
        file=_RANDOMIZER,
        old="decoded: Floats = self.domain.low + self.domain.step * index\n",
        new="decoded: Floats = self.domain.low + self.domain.step * (index + 1)\n",
        tests=("tests/laws/test_certificate.py::test_tables_are_unbiased_in_fractions",),
    ),
    _theta(5),
    _theta(2),
    _theta(1),
    *(fault for share in _SHARES for fault in _left(*share)),
    Fault(
        name="certificate-10-percent-low",
        wrong="Certificates of laws with a table state an epsilon 10 % too low.",
        file="rase/kernels/fixed.py",
        old="        nearest = float(exact)\n        return nearest if Decimal(nearest)",
        new="        exact *= Decimal('0.9')\n        nearest = float(exact)\n"
        "        return nearest if Decimal(nearest)",
        tests=("tests/kernels/test_fixed.py",),
    ),
    Fault(
        name="drawn-epsilon-10-percent-low",
        wrong="The epsilon that a mechanism states of its table is 10 % too low.",
        file="rase/laws/certificate.py",
        old="            return log_ratio(*self.ratio)\n",
        new="            return 0.9 * log_ratio(*self.ratio)\n",
        tests=("tests/laws/test_certificate.py",),
    ),
    Fault(
        name="formula-10-percent-low",
        wrong="Certificates of unclamped noise state an epsilon 10 % too low.",
        file="rase/laws/certificate.py",
        old="        nearest = float(exact)\n",
        new="        nearest = float(exact := exact * Fraction(9, 10))\n",
        tests=("tests/laws/test_certificate.py::test_noise_without_end_is_certified_by_formula",),
    ),
    Fault(
        name="key-survives-fork",
        wrong="A process keeps one random key, which a forked child goes on with.",
        file="rase/kernels/words.py",
        old="        return Keystream(os.urandom(32))\n",
        new='        return globals().setdefault("_KEPT", Keystream(os.urandom(32)))\n',
        tests=("tests/kernels/test_words.py::test_secure_words_are_fresh_and_survive_a_fork",),
    ),
)
