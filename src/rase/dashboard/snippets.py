"""The same question elsewhere: with curl, Python, pandas, Polars, Grafana and Home Assistant.

Never with a token: each names the place where the reader's own belongs.
"""

from dataclasses import dataclass
from urllib.parse import urlencode

__all__ = ["Question", "dataframe_snippets", "snippets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about one moment.

    Args:
        base: The address of the fusion centre.
        campaign: The campaign's id.
        quantity: What it measures, in words.
        unit: The unit; may be empty.
        round_s: The length of a round.
        w: The window as typed; empty for avg(t).
        at: The moment as RFC 3339; empty for the newest.
        method: The estimator; empty for the campaign's first.
        strict: "true" for no mean of a window that lacks a round; empty otherwise.
    """

    base: str
    campaign: str
    quantity: str
    unit: str
    round_s: int
    w: str = ""
    at: str = ""
    method: str = ""
    strict: str = ""

    def query(self, **more: str) -> dict[str, str]:
        """Return the parameters of the route that answers it."""
        asked = {"campaign": self.campaign, "w": self.w, "at": self.at, "method": self.method}
        asked["strict"] = self.strict
        return {name: value for name, value in {**asked, **more}.items() if value}

    @property
    def path(self) -> str:
        """The route that answers it."""
        if self.w:
            return "/v1/windows"
        return "/v1/estimates" if self.at else "/v1/estimates/latest"

    @property
    def address(self) -> str:
        """The whole address."""
        return f"{self.base}{self.path}?{urlencode(self.query())}"


def snippets(question: Question) -> list[tuple[str, str, str]]:
    """Return label, text and a short name for each place where the question can be asked."""
    return [
        ("curl", _curl(question), "curl"),
        ("Python", _python(question), "python"),
        ("Grafana (Infinity data source)", _grafana(question), "grafana"),
        ("Home Assistant (configuration.yaml)", _home_assistant(question), "ha"),
    ]


def _curl(question: Question) -> str:
    return f'curl -H "Authorization: Bearer $RASE_TOKEN" \\\n  "{question.address}"'


def _python(question: Question) -> str:
    arguments = [repr(question.w)] if question.w else []
    if question.at:
        arguments.append(f"at={question.at!r}")
    if question.method:
        arguments.append(f"method={question.method!r}")
    if question.strict:
        arguments.append("strict=True")
    call = f"{'window' if question.w else 'average'}({', '.join(arguments)})"
    return (
        "import os\n\nfrom rase.subscriber.client import Subscriber\n\n"
        f'with Subscriber("{question.base}", os.environ["RASE_TOKEN"],\n'
        f'                campaign="{question.campaign}") as centre:\n'
        f"    print(centre.{call})"
    )


def _grafana(question: Question) -> str:
    route = "/v1/windows" if question.w else "/v1/estimates"
    query = question.query()
    asked = urlencode({name: value for name, value in query.items() if name != "at"})
    time = "until" if question.w else "time"
    return (
        "Type: JSON   Parser: Backend   Method: GET\n"
        f"URL: {question.base}{route}?{asked}&from=${{__from}}&to=${{__to}}\n"
        f"Columns: {time} (Time), value (Number), low (Number), high (Number), n (Number)\n"
        "Data source, custom header: Authorization = Bearer YOUR_TOKEN"
    )


def _home_assistant(question: Question) -> str:
    route = "/v1/windows" if question.w else "/v1/estimates/latest"
    query = question.query()
    asked = urlencode({name: value for name, value in query.items() if name != "at"})
    first = "[0]" if question.w else ""
    unit = f'\n    unit_of_measurement: "{question.unit}"' if question.unit else ""
    return (
        "sensor:\n  - platform: rest\n"
        f'    name: "RASE {question.campaign}"\n'
        f'    resource: "{question.base}{route}?{asked}"\n'
        "    headers:\n      Authorization: !secret rase_bearer  # Bearer YOUR_TOKEN\n"
        f'    value_template: "{{{{ value_json{first}.value }}}}"\n'
        f"    availability: \"{{{{ value_json{first}.status == 'ok' }}}}\""
        f"{unit}\n    state_class: measurement\n    scan_interval: {max(question.round_s, 5)}"
    )


def dataframe_snippets(
    *, base: str, campaign: str, start_ms: int, end_ms: int
) -> list[tuple[str, str, str]]:
    """Return how pandas and Polars read every round of a time, as `snippets` does.

    Args:
        base: The address of the fusion centre.
        campaign: The campaign's id.
        start_ms: The first millisecond since 1970.
        end_ms: The last one.
    """
    query = {"campaign": campaign, "from": start_ms, "to": end_ms, "format": "csv"}
    address = f"{base}/v1/estimates?{urlencode(query)}"
    headers = '{"Authorization": f"Bearer {os.environ[\'RASE_TOKEN\']}"}'
    pandas = (
        f'import os\n\nimport pandas as pd\n\ntable = pd.read_csv(\n    "{address}",\n'
        f'    storage_options={headers},\n    parse_dates=["time", "until"], index_col="time")'
    )
    polars = (
        "import os\nfrom urllib.request import Request, urlopen\n\nimport polars as pl\n\n"
        f'question = Request("{address}",\n                   headers={headers})\n'
        "table = pl.read_csv(urlopen(question).read(), try_parse_dates=True)"
    )
    return [("pandas", pandas, "pandas"), ("Polars", polars, "polars")]
