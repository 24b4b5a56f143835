"""Real processes that speak through a real broker, as deployed: with its ACL and passwords."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from benchmarks.loading.ports import held_port
from tests.broker import Mosquitto
from tests.live.running import answers, enrol, free_ports, program, rase, shorten_windows
from tests.live.test_end_to_end import DEVICES, copied
from tests.patience import until

from rase.shuffler.enrolment import broker_users
from rase.storage.sqlite import open_sqlite
from rase.wire.private_files import write_private


def change(settings: Path, shuffler_url: str, broker_url: str) -> None:
    """Let a device report through a broker alone."""
    text = settings.read_text().replace(shuffler_url, "http://127.0.0.1:1")
    settings.write_text(text.replace("[device]", f'[device]\nbroker = "{broker_url}"', 1))


@pytest.mark.slow
def test_an_estimate_comes_out_of_the_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Devices know only the broker after enrolment; a reader finds the estimate there."""
    ports = (*free_ports(), held_port())
    shuffler_url, fusion_url, registrar_url = (f"http://127.0.0.1:{port}" for port in ports)
    folder = tmp_path / "installed"
    options = ["--range", 0, 3000, "--epsilon", 2, "--round", "4s", "--upload", "2s"]
    options += ["--grace", "4s", "--k-min", DEVICES, "--window", 100]
    # Rounds of seconds are for tests: owners must allow them, and the operator accept them.
    options += ["--schedule", "every-round", "--owner-day", 100_000, "--accept-weak"]
    options += ["--shuffler-url", shuffler_url, "--fusion-url", fusion_url]
    options += ["--registrar-url", registrar_url]
    rase(capsys, "init", folder, *options)
    shuffler, fusion = folder / "shuffler/rase.toml", folder / "fusion/rase.toml"
    registrar = folder / "registrar/rase.toml"
    shorten_windows(registrar)
    servers = dict.fromkeys(("rase-shuffler", "rase-fusion", "rase-reader"), "hush")
    mosquitto = Mosquitto(tmp_path / "broker", servers, acl=True)
    url = mosquitto.broker().url
    for path, user in ((shuffler, "rase-shuffler"), (fusion, "rase-fusion")):
        write_private(path.parent / "broker-password", "hush")
        section = path.parent.name
        more = f'\n[{section}.mqtt]\nurl = "{url}"\nuser = "{user}"\n'
        path.write_text(path.read_text() + more + 'password_file = "broker-password"\n')
    seen: list[bytes] = []
    with ExitStack() as running:
        running.callback(mosquitto.kill)

        def start(name: str, *arguments: object) -> None:
            running.enter_context(program(tmp_path / f"{name}.log", *arguments))

        start("shuffler", "shuffler", "run", "--config", shuffler)
        start("fusion", "fusion", "run", "--config", fusion)
        start("registrar", "registrar", "run", "--config", registrar)
        until(lambda: all(map(answers, (shuffler_url, fusion_url, registrar_url))), logs=tmp_path)
        rase(capsys, "fusion", "publish-keys", folder / "fusion/keyset.json", "--config", fusion)
        rase(capsys, "campaign", "publish", folder / "fusion/campaign.toml", "--config", fusion)
        devices = [tmp_path / f"device-{number}" for number in range(DEVICES)]
        copied(folder, devices)
        enrol(capsys, folder, devices)
        for device in devices:
            # From now on there is no way to the shuffler but the broker.
            change(device / "device.toml", shuffler_url, url)
        database = open_sqlite(shuffler.parent / "shuffler.db", migrations="shuffler")
        mosquitto.set_users({**servers, **dict(broker_users(database))})
        database.close()
        mosquitto.stop()
        mosquitto.start()
        reader = mosquitto.broker("rase-reader", "hush").client("reader")
        reader.on_connect = lambda client, *_: client.subscribe("rase/+/estimate", 1)
        reader.on_message = lambda client, _, message: seen.append(bytes(message.payload))
        reader.connect("127.0.0.1", mosquitto.port)
        reader.loop_start()
        until(reader.is_connected)
        for device in devices:
            start(device.name, "device", "run", "--folder", device)
        until(lambda: any(json.loads(one)["n"] == DEVICES for one in seen), logs=tmp_path)
        reader.disconnect()
        reader.loop_stop()
