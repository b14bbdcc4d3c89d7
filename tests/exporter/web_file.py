"""A web configuration file for tests, and what a client sends because of it."""

from __future__ import annotations

import base64
from pathlib import Path

import bcrypt

PASSWORD = "correct horse: battery"


def hashed(password: str, cost: int = 4) -> str:
    """A bcrypt hash, under the name that htpasswd gives it."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode().replace("$2b$", "$2y$")


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def web_file(folder: Path, text: str) -> Path:
    path = folder / "web.yml"
    path.write_text(text)
    return path


def web(folder: Path, text: str) -> str:
    """The flag with a file of this text."""
    return f"--web.config.file={web_file(folder, text)}"
