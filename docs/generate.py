"""Write the pages of all losses, miners and uncertainty sets, and the page that lists them; `make docs` runs it.

The pages are committed: tests/docs/test_pages.py fails if one of them is out of date.
"""

from pathlib import Path

from docs.pages import FOLDERS, all_pages


def main() -> None:
    """Write the pages, and remove those of components that no longer exist."""
    docs = Path(__file__).parent
    texts = all_pages()
    for folder in FOLDERS.values():
        (docs / folder).mkdir(exist_ok=True)
        for path in (docs / folder).glob("*.md"):
            if f"{folder}/{path.name}" not in texts:
                path.unlink()
    for name, text in texts.items():
        (docs / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
