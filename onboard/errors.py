"""Every refusal and every caution, one name each.

A refusal stops the run. It carries the path of the field, its value and what to do, and maps to one exit code.
A caution is a value in a result: tests assert on it, reports print it. Nothing here prints.
"""

from __future__ import annotations

from typing import Any, ClassVar

from onboard.values import Struct


class Refusal(Exception):
    """The input cannot be answered truthfully. `kind` is the class's name; `exit_code` is the contract's."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, *, path: str = "", value: object = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.value = value
        self.hint = hint

    @property
    def kind(self) -> str:
        return type(self).__name__

    def to_json(self) -> dict[str, Any]:
        value = self.value
        if value is not None and not isinstance(value, (str, int, float, bool)):
            value = repr(value)
        if isinstance(value, str) and len(value) > 200:
            value = value[:200] + "…"
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**63:
            value = f"an integer of {value.bit_length()} bits"
        return {"kind": self.kind, "path": self.path, "value": value, "message": self.message, "hint": self.hint}


# --- exit 2: the command line itself is wrong -----------------------------------------------------------------


class UsageError(Refusal, ValueError):
    """An option, card, engine or format that does not exist, or a knob the chosen engine does not have."""

    exit_code = 2


class UnknownCard(UsageError):
    """No card of that name is in the database."""


class UnknownEngine(UsageError):
    """No engine of that name has rules here."""


class UnknownKnob(UsageError):
    """The chosen engine has no such option."""


class UnknownKvFormat(UsageError):
    """No engine has a KV format of that name."""


# --- exit 3: the input cannot be read -------------------------------------------------------------------------


class NotJson(Refusal, ValueError):
    """The text is not JSON, is cut off, or is not UTF-8."""


class DuplicateKey(Refusal, ValueError):
    """One key stands twice in one mapping."""


class TooLarge(Refusal, ValueError):
    """A file, array, number or nesting beyond the bound that real files keep."""


class NotAMapping(Refusal, TypeError):
    """The top of the file is not a mapping."""


class BadGguf(Refusal, ValueError):
    """Not a GGUF file this reader can trust: magic, version, byte order, or cut off."""


class BadHeader(Refusal, ValueError):
    """A safetensors header whose length, offsets or entries cannot be true."""


class BadYaml(Refusal, ValueError):
    """A YAML file that does not parse under the strict loader."""


class NotWritable(Refusal, OSError):
    """The catalogue cannot be written."""


class UnsafePath(Refusal, ValueError):
    """A path that leaves the folder it belongs to."""


# --- exit 3: the config cannot be derived ---------------------------------------------------------------------


class FieldMissing(Refusal, KeyError):
    """A field that the layout needs is in neither the file nor the class's defaults."""

    def __str__(self) -> str:
        return self.message


class FieldInvalid(Refusal, ValueError):
    """A field whose type, sign or size cannot be true."""


class LayerCountMismatch(Refusal, ValueError):
    """A per-layer list whose length is not the number of layers."""


class UnknownLayerKind(Refusal, ValueError):
    """A layer type or pattern character that no rule knows."""


class WindowMissing(Refusal, ValueError):
    """Layers slide, but no window is stated."""


class UnknownArchitecture(Refusal, ValueError):
    """Fields that change the cache stand in the config and no rule reads them."""


class WeightsUnknown(Refusal, ValueError):
    """No header, index, listing, parameter count or option gives the weights."""


class WeightsDisagree(Refusal, ValueError):
    """Tensor shapes contradict the config."""


class MissingShard(Refusal, ValueError):
    """The index names a file that is not there, or a file stands outside the index."""


# --- exit 3: the catalogue --------------------------------------------------------------------------------------


class BadProfile(Refusal, ValueError):
    """A profile file that does not hold what its schema says."""


class BadOverride(Refusal, ValueError):
    """An override that is malformed, names an unknown path, or conflicts with another."""


class BadAnchor(Refusal, ValueError):
    """An anchor with missing flags or figures that cannot be what was printed."""


class BadLog(Refusal, ValueError):
    """A log with no line of any known engine, or one that is binary."""


class UnknownModel(Refusal, LookupError):
    """Nothing in the catalogue and nothing on disk goes by that name."""


# --- exit 3: the repository was reached and has no answer -------------------------------------------------------


class ConfigMissing(Refusal, FileNotFoundError):
    """The repository or folder has no config.json, params.json or .gguf."""


# --- exit 4: the source cannot be reached, or needs a token -----------------------------------------------------


class Unreachable(Refusal, OSError):
    """The source cannot be reached."""

    exit_code = 4


class GatedNeedsToken(Unreachable):
    """The repository is gated: accept its terms and give a token."""


class RepoNotFound(Unreachable):
    """No such repository, or a private one without a token."""


class RevisionNotFound(Unreachable):
    """The repository has no such revision."""


class HubUnavailable(Unreachable):
    """The Hub answered with an error or not at all."""


class OfflineMiss(Unreachable):
    """Offline mode is on and the file is not in the cache."""


class Caution(Struct, frozen=True):
    """Something a reader must know that does not stop the run. `kind` is in kebab-case."""

    kind: str
    where: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"kind": self.kind, "where": self.where, "message": self.message}
