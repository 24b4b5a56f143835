"""Build the documentation as a site of plain files, and refuse one with a loose end.

Pages link to the files of `deploy/` beside `docs/`, so that they also lead somewhere where the
repository is read as it is: the site keeps both folders side by side. After the strict build every
address of every page is looked up, and none may be fetched from another host.

Addresses are settings, because the sources name none: RASE_SITE_URL, where the site will be, gives
it a sitemap; RASE_REPOSITORY_URL a link to the repository.
"""

import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build/site"
START = SITE / "docs/index.html"
# What a browser fetches by itself; a link that a reader may follow is not among them.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=\"([^\"]*)\""
    r"|<link\b[^>]*?\brel=\"(?:stylesheet|preconnect|preload|modulepreload|icon)\"[^>]*?\bhref=\"([^\"]*)\"",
)
_LINKED = re.compile(r"<a\b[^>]*?\bhref=\"([^\"]*)\"")


def main() -> int:
    """Build the site and print where it is, or what is wrong with it."""
    shutil.rmtree(SITE, ignore_errors=True)
    zensical = Path(sys.executable).with_name("zensical")
    site_url = os.environ.get("RASE_SITE_URL", "")
    added = extra_settings(site_url, os.environ.get("RASE_REPOSITORY_URL", ""))
    # Paths in it count from its own folder.
    with tempfile.NamedTemporaryFile("w", suffix=".yml", dir=ROOT, encoding="utf-8") as file:
        file.write((ROOT / "mkdocs.yml").read_text("utf-8") + added)
        file.flush()
        command = [str(zensical), "build", "--clean", "--strict", "--config-file", file.name]
        built = subprocess.run(command, cwd=ROOT, check=False)
    if built.returncode:
        return built.returncode
    add_deploy_files()
    (SITE / "docs/sitemap.xml").unlink(missing_ok=True)
    if site_url:
        (SITE / "sitemap.xml").write_text(sitemap(SITE, site_url), encoding="utf-8")
    (SITE / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><title>RASE</title>'
        '<meta http-equiv="refresh" content="0; url=docs/index.html">'
        '<a href="docs/index.html">RASE</a>\n',
        encoding="utf-8",
    )
    wrong = loose_ends(SITE, f"{urlsplit(site_url).path.rstrip('/')}/docs/" if site_url else "/")
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        return 1
    print(f"Open {START.relative_to(ROOT)} in a browser.")
    return 0


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


def add_deploy_files() -> None:
    """Put the files one deploys beside the pages, with a list in each folder."""
    shutil.copytree(ROOT / "deploy", SITE / "deploy")
    for folder in [SITE / "deploy", *(p for p in (SITE / "deploy").rglob("*") if p.is_dir())]:
        names = [p.name + "/" * p.is_dir() for p in sorted(folder.iterdir())]
        items = "".join(f'<li><a href="{html.escape(n)}">{html.escape(n)}</a></li>' for n in names)
        title = html.escape(str(folder.relative_to(SITE)))
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
