"""Files of the documentation site: those of the project, in the folders where they lie.

The pages link to each other, to figures and to files of the project as GitHub shows them. So they
keep their places in the site, and links need no change. A page for every room of the package shows
its docstrings, and the notebook is shown without its results.
"""

import json
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "data/examples/README.md"]
OTHERS = ["LICENSE", "docs/*.md", "metrics/plots/*.png", "examples/*.ipynb"]
ROOMS = {
    f"docs/rooms/{path.parent.name}.md": path.parent.name
    for path in sorted(ROOT.glob("geonode/*/__init__.py"))
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of the rooms after that of the interface."""
    for part in config.nav:
        part.get("Python", []).extend(ROOMS)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the files of the project in place of the folder docs/ alone."""
    found = Files([file for file in files if file.src_dir != config.docs_dir])  # of the theme
    for name in [*PAGES, *(str(p.relative_to(ROOT)) for glob in OTHERS for p in ROOT.glob(glob))]:
        found.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for notebook in ROOT.glob("examples/*.ipynb"):
        page = notebook.relative_to(ROOT).with_suffix(".md")
        found.append(File.generated(config, str(page), content=as_page(notebook)))
    for page, name in ROOMS.items():
        text = f"# {name}\n\n::: geonode.{name}\n    options: {{show_root_heading: false}}\n"
        found.append(File.generated(config, page, content=text))
    return found


def as_page(notebook: Path) -> str:
    """Cells of a notebook in Markdown."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]
    return "\n\n".join(f"```python\n{text}\n```" if code else text for text, code in texts)
