"""A plan as texts to copy: campaign file, command line, Python, a paragraph for a DPIA."""

import shlex

from rase.accounting.plan.parts import Period
from rase.accounting.plan.values import Plan
from rase.campaign import Campaign, ShufflePlan
from rase.clock import round_number
from rase.service.installation import campaign_text
from rase.studio.explorer.form import Asked, shown_number

__all__ = ["as_campaign", "as_command", "as_dpia", "as_python", "as_toml"]

_YEAR_S = 365 * 86400
_LONGEST_UPLOAD_S = 600
_SHUFFLER = (
    "A shuffler, operated apart from the fusion centre, mixes the reports of a round before the "
    "fusion centre can read them; neither of the two alone can link a report to a device. This "
    "fails if both collude; the local guarantee still holds then."
)
_LIMITS = (
    "These figures follow from proofs and were computed, not measured. They assume that devices "
    "draw their noise securely and once per reading. They do not cover what a person reveals in "
    "other ways, nor that a device takes part at all."
)


def as_campaign(asked: Asked, plan: Plan, now_s: float) -> Campaign:
    """Return a first campaign with these parameters, from the next round but one for a year.

    Names, times and the fewest reports are suggestions; what was explored is exact.

    Args:
        asked: What was explored.
        plan: What the planner said to it.
        now_s: The present time.
    """
    round_s = asked.interval_s
    first = round_number(int(now_s), round_s) + 2
    upload_s = max(1, min(round_s // 4, _LONGEST_UPLOAD_S))
    return Campaign(
        id="my-campaign",
        version=1,
        quantity="power",
        unit="W",
        low=asked.low,
        high=asked.high,
        mechanism=plan.mechanism,
        beta=asked.beta,
        rho=asked.rho,
        epsilon=(asked.epsilon,),
        window=asked.window,
        # What the schedule spends in a window; less makes devices skip rounds.
        window_budget=plan.request.schedule.window_budget,
        round_s=round_s,
        upload_s=upload_s,
        grace_s=2 * upload_s,
        k_min=max(2, asked.devices // 2),
        shuffle=ShufflePlan("robust", asked.alpha, _group_names(asked.groups))
        if asked.is_robust
        else ShufflePlan(),
        not_before=first,
        not_after=first + max(1, _YEAR_S // round_s),
    )


def as_toml(asked: Asked, plan: Plan, now_s: float) -> str:
    """Return the campaign as the file that ``rase campaign publish`` takes."""
    return campaign_text(as_campaign(asked, plan, now_s))


def as_command(asked: Asked) -> str:
    """Return the line that plans the same on the command line."""
    words = ["rase", "plan", "--range", shown_number(asked.low), shown_number(asked.high)]
    options: dict[str, object] = {
        "epsilon": asked.epsilon,
        "devices": asked.devices,
        "beta": asked.beta,
        "rho": asked.rho,
        "every": asked.every,
        "window": asked.window,
        "schedule": None if asked.schedule == "every" else asked.schedule,
        "delta": asked.delta,
        "mechanism": asked.mechanism,
    }
    if asked.is_robust:
        options |= {"alpha": asked.alpha, "groups": asked.groups}
    options |= {"error": asked.error, "attacker-cap": asked.attacker_cap}
    for name, value in options.items():
        if value is not None:
            words += [f"--{name}", shown_number(value)]
    return shlex.join(words)


def as_python(asked: Asked) -> str:
    """Return the lines that plan the same in Python."""
    arguments = {name: value for name, value in asked.for_plan().items() if value is not None}
    lines = "".join(f"    {name}={value!r},\n" for name, value in arguments.items())
    return (
        "from rase import Range\n"
        "from rase.accounting.plan import plan\n\n"
        "made = plan(\n"
        f"    Range({shown_number(asked.low)}, {shown_number(asked.high)}),\n"
        f"    {asked.epsilon!r},\n"
        f"{lines})\n"
        'print(made.error("unbiased_mean").window.total)\n'
        "for period in made.periods:\n"
        "    print(period)\n"
    )


def as_dpia(asked: Asked, plan: Plan) -> str:
    """Return a paragraph for a data protection impact assessment: promises and their limits."""
    report, mean = plan.periods[0], plan.error("unbiased_mean")
    low, high = shown_number(asked.low), shown_number(asked.high)
    contributes = (
        f"Each of about {asked.devices:,} devices contributes one reading between {low} and "
        f"{high} {_when(asked)}. Before it leaves the device, the reading is replaced by a "
        f"random report ({plan.mechanism} mechanism) that is {asked.epsilon:g}-locally "
        f"differentially private: {report.local.odds}, whoever sees the report."
    )
    error = (
        "The published mean of a round is expected to deviate from the true mean by "
        f"{mean.round.total:.3g} at most (root mean square, worst case)"
    )
    if asked.window > 1:
        error += f", that of {asked.window:,} rounds by {mean.window.total:.3g}"
    sentences = [
        contributes,
        _SHUFFLER,
        _central(plan),
        *(_period(period) for period in plan.periods[1:]),
        f"{error}.",
        _LIMITS,
    ]
    return " ".join(sentences)


def _central(plan: Plan) -> str:
    if plan.refusal is not None:
        return (
            "No guarantee is claimed for the shuffled reports as a whole, because the order is "
            "not mixed uniformly."
        )
    found = plan.periods[0].central
    if found is None or not found.is_amplified:
        return "With so few reports the shuffling adds no further guarantee that could be proven."
    return (
        f"For the shuffled reports of a round as a whole, ({found.epsilon:.3g}, "
        f"{found.delta:g})-differential privacy was proven ({found.theorem})."
    )


def _period(period: Period) -> str:
    text = (
        f"Over a {period.name} of {period.reports:,} reports the local guarantees add up to "
        f"epsilon {period.local.epsilon:g} for whoever can link the reports of a device"
    )
    central = period.central
    if central is not None and central.is_amplified:
        return (
            f"{text}; for the shuffled releases of that time ({central.epsilon:.3g}, "
            f"{central.delta:g})-differential privacy holds."
        )
    return f"{text}."


def _when(asked: Asked) -> str:
    if asked.schedule == "rotate":
        return f"in one of any {asked.window:,} rounds of {asked.every}"
    return f"every {asked.every}"


def _group_names(count: int) -> tuple[str, ...]:
    return tuple(f"group-{place + 1}" for place in range(count))
