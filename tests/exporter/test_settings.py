"""Where settings come from: flag before environment before file before default, for every one of them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from exporter.collectors import discover
from exporter.config import Option, Settings
from exporter.errors import ConfigError
from exporter.options import CONFIG_FILE, PREFIX, all_options, as_settings, choose, show, variable
from tests.exporter.harness import environment, run_exporter

OPTIONS = all_options(discover())
IN_FILE = [option for option in OPTIONS if option is not CONFIG_FILE]
BARE = environment(None, None)
_TEXTS = ("true", "false", "7", "8", "9", "0.5", "70", "500", "501", "502", "/a", "/b", "/c", ":1", ":2", ":3")


def texts(option: Option[Any]) -> list[str]:
    """Valid texts of an option, all of other values than its default; of a switch, that is one."""
    found = []
    for text in (*_TEXTS, *option.metavar.split("|")):
        try:
            value = option.parse(text)
        except ValueError:
            continue
        if value != option.default:
            found.append(text)
    return found


def file_of(folder: Path, text: str) -> Path:
    path = folder / "exporter.toml"
    path.write_text(text)
    return path


def choose_with(
    environ: dict[str, str], path: Path | None = None, flags: dict[str, object] | None = None
) -> dict[Option[Any], tuple[object, str]]:
    """Value and source of every option."""
    given = {CONFIG_FILE.name: path} | (flags or {})
    return {option: tuple(found) for option, found in choose(given, environ, OPTIONS).items()}  # type: ignore[misc]


@pytest.mark.parametrize("option", IN_FILE, ids=lambda option: option.name)
def test_a_flag_goes_before_a_variable_before_the_file_before_the_default(option: Option[Any], tmp_path: Path) -> None:
    first, *more = texts(option)
    second = more[0] if more else str(option.default).lower()
    third = more[1] if len(more) > 1 else first
    path = file_of(tmp_path, f'"{option.name}" = "{first}"\n')
    environ = {variable(option): second}
    flags = {option.name: option.parse(third)}
    assert choose_with({})[option] == (option.default, "default")
    assert choose_with({}, path)[option] == (option.parse(first), f"file {path}")
    assert choose_with(environ, path)[option] == (option.parse(second), f"environment {variable(option)}")
    assert choose_with(environ, path, flags)[option] == (option.parse(third), "flag")
    assert choose_with({variable(option): ""})[option] == (option.default, "default")


def test_variables_and_names_are_unique_and_none_looks_like_a_service_link() -> None:
    assert len({variable(option) for option in OPTIONS}) == len({option.name for option in OPTIONS}) == len(OPTIONS)
    assert variable(next(o for o in OPTIONS if o.name == "collector.nvml.slow-interval")) == (
        "GPU_MINUTES_EXPORTER_COLLECTOR_NVML_SLOW_INTERVAL"
    )
    with pytest.raises(ConfigError):  # every one is looked at, none passed over
        choose({}, {variable(option): "\0" for option in OPTIONS if option.number}, OPTIONS)


def test_what_kubernetes_says_of_a_service_of_our_name_is_no_setting() -> None:
    links = {
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "9844",
        "SERVICE_PORT_METRICS": "9844",
        "PORT": "tcp://10.0.0.1:9844",
        "PORT_9844_TCP": "tcp://10.0.0.1:9844",
        "PORT_9844_TCP_PROTO": "tcp",
        "PORT_9844_TCP_PORT": "9844",
        "PORT_9844_TCP_ADDR": "10.0.0.1",
    }
    assert choose_with({PREFIX + name: value for name, value in links.items()}) == choose_with({})


def test_tables_quoted_keys_and_native_types(tmp_path: Path) -> None:
    text = """
        web.listen-address = ["127.0.0.1:1", "[::1]:2"]
        "log.level" = "debug"
        [collector.nvml]
        enabled = false
        interval = 7
        deadline = 2.5
        [collector]
        "job.directory" = "/run/jobs"
        """
    named = {option.name: value for option, (value, _) in choose_with({}, file_of(tmp_path, text)).items()}
    assert named["web.listen-address"] == ("127.0.0.1:1", "[::1]:2")
    assert (named["log.level"], named["collector.nvml"]) == ("debug", False)
    assert (named["collector.nvml.interval"], named["collector.nvml.deadline"]) == (7.0, 2.5)
    assert named["collector.job.directory"] == Path("/run/jobs")


def test_all_problems_of_file_and_environment_are_told_in_a_line_each(tmp_path: Path) -> None:
    path = file_of(
        tmp_path,
        '"log.level" = "loud"\n"web.config" = "x"\nconfig.file = "y"\nlog.format = true\n'
        '"collector.psi" = "no"\n"collector.xid" = true\n[collector.nvml]\nintervall = 5\ninterval = 0.005\n'
        "deadline = [1]\n[collector.xid]\nenabled = false\n",
    )
    environ = {PREFIX + "LOG_LEVLE": "debug", PREFIX + "COLLECTOR_PSI": "yes", "GPU_MINUTES_HOME": "/x"}
    with pytest.raises(ConfigError) as raised:
        choose({CONFIG_FILE.name: path}, environ, OPTIONS)
    assert str(raised.value).splitlines() == [
        f"{PREFIX}COLLECTOR_PSI: 'yes' is neither true nor false",
        f"{PREFIX}LOG_LEVLE: there is no such setting; did you mean {PREFIX}LOG_LEVEL?",
        f"{path}: log.level: 'loud' is none of debug, info, warning, error",
        f"{path}: web.config: there is no such setting; did you mean web.config.file?",
        f"{path}: config.file: a file cannot name another; use the flag or the variable",
        f"{path}: log.format: True is not logfmt|json in quotes",
        f"{path}: collector.psi: 'no' is neither true nor false",
        f"{path}: collector.nvml.intervall: there is no such setting; did you mean collector.nvml.interval?",
        f"{path}: collector.nvml.interval: '0.005' is not a number of seconds between 1 and 3600",
        f"{path}: collector.nvml.deadline: [1] is not SECONDS",
        f"{path}: collector.xid.enabled: given twice; keep one",
    ]


@pytest.mark.parametrize(
    ("content", "part"),
    [(b"a = = 1\n", "is not TOML: Invalid value (at line 1, column 5)"), (b"\xff", "cannot be read")],
)
def test_a_file_that_is_no_toml_is_one_line(content: bytes, part: str, tmp_path: Path) -> None:
    path = tmp_path / "exporter.toml"
    path.write_bytes(content)
    ran = run_exporter("--once", f"--config.file={path}", env=BARE)
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"gpu-minutes-exporter: {path}: ") and part in line


def test_a_file_that_is_not_there_is_one_line() -> None:
    ran = run_exporter("--once", env=BARE | {variable(CONFIG_FILE): "/nonexistent.toml"})
    assert ran.returncode == 2
    assert ran.stderr == ("gpu-minutes-exporter: /nonexistent.toml: cannot be read: No such file or directory\n")


def test_show_names_every_setting_with_its_source_and_is_a_file_itself(tmp_path: Path) -> None:
    path = file_of(tmp_path, "[collector.nvml]\ninterval = 7\nenabled = false\n")
    env = BARE | {PREFIX + "LOG_FORMAT": "json"}
    addresses = ("--web.listen-address=:1,:2", "--web.listen-address=[::1]:3")
    ran = run_exporter("--config.show", f"--config.file={path}", "--path.sysfs=/s y s", *addresses, env=env)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert f'# config.file = "{path}"  # flag' in lines
    assert f"collector.nvml.interval = 7.0  # file {path}" in lines
    assert f"collector.nvml.enabled = false  # file {path}" in lines
    assert f'log.format = "json"  # environment {PREFIX}LOG_FORMAT' in lines
    assert 'path.sysfs = "/s y s"  # flag' in lines
    assert "# path.inventory is not set  # default" in lines
    assert 'web.listen-address = [":1", ":2", "[::1]:3"]  # flag' in lines
    assert len(lines) == len(OPTIONS)
    again = choose_with({}, file_of(tmp_path, ran.stdout))
    assert again[next(o for o in OPTIONS if o.name == "path.sysfs")] == (Path("/s y s"), f"file {path}")
    assert tomllib.loads(ran.stdout)["collector"]["nvml"]["interval"] == 7


def test_every_setting_that_is_shown_can_be_read(tmp_path: Path) -> None:
    """All switches turned and all paths set: TOML has no place where a name is a value and a table at once."""
    flags = {option.name: option.parse(texts(option)[0]) for option in IN_FILE}
    shown = show(choose(flags, {}, OPTIONS))
    again = choose_with({}, file_of(tmp_path, shown))
    assert {option.name: again[option][0] for option in IN_FILE} == flags


def test_what_is_shown_and_read_again_is_the_same() -> None:
    """Any value: the text of a path may hold what TOML escapes."""
    sysfs = next(o for o in OPTIONS if o.name == "path.sysfs")
    ugly = {sysfs.name: Path('/"\\\n#é\U0001f600')}
    shown = show(choose(ugly, {}, OPTIONS))
    assert tomllib.loads(shown)["path"]["sysfs"] == str(ugly[sysfs.name])


def test_show_does_not_open_what_may_hold_secrets(tmp_path: Path) -> None:
    secret = tmp_path / "web.yml"
    secret.write_text("basic_auth_users: {admin: hunter2}\n")
    ran = run_exporter("--config.show", f"--web.config.file={secret}", env=BARE)
    assert ran.returncode == 0 and str(secret) in ran.stdout
    assert "hunter2" not in ran.stdout + ran.stderr


@pytest.mark.pain(32)
@pytest.mark.parametrize("text", ["0.003", "0", "-1", "nan", "inf", "3ms", "5000000"])
def test_an_interval_in_milliseconds_is_refused_wherever_it_stands(text: str, tmp_path: Path) -> None:
    option = next(o for o in OPTIONS if o.name == "collector.nvml.interval")
    reason = "is not a number of seconds between 1 and 3600"
    path = file_of(tmp_path, f"collector.nvml.interval = {text if text != '3ms' else repr(text)}\n")
    for options, env in (
        ([f"--{option.name}={text}"], BARE),
        ([], BARE | {variable(option): text}),
        ([f"--config.file={path}"], BARE),
    ):
        ran = run_exporter("--once", *options, env=env)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.count("\n") == 1 and reason in ran.stderr


@pytest.mark.pain(32)
def test_no_cycle_can_be_set_below_a_floor() -> None:
    """Every setting of a time refuses none at all, and every interval less than a tenth of a second."""
    times = [option for option in OPTIONS if option.metavar == "SECONDS"]
    assert len(times) >= 7
    for option in times:
        for text in ("0", "0.05", "-5"):
            with pytest.raises(ValueError, match="number of seconds between"):
                option.parse(text)


def test_a_choice_reaches_the_collector() -> None:
    option = next(o for o in OPTIONS if o.name == "collector.nvml.interval")
    settings = as_settings(choose({option.name: 9.0}, {}, OPTIONS))
    assert isinstance(settings, Settings) and settings[option] == 9.0
