"""The same question elsewhere: with curl, Python, pandas, Polars, Grafana and Home Assistant.

Never with a token: each names the place where the reader's own belongs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

__all__ = ["Question", "snippets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about all rounds of a time.

    Args:
        base: The address of the fusion centre.
        campaign: The campaign's id.
        quantity: What it measures, in words.
        unit: The unit; may be empty.
        round_s: The length of a round.
        start_ms: The first millisecond since 1970.
        end_ms: The last one.
        part: Which of a round's answers: label, category and method, as far as chosen.
    """

    base: str
    campaign: str
    quantity: str
    unit: str
    round_s: int
    start_ms: int
    end_ms: int
    part: Mapping[str, str] = field(default_factory=dict)

    def address(self, route: str, **more: str | int) -> str:
        """Return the address of a route that answers it."""
        return f"{self.base}{route}?{urlencode({'campaign': self.campaign, **self.part, **more})}"

    @property
    def table(self) -> str:
        """The address of its rows as CSV."""
        return self.address("/v1/estimates", **self.times, format="csv")

    @property
    def times(self) -> dict[str, str | int]:
        """The time, as routes name it."""
        return {"from": self.start_ms, "to": self.end_ms}


def snippets(question: Question) -> list[tuple[str, str, str]]:
    """Return label, text and a short name for each place where the question can be asked."""
    return [
        ("pandas", _pandas(question), "pandas"),
        ("Polars", _polars(question), "polars"),
        ("Python", _python(question), "python"),
        ("curl", _curl(question), "curl"),
        ("Grafana (Infinity data source)", _grafana(question), "grafana"),
        ("Home Assistant (configuration.yaml)", _home_assistant(question), "ha"),
    ]


def _curl(question: Question) -> str:
    return f'curl -H "Authorization: Bearer $RASE_TOKEN" \\\n  "{question.table}"'


def _python(question: Question) -> str:
    part = "".join(f", {name}={value!r}" for name, value in question.part.items())
    return (
        "import os\n\nfrom rase.subscriber.client import Subscriber\n\n"
        f'with Subscriber("{question.base}", os.environ["RASE_TOKEN"],\n'
        f'                campaign="{question.campaign}") as centre:\n'
        f"    for answer in centre.averages({question.start_ms}, {question.end_ms}{part}):\n"
        "        print(answer.time, answer)"
    )


def _grafana(question: Question) -> str:
    return (
        "Type: JSON   Parser: Backend   Method: GET\n"
        f"URL: {question.address('/v1/estimates')}&from=${{__from}}&to=${{__to}}\n"
        "Columns: time (Time), value (Number), low (Number), high (Number), n (Number)\n"
        "Data source, custom header: Authorization = Bearer YOUR_TOKEN"
    )


def _home_assistant(question: Question) -> str:
    unit = f'\n    unit_of_measurement: "{question.unit}"' if question.unit else ""
    value = "value_json.value * 100" if question.unit == "%" else "value_json.value"
    return (
        "sensor:\n  - platform: rest\n"
        f'    name: "RASE {question.campaign}"\n'
        f'    resource: "{question.address("/v1/estimates/latest")}"\n'
        "    headers:\n      Authorization: !secret rase_bearer  # Bearer YOUR_TOKEN\n"
        f'    value_template: "{{{{ {value} }}}}"\n'
        "    availability: \"{{ value_json.status == 'ok' }}\""
        f"{unit}\n    state_class: measurement\n    scan_interval: {max(question.round_s, 5)}"
    )


def _pandas(question: Question) -> str:
    return (
        f'import os\n\nimport pandas as pd\n\ntable = pd.read_csv(\n    "{question.table}",\n'
        f"    storage_options={_HEADERS},\n"
        '    parse_dates=["time", "until"], index_col="time")'
    )


def _polars(question: Question) -> str:
    return (
        "import os\nfrom urllib.request import Request, urlopen\n\nimport polars as pl\n\n"
        f'question = Request("{question.table}",\n                   headers={_HEADERS})\n'
        "table = pl.read_csv(urlopen(question).read(), try_parse_dates=True)"
    )


_HEADERS = '{"Authorization": f"Bearer {os.environ[\'RASE_TOKEN\']}"}'
