"""The JSON schemas beside a user's catalogue: line 1 of its files names them there, and they move along with it."""

from __future__ import annotations

from pathlib import Path

from onboard.catalog_paths import shipped
from onboard.yamlio import read_text, write_atomic


def keep_schemas(root: Path) -> None:
    """Bring `root`/schema up to the shipped schemas. Other files in it are left alone. Raises NotWritable."""
    for source in sorted(shipped("schema").glob("*.schema.json")):
        target, text = root / "schema" / source.name, read_text(source)
        if not target.is_file() or (not target.samefile(source) and read_text(target) != text):
            write_atomic(target, text)
