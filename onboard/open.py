"""SOURCE -> Profile: a catalogue id, else whatever `sources` can open. What `from onboard import ...` gives."""

from __future__ import annotations

from onboard.profile import Profile


def load_profile(source: str, *, catalog: str | None = None) -> Profile:
    """The effective profile of a catalogue id, else derived in memory from a path or the Hub. Raises a Refusal."""
    from onboard import catalog as catalogue

    if catalogue.find(source, catalog) is not None:
        return catalogue.effective(source, catalog)
    from onboard.read import read_source

    return read_source(source)


def inspect(source: str, *, catalog: str | None = None) -> Profile:
    """As `load_profile`: what there is to say about a source. `.to_json()` is the contract's dictionary."""
    return load_profile(source, catalog=catalog)
