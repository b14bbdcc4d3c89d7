"""What a server of series wants to see with every request: a token, a tenant; read from files, never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from warehouse.errors import BadInput

# The characters of a header's name (RFC 9110, section 5.6.2), and those that a value may safely hold.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x20-\x7e]+")


@dataclass(frozen=True, slots=True)
class Access:
    """Where the credentials are.

    Attributes:
        token_file: holds a bearer token alone.
        headers_file: holds `Name: value` lines; blank lines and those that begin with `#` are passed over.
    """

    token_file: Path | None = None
    headers_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """Reads the files anew, since tokens are rotated under a running program.

        Raises:
            BadInput: for a file that cannot be read or used; the message holds nothing of what it says.
        """
        found = {} if self.headers_file is None else _headers(self.headers_file)
        if self.token_file is not None:
            if "authorization" in found:
                raise BadInput(
                    f"{self.headers_file}: has an Authorization beside the token of {self.token_file}; keep one"
                )
            token = _read(self.token_file).strip()
            if not _VALUE.fullmatch(token) or " " in token:
                raise BadInput(f"{self.token_file}: is not one token in one line; write the token alone into it")
            found["authorization"] = f"Bearer {token}"
        return found


def _headers(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise BadInput(f"{path} line {number}: is no header; write it as Name: value")
        if name in found:
            raise BadInput(f"{path} line {number}: names a header for the second time; keep one")
        found[name] = value
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        raise BadInput(f"{path}: cannot be read: {exc.strerror}; correct the path or its rights") from exc
    except UnicodeDecodeError as exc:
        raise BadInput(f"{path}: is not UTF-8 text; write it anew") from exc
