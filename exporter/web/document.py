"""A YAML file in sections; every problem is collected, and every value is text: `no` and `007` stay as written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from exporter.config import nearest
from exporter.errors import ConfigError


def read_yaml(path: Path) -> Mapping[str, object]:
    """The mapping in a file.

    Raises:
        ConfigError: PyYAML is not installed, or this is no YAML. The message never holds text of the file, which
            may be a secret.
    """
    try:
        import yaml
    except ImportError as exc:
        raise ConfigError(f"{path}: PyYAML, which reads it, is missing: pip install 'gpu-minutes[web]'") from exc

    class Strict(yaml.BaseLoader):
        """Refuses a key that stands twice; YAML's own loaders take the last one."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value]
            if len(set(map(str, keys))) < len(keys):
                raise yaml.MarkedYAMLError(problem="a key stands twice in this mapping", problem_mark=node.start_mark)
            return super().construct_mapping(node, deep)

    try:
        found = yaml.load(path.read_text(encoding="utf-8"), Strict)
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: cannot be read: {getattr(exc, 'strerror', None) or 'not UTF-8'}") from exc
    except yaml.MarkedYAMLError as exc:
        line = "" if exc.problem_mark is None else f"line {exc.problem_mark.line + 1}: "
        raise ConfigError(f"{path}: {line}{exc.problem}") from exc
    except yaml.YAMLError as exc:
        raise ConfigError(f"{path}: holds a letter that YAML does not allow") from exc
    if found in (None, ""):
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: is no mapping of names to values")
    return found


class Section:
    """One mapping of the file. A name that was never asked for is unknown, and `finish` says so.

    Args:
        values: the mapping.
        where: how messages call it.
        problems: collects "WHERE.NAME: reason".
    """

    def __init__(self, values: Mapping[str, object], where: str, problems: list[str]) -> None:
        self._values = values
        self._where = where
        self._problems = problems
        self._asked: set[str] = set()

    @property
    def names(self) -> list[str]:
        """All names, for a section in which any name is right."""
        return [str(name) for name in self._values]

    def problem(self, name: str, reason: str) -> None:
        """Takes down what is wrong with a value."""
        self._problems.append(f"{self.path(name)}: {reason}")

    def path(self, name: str) -> str:
        """How messages call a value."""
        return f"{self._where}{name}"

    def _get(self, name: str) -> object:
        self._asked.add(name)
        return self._values.get(name, "")

    def text(self, name: str) -> str:
        """A value, "" where there is none."""
        found = self._get(name)
        if isinstance(found, str):
            return found
        self.problem(name, "must be one value")
        return ""

    def words(self, name: str) -> list[str]:
        """A list of values, [] where there is none."""
        found = self._get(name) or []
        if isinstance(found, list) and all(isinstance(item, str) for item in found):
            return found
        self.problem(name, "must be a list")
        return []

    def flag(self, name: str, default: bool) -> bool:
        """A yes or no."""
        found = self.text(name)
        if found not in ("", "true", "false"):
            self.problem(name, f"{found!r} is neither true nor false")
        return found == "true" if found else default

    def section(self, name: str) -> Section:
        """A mapping within, empty where there is none."""
        found = self._get(name) or {}
        if not isinstance(found, dict):
            self.problem(name, "must be a mapping of names to values")
            found = {}
        return Section(found, f"{self.path(name)}.", self._problems)

    def among(self, name: str, value: str, known: Collection[str]) -> bool:
        """Whether a value is one of the known ones; takes it down as a problem if not."""
        if value in known:
            return True
        self.problem(name, f"{value!r} is not known; {nearest(value, known, 'there are ' + ', '.join(known))}")
        return False

    def finish(self) -> None:
        """Takes down every name that nobody asked for."""
        for name in self.names:
            if name not in self._asked:
                todo = nearest(name, self._asked, f"there are {', '.join(sorted(self._asked))}")
                self.problem(name, f"there is no such key; {todo}")
