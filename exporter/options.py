"""Where a setting comes from: the flag before the environment, that before the file, that before the default.

Nothing that looks like a setting of ours is passed over: an unknown key or variable is an error that names the
nearest known one, and all problems of the environment and the file are told at once.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from exporter.collector import Collector
from exporter.config import COMMON, Option, Settings, nearest, optional_path, switch
from exporter.errors import ConfigError
from exporter.logs import LOG_FORMAT, LOG_LEVEL
from exporter.server import LISTEN, TELEMETRY_PATH
from exporter.web.config import WEB_CONFIG

CONFIG_FILE = optional_path("config.file", "settings in TOML; a flag and a variable go before it", "FILE")
PREFIX = "GPU_MINUTES_EXPORTER_"

# Kubernetes puts these into every container beside a Service named gpu-minutes-exporter (its "environment variables"
# way of discovery, with the Docker links of old); they are no settings of anyone.
_SERVICE_LINK = re.compile(r"SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?")


class Chosen(NamedTuple):
    """The value of a setting, and where it came from: "flag", "environment NAME", "file PATH" or "default"."""

    value: object
    source: str


def all_options(collectors: Mapping[str, type[Collector]]) -> tuple[Option[Any], ...]:
    """Every option: the common ones, then for each collector its switch and its own."""
    found: list[Option[Any]] = [CONFIG_FILE, LISTEN, TELEMETRY_PATH, WEB_CONFIG, LOG_LEVEL, LOG_FORMAT, *COMMON]
    for name, collector in collectors.items():
        found.append(enabled(name, collector))
        found.extend(collector.options)
    return tuple(found)


@cache
def enabled(name: str, collector: type[Collector]) -> Option[bool]:
    """The switch of a collector."""
    return switch(f"collector.{name}", collector.enabled, f"run the {name} collector")


def variable(option: Option[Any]) -> str:
    """Its environment variable: `GPU_MINUTES_EXPORTER_COLLECTOR_NVML_INTERVAL`."""
    return PREFIX + re.sub(r"[.-]", "_", option.name).upper()


def choose(
    flags: Mapping[str, object], environ: Mapping[str, str], options: Sequence[Option[Any]]
) -> dict[Option[Any], Chosen]:
    """The value and the source of every option.

    Args:
        flags: parsed values by option name, None where the flag was not given.
        environ: the environment.
        options: every option there is.

    Raises:
        ConfigError: a variable or a key is unknown or has a bad value; one line for each.
    """
    problems: list[str] = []
    chosen = {option: Chosen(option.default, "default") for option in options}
    flagged = {option: flags.get(option.name) for option in options}
    given = {o: Chosen(_repeated(v) if o.many else v, "flag") for o, v in flagged.items() if v is not None}
    variables = dict(_read_environment(environ, options, problems))
    path = (given | variables).get(CONFIG_FILE)
    if path is not None:
        assert isinstance(path.value, Path)
        chosen.update(_read_file(path.value, options, problems))
    if problems:
        raise ConfigError("\n".join(problems))
    return chosen | variables | given


def as_settings(chosen: Mapping[Option[Any], Chosen]) -> Settings:
    """The values alone."""
    return Settings({option: value for option, (value, _) in chosen.items()})


def _repeated(value: object) -> tuple[object, ...]:
    """What a flag that may be repeated has gathered."""
    assert isinstance(value, list | tuple)
    return tuple(value)


def _read_environment(
    environ: Mapping[str, str], options: Iterable[Option[Any]], problems: list[str]
) -> Iterator[tuple[Option[Any], Chosen]]:
    """What the variables say; a blank one is unset, as in the rest of GPU Minutes."""
    by_variable = {variable(option): option for option in options}
    for name, text in sorted(environ.items()):
        if not name.startswith(PREFIX) or _SERVICE_LINK.fullmatch(name.removeprefix(PREFIX)):
            continue
        option = by_variable.get(name)
        if option is None:
            problems.append(f"{name}: there is no such setting; {nearest(name, by_variable, 'unset it')}")
        elif text:
            try:
                yield option, Chosen(option.parse(text), f"environment {name}")
            except ValueError as exc:
                problems.append(f"{name}: {exc}")


def _read_file(path: Path, options: Iterable[Option[Any]], problems: list[str]) -> Iterator[tuple[Option[Any], Chosen]]:
    by_name = {option.name: option for option in options}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        problems.append(f"{path}: cannot be read: {getattr(exc, 'strerror', None) or exc}")
        return
    except tomllib.TOMLDecodeError as exc:
        problems.append(f"{path}: is not TOML: {exc}")
        return
    seen: set[Option[Any]] = set()
    for key, value in _leaves(document):
        option = by_name.get(key)
        switched = by_name.get(key.removesuffix(".enabled"))
        if option is None and switched is not None and not switched.metavar:
            option = switched  # in TOML a table cannot be a value too: [collector.nvml] enabled = false
        if option is CONFIG_FILE:
            problems.append(f"{path}: {key}: a file cannot name another; use the flag or the variable")
        elif option is None:
            todo = nearest(key, by_name.keys() - {CONFIG_FILE.name}, "--config.show lists what there is")
            problems.append(f"{path}: {key}: there is no such setting; {todo}")
        elif option in seen:
            problems.append(f"{path}: {key}: given twice; keep one")
        else:
            seen.add(option)
            try:
                yield option, Chosen(option.parse(_as_text(option, value)), f"file {path}")
            except ValueError as exc:
                problems.append(f"{path}: {key}: {exc}")


def _leaves(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Dotted names and values, whether they are written as nested tables or as quoted keys."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _as_text(option: Option[Any], value: object) -> str:
    """A value of the file as the flag would have it; raises ValueError where TOML's type makes no sense."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        if not option.metavar:
            return "true" if value else "false"
    elif isinstance(value, int | float):
        if option.number:
            return str(value)
    elif isinstance(value, list) and option.many and all(isinstance(item, str) for item in value):
        return ",".join(value)
    wanted = option.metavar or "true or false"
    raise ValueError(f"{value!r} is not {wanted}{' in quotes' if option.metavar and not option.number else ''}")


def show(chosen: Mapping[Option[Any], Chosen]) -> str:
    """Every setting, its value and its source, as a file that `--config.file` takes."""
    lines = []
    for option, (value, source) in chosen.items():
        if option is CONFIG_FILE:
            lines.append(f"# {option.name} = {_toml(value)}  # {source}")
        elif value is None:
            lines.append(f"# {option.name} is not set  # {source}")
        else:
            # A collector's own switch has settings below it, or may get some: see _read_file.
            name = f"{option.name}.enabled" if not option.metavar and option.name.count(".") == 1 else option.name
            lines.append(f"{name} = {_toml(value)}  # {source}")
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if value is None:
        return "(not set)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(str(value), ensure_ascii=False)  # TOML's basic strings have the escapes of JSON
