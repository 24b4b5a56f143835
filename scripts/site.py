"""Build the documentation as a site of plain files, and refuse one with a loose end.

Pages link to the files of `deploy/` beside `docs/`, so that they also lead somewhere where the
repository is read as it is: the site keeps both folders side by side. After the strict build every
address of every page is looked up, and none may be fetched from another host.

Addresses are settings, because the sources name none: RASE_SITE_URL, where the site will be, gives
it a sitemap; RASE_REPOSITORY_URL a link to the repository.

    python scripts/site.py v0.2.0 v0.3.0

builds the documentation of these commits instead, each below its own name, with a page that lists
them; the newest is what the site opens with.
"""

import argparse
import html
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import api_pages, notebooks

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build/site"
START = SITE / "docs/index.html"
# What a browser fetches by itself; a link that a reader may follow is not among them.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=\"([^\"]*)\""
    r"|<link\b[^>]*?\brel=\"(?:stylesheet|preconnect|preload|modulepreload|icon)\"[^>]*?\bhref=\"([^\"]*)\"",
)
# Stands in pages for the way to the list of versions, until all of them are built.
_VERSIONS = "rase:versions"
_NAME = re.compile(r"[\w.+-]+")
_LINKED = re.compile(r"<a\b[^>]*?\bhref=\"([^\"]*)\"")


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site and print where it is, or what is wrong with it."""
    parser = argparse.ArgumentParser(description="Build the documentation as a site.")
    parser.add_argument("versions", nargs="*", metavar="TAG", help="commits; the files at hand")
    tags = parser.parse_args(arguments).versions
    shutil.rmtree(SITE, ignore_errors=True)
    if not tags:
        return build(ROOT, SITE)
    for tag in tags:
        with tempfile.TemporaryDirectory() as folder:
            checkout(tag, Path(folder))
            code = build(Path(folder), SITE / version_of(tag), version_of(tag))
            if code:
                return code
    add_list_of_versions(SITE, [version_of(tag) for tag in tags])
    print(f"Open {(SITE / 'versions.html').relative_to(ROOT)} in a browser.")
    return 0


def build(root: Path, site: Path, version: str = "") -> int:
    """Build the documentation of a folder of sources, and return 0 if nothing is wrong with it.

    Args:
        root: The sources.
        site: Where the site goes.
        version: Its name among others; its pages link to the list of all then.
    """
    zensical = Path(sys.executable).with_name("zensical")
    site_url = os.environ.get("RASE_SITE_URL", "")
    if site_url and version:
        site_url = f"{site_url.rstrip('/')}/{version}"
    added = extra_settings(site_url, os.environ.get("RASE_REPOSITORY_URL", ""))
    if version:
        added += f'copyright: RASE {version}, <a href="{_VERSIONS}">all versions</a>\n'
    with tempfile.TemporaryDirectory() as folder:
        # A copy, to which the pages are added that are made of the sources.
        copy = Path(folder)
        shutil.copytree(root / "docs", copy / "docs")
        api_pages.write_pages(root, copy)
        notebooks.write_pages(root, copy)
        settings = api_pages.navigation((root / "mkdocs.yml").read_text("utf-8"))
        settings = notebooks.navigation(settings, root) + added
        (copy / "mkdocs.yml").write_text(settings, encoding="utf-8")
        command = [str(zensical), "build", "--clean", "--strict", "--config-file", "mkdocs.yml"]
        built = subprocess.run(command, cwd=copy, check=False)
        if built.returncode:
            return built.returncode
        shutil.copytree(copy / "build/site", site)
    add_deploy_files(root, site)
    (site / "docs/sitemap.xml").unlink(missing_ok=True)
    if site_url:
        (site / "sitemap.xml").write_text(sitemap(site, site_url), encoding="utf-8")
    (site / "index.html").write_text(_redirect("docs/index.html"), encoding="utf-8")
    wrong = loose_ends(site, f"{urlsplit(site_url).path.rstrip('/')}/docs/" if site_url else "/")
    for line in wrong:
        print(line, file=sys.stderr)
    if not version and not wrong:
        print(f"Open {START.relative_to(ROOT)} in a browser.")
    return 1 if wrong else 0


def checkout(tag: str, folder: Path) -> None:
    """Put the files of a commit into a folder.

    Raises:
        SystemExit: If there is no such commit, or its documentation is not in it.
    """
    packed = subprocess.run(
        ["git", "archive", "--", tag],  # noqa: S607 - the git of whoever publishes
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if packed.returncode or not _NAME.fullmatch(tag):
        raise SystemExit(f"site: error: versions must be tags of this repository, got {tag!r}.")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    if not (folder / "mkdocs.yml").is_file():
        raise SystemExit(f"site: error: {tag} must have a mkdocs.yml, and has none.")


def version_of(tag: str) -> str:
    """Return what a tag is called: v0.2.0 is 0.2.0."""
    return tag[1:] if re.match(r"v\d", tag) else tag


def newest_first(versions: Sequence[str]) -> list[str]:
    """Return versions by their numbers, the largest first; names without any come last."""
    return sorted(
        versions,
        key=lambda name: (name[:1].isdigit(), [int(part) for part in re.findall(r"\d+", name)]),
        reverse=True,
    )


def add_list_of_versions(site: Path, versions: Sequence[str]) -> None:
    """List all versions, open with the newest, and link to the list from every page.

    Args:
        site: The folder that holds a folder of each.
        versions: Their names.
    """
    ordered = newest_first(versions)
    items = "".join(f'<li><a href="{one}/docs/index.html">{one}</a></li>' for one in ordered)
    (site / "versions.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>RASE: all versions</title>'
        f"<h1>RASE: all versions</h1><ul>{items}</ul></html>\n",
        encoding="utf-8",
    )
    (site / "index.html").write_text(_redirect(f"{ordered[0]}/docs/index.html"), encoding="utf-8")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if _VERSIONS in text:
            link = os.path.relpath(site / "versions.html", page.parent)
            page.write_text(text.replace(_VERSIONS, link), encoding="utf-8")


def _redirect(address: str) -> str:
    return (
        '<!doctype html><meta charset="utf-8"><title>RASE</title>'
        f'<meta http-equiv="refresh" content="0; url={address}">'
        f'<a href="{address}">RASE</a>\n'
    )


def extra_settings(site_url: str, repository_url: str) -> str:
    """Return the lines of settings for addresses that are known; none without any.

    Args:
        site_url: Where the site will be, or nothing.
        repository_url: Where the sources are, or nothing.
    """
    named = {"RASE_SITE_URL": site_url, "RASE_REPOSITORY_URL": repository_url}
    for name, address in named.items():
        if address and not re.fullmatch(r"https?://[\w.:/~-]+", address):
            raise SystemExit(f"site: error: {name} must be an address of the web, got {address!r}.")
    lines = [f"site_url: {site_url.rstrip('/')}/docs/\n"] if site_url else []
    lines += [f"repo_url: {repository_url}\n"] if repository_url else []
    return "".join(lines)


def sitemap(site: Path, site_url: str) -> str:
    """Return the list of all pages of the documentation for search engines, sorted."""
    pages = sorted(path for path in (site / "docs").rglob("*.html") if path.name != "404.html")
    base = site_url.rstrip("/")
    lines = [f"<url><loc>{base}/{page.relative_to(site).as_posix()}</loc></url>" for page in pages]
    return "\n".join(
        (
            '<?xml version="1.0" encoding="UTF-8"?>',
            '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">',
            *lines,
            "</urlset>\n",
        )
    )


def add_deploy_files(root: Path, site: Path) -> None:
    """Put the files one deploys beside the pages, with a list in each folder."""
    shutil.copytree(root / "deploy", site / "deploy")
    for folder in [site / "deploy", *(p for p in (site / "deploy").rglob("*") if p.is_dir())]:
        names = [p.name + "/" * p.is_dir() for p in sorted(folder.iterdir())]
        items = "".join(f'<li><a href="{html.escape(n)}">{html.escape(n)}</a></li>' for n in names)
        title = html.escape(str(folder.relative_to(site)))
        (folder / "index.html").write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
            f"<h1>{title}</h1><ul>{items}</ul></html>\n",
            encoding="utf-8",
        )


def loose_ends(site: Path, top: str = "/") -> list[str]:
    """Return a line for each address that leads nowhere or is fetched from another host.

    Args:
        site: The folder of the site.
        top: The path under which its pages will be served.
    """
    wrong = []
    for page in sorted(site.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        fetched = {a or b for a, b in _FETCHED.findall(text)}
        for address in sorted(fetched | set(_LINKED.findall(text))):
            parts = urlsplit(html.unescape(address))
            if parts.scheme or parts.netloc:
                if address in fetched and parts.scheme != "data":
                    wrong.append(f"{page.relative_to(site)} fetches {address}")
            elif parts.path and not _exists(page, unquote(parts.path), site, top):
                wrong.append(f"{page.relative_to(site)} links to {address}, which is not there")
    return wrong


def _exists(page: Path, path: str, site: Path, top: str) -> bool:
    """Return whether an address within the site has a file, a folder by its index."""
    # The page of missing pages is served at any depth and so counts from the top.
    base = site / "docs" if path.startswith(top) else page.parent
    target = (base / path.removeprefix(top)).resolve()
    if not target.is_relative_to(site.resolve()):
        return False
    return target.is_file() or (target / "index.html").is_file()


if __name__ == "__main__":
    sys.exit(main())
