"""Build the documentation as a site of plain files, and refuse one with a loose end.

Pages link to the files of `deploy/` beside `docs/`, so that they also lead somewhere where the
repository is read as it is: the site keeps both folders side by side. After the strict build every
address of every page is looked up, and none may be fetched from another host.
"""

import html
import re
import shutil
import subprocess
import sys
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
    built = subprocess.run([zensical, "build", "--clean", "--strict"], cwd=ROOT, check=False)
    if built.returncode:
        return built.returncode
    add_deploy_files()
    (SITE / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><title>RASE</title>'
        '<meta http-equiv="refresh" content="0; url=docs/index.html">'
        '<a href="docs/index.html">RASE</a>\n',
        encoding="utf-8",
    )
    wrong = loose_ends(SITE)
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        return 1
    print(f"Open {START.relative_to(ROOT)} in a browser.")
    return 0


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


def loose_ends(site: Path) -> list[str]:
    """Return a line for each address that leads nowhere or is fetched from another host."""
    wrong = []
    for page in sorted(site.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        fetched = {a or b for a, b in _FETCHED.findall(text)}
        for address in sorted(fetched | set(_LINKED.findall(text))):
            parts = urlsplit(html.unescape(address))
            if parts.scheme or parts.netloc:
                if address in fetched and parts.scheme != "data":
                    wrong.append(f"{page.relative_to(site)} fetches {address}")
            elif parts.path and not _exists(page, unquote(parts.path), site):
                wrong.append(f"{page.relative_to(site)} links to {address}, which is not there")
    return wrong


def _exists(page: Path, path: str, site: Path) -> bool:
    """Return whether an address within the site has a file, a folder by its index."""
    # The page of missing pages is served at any depth and so counts from the top.
    base = site / "docs" if path.startswith("/") else page.parent
    target = (base / path.lstrip("/")).resolve()
    if not target.is_relative_to(site.resolve()):
        return False
    return target.is_file() or (target / "index.html").is_file()


if __name__ == "__main__":
    sys.exit(main())
