"""The manifests deny what the servers do not need, and hand keys over as the servers want them."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from scripts.sbom import locked
from tests.cases import each_case

import rase
from rase.wire.private_files import read_private

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kubernetes"
FILES = ("shuffler.yaml", "fusion.yaml", "registrar.yaml")


def deployments() -> dict[str, str]:
    """Return the text of every deployment by its name."""
    parts = [part for name in FILES for part in (FOLDER / name).read_text("utf-8").split("---\n")]
    return {
        re.findall(r"^  name: (\S+)$", part, re.MULTILINE)[0]: part
        for part in parts
        if "\nkind: Deployment\n" in part
    }


@each_case("name", ["shuffler-intake", "shuffler-closer", "fusion", "registrar"])
def test_a_server_gets_only_what_it_needs(name: str) -> None:
    """Not root, nothing to write to, no rights, no account of the cluster."""
    text = deployments()[name]
    containers = text.count("          image: ")
    for line in ("readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false", "drop: [ALL]"):
        assert text.count(line) == containers, line
    assert "runAsNonRoot: true" in text
    assert "runAsUser: 10001" in text
    assert "automountServiceAccountToken: false" in text
    for image in re.findall(r"image: (\S+)", text):
        assert image.endswith(f":{rase.__version__}"), image


def test_the_part_that_the_network_reaches_has_no_key() -> None:
    """The intake mounts no secret of keys; each server that signs does, its own alone."""
    found = deployments()
    assert "secretName" not in found["shuffler-intake"]
    assert "/etc/rase/keys" not in found["shuffler-intake"]
    assert "secretName: shuffler-keys" in found["shuffler-closer"]
    assert "containerPort" not in found["shuffler-closer"]
    for name in ("fusion", "registrar"):
        assert re.findall("secretName: (.*)", found[name]) == [f"{name}-keys"]
    for name in FILES:
        text = (FOLDER / name).read_text("utf-8")
        assert "kind: Secret" not in text
        assert "kind: NetworkPolicy" in text


@pytest.mark.parametrize("name", ["shuffler-closer", "fusion", "registrar"])
def test_keys_arrive_as_files_of_the_server(name: str, tmp_path: Path) -> None:
    """The first container copies what Kubernetes mounts by links into files for the owner only."""
    (script,) = re.findall(r'"-euc", "(.*?)"\]', deployments()[name])
    secret, keys = tmp_path / "secret", tmp_path / "keys"
    for folder in (secret / "..data", keys):
        folder.mkdir(parents=True)
    (secret / "..data/signing.key").write_text("made up\n", encoding="ascii")
    (secret / "..data/signing.key").chmod(0o440)
    (secret / "signing.key").symlink_to("..data/signing.key")
    with pytest.raises(PermissionError, match="must be for its owner only"):
        read_private(secret / "signing.key")
    moved = script.replace("/run/secret", str(secret)).replace("/etc/rase/keys", str(keys))
    assert moved != script
    subprocess.run(["/bin/sh", "-euc", moved], check=True, env=dict(os.environ))
    assert read_private(keys / "signing.key") == "made up\n"


def test_the_images_can_use_postgresql() -> None:
    """What the images install holds the driver that the manifests need."""
    assert "psycopg" in {name for name, _, _ in locked("server")}
