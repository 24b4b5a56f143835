"""The documentation as a site: it builds strictly, holds every page, and has no loose end."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/site.py"


def test_the_site_builds_strictly_and_every_address_leads_somewhere() -> None:
    """`make docs` succeeds: no broken link within a page, none between pages and deploy files."""
    built = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    # What it prints is there, is the first page, and its links lead to pages without a server.
    (named,) = re.findall(r"Open (\S+) in a browser", built.stdout)
    start = (ROOT / named).read_text("utf-8")
    assert "Ten questions people ask first" in start
    inside = [one for one in re.findall(r'<a [^>]*href="([^"#:]+)"', start) if one != "."]
    assert len(inside) > 50
    for one in inside:
        assert (ROOT / named).parent.joinpath(one).is_file(), one
    first = (ROOT / "build/site/index.html").read_text("utf-8")
    assert "url=docs/index.html" in first


def test_addresses_are_settings(tmp_path: Path) -> None:
    """Without any none is added; with one the sitemap lists every page but that of missing ones."""
    site = runpy.run_path(str(SCRIPT))
    assert site["extra_settings"]("", "") == ""
    added = site["extra_settings"]("https://docs.example/rase/", "https://forge.example/rase")
    assert (
        added == "site_url: https://docs.example/rase/docs/\nrepo_url: https://forge.example/rase\n"
    )
    with pytest.raises(SystemExit, match="RASE_SITE_URL must be an address of the web"):
        site["extra_settings"]("docs.example\nnav: []", "")
    for name in ("index.html", "guides/device.html", "404.html"):
        page = tmp_path / "docs" / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
    found = re.findall("<loc>(.*?)</loc>", site["sitemap"](tmp_path, "https://docs.example/rase/"))
    base = "https://docs.example/rase/docs"
    assert found == [f"{base}/guides/device.html", f"{base}/index.html"]


@pytest.mark.needs("git")
def test_a_site_of_versions_holds_each_and_a_list_of_all() -> None:
    """Commits are built below their names; every page links to the list, from any depth.

    With addresses, which are settings: pages know their own and link to the sources.
    """
    addresses = {
        "RASE_SITE_URL": "https://docs.example/rase",
        "RASE_REPOSITORY_URL": "https://forge.example/o/rase",
    }
    built = subprocess.run(
        [sys.executable, SCRIPT, "HEAD"],
        cwd=ROOT,
        env={**os.environ, **addresses},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "Open build/site/versions.html in a browser." in built.stdout
    site = ROOT / "build/site"
    assert 'href="HEAD/docs/index.html"' in (site / "versions.html").read_text("utf-8")
    for name, link in (
        ("index.html", "../../versions.html"),
        ("guides/device.html", "../../../versions.html"),
    ):
        text = (site / "HEAD/docs" / name).read_text("utf-8")
        assert f'<a href="{link}">all versions</a>' in text
        assert "rase:versions" not in text
        address = f"https://docs.example/rase/HEAD/docs/{name}"
        assert f'<link rel="canonical" href="{address}"' in text
        assert 'href="https://forge.example/o/rase"' in text
        assert f"<loc>{address}</loc>" in (site / "HEAD/sitemap.xml").read_text("utf-8")
    assert (site / "HEAD/deploy/index.html").is_file()


def test_the_newest_version_opens(tmp_path: Path) -> None:
    """Numbers are compared as numbers, and names without any come last."""
    site = runpy.run_path(str(SCRIPT))
    versions = [site["version_of"](tag) for tag in ("main", "v0.2.0", "v0.10.0", "v0.3.1")]
    assert site["newest_first"](versions) == ["0.10.0", "0.3.1", "0.2.0", "main"]
    site["add_list_of_versions"](tmp_path, versions)
    assert "url=0.10.0/docs/index.html" in (tmp_path / "index.html").read_text("utf-8")
    listed = re.findall(r'href="(.*?)"', (tmp_path / "versions.html").read_text("utf-8"))
    assert listed == [f"{one}/docs/index.html" for one in ("0.10.0", "0.3.1", "0.2.0", "main")]


@pytest.mark.needs("git")
def test_a_version_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Of one line, and nothing is made of a name that git would read as an option."""
    site = runpy.run_path(str(SCRIPT))
    for tag in ("v99.0.0", "--output=x"):
        with pytest.raises(SystemExit, match="must be tags of this repository, got"):
            site["checkout"](tag, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_every_page_is_in_the_navigation() -> None:
    """A page that nobody could find by browsing fails the build."""
    listed = re.findall(r":\s(\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}
    assert sorted(listed) == sorted(pages)


LOOSE_ENDS = {
    '<a href="gone/">x</a>': "links to gone/, which is not there",
    '<a href="../../secret">x</a>': "links to ../../secret, which is not there",
    '<img alt="" src="gone.png">': "links to gone.png, which is not there",
    '<script src="https://cdn.example/x.js"></script>': "fetches https://cdn.example/x.js",
    '<link rel="preconnect" href="https://f.example">': "fetches https://f.example",
}


def test_a_loose_end_is_found(tmp_path: Path) -> None:
    """An address without a file, or one fetched from elsewhere, is named with its page."""
    (tmp_path / "docs").mkdir()
    loose_ends = runpy.run_path(str(SCRIPT))["loose_ends"]
    for body, complaint in LOOSE_ENDS.items():
        (tmp_path / "docs/index.html").write_text(body, encoding="utf-8")
        assert loose_ends(tmp_path) == [f"docs/index.html {complaint}"]


def test_sound_addresses_are_not_complained_of(tmp_path: Path) -> None:
    """Pages, files, places within a page, data and links to other sites are sound."""
    (tmp_path / "docs/guides").mkdir(parents=True)
    (tmp_path / "docs/guides/index.html").write_text("<h1 id=top>x</h1>", encoding="utf-8")
    (tmp_path / "docs/index.html").write_text(
        '<a href="guides/#top">a</a><a href="#x">b</a><a href="https://example.org">c</a>'
        '<img alt="" src="data:image/png;base64,AA"><a href="/guides/">d</a>',
        encoding="utf-8",
    )
    assert runpy.run_path(str(SCRIPT))["loose_ends"](tmp_path) == []
