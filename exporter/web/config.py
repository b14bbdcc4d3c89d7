"""The file of `--web.config.file`: TLS, passwords and headers, in the format of Prometheus's exporter-toolkit.

One file serves all exporters of a node. Facts of the format: docs/web-configuration.md and web/tls_config.go of
prometheus/exporter-toolkit, July 2026. What Python's TLS cannot do is refused by name, never passed over. The file
holds secrets, so no message quotes a value of `key` or `basic_auth_users`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from exporter.config import optional_path
from exporter.errors import ConfigError
from exporter.web.document import Section, read_yaml

WEB_CONFIG = optional_path("web.config.file", "TLS, passwords and headers, as in other exporters", "FILE")

VERIFYING = ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
_UNVERIFYING = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")
_VERSIONS = ("TLS12", "TLS13")
_OLD_VERSIONS = ("TLS10", "TLS11")
_HEADERS: dict[str, tuple[str, ...]] = {
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
    "Content-Security-Policy": (),
}
"""Headers that may be set, and their values where those are few."""

CIPHERS = {
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{openssl}"
    for key in ("ECDSA", "RSA")
    for go, openssl in (
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
"""TLS 1.2 suites: Go's names, which the format has, and OpenSSL's."""
CIPHERS_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}

# $2y$ is htpasswd's name of $2b$; 22 letters of salt, 31 of hash; the cost is a power of two.
_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Tls:
    """`tls_server_config`: each of certificate, key and client CA is a path or the PEM text itself."""

    cert: Path | str
    key: Path | str
    client_ca: Path | str | None = None
    client_auth: str = "NoClientCert"
    allowed_sans: frozenset[str] = frozenset()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    ciphers: tuple[str, ...] = ()
    server_preference: bool = True
    curve: str | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it names."""
        return tuple(part for part in (self.cert, self.key, self.client_ca) if isinstance(part, Path))


@dataclass(frozen=True, slots=True)
class Rate:
    """`rate_limit`: a request each `interval_s`, `burst` of them at once."""

    interval_s: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The whole file; `notes` are lines for the log about what is served otherwise than other exporters do."""

    tls: Tls | None = None
    headers: tuple[tuple[str, str], ...] = ()
    users: tuple[tuple[str, str], ...] = ()
    rate: Rate | None = None
    notes: tuple[str, ...] = ()


def read_web_config(path: Path) -> WebConfig:
    """Reads the file; certificates and keys are not opened yet.

    Raises:
        ConfigError: it cannot be honoured as it stands; a line for each reason.
    """
    problems: list[str] = []
    notes: list[str] = []
    top = Section(read_yaml(path), f"{path}: ", problems)
    tls = _read_tls(top.section("tls_server_config"), path.parent, notes)
    http = top.section("http_server_config")
    if http.flag("http2", default=False):
        notes.append(f"{path}: http2: HTTP/1.1 is served; clients agree on it by themselves")
    headers = _read_headers(http.section("headers"))
    http.finish()
    users = _read_users(top.section("basic_auth_users"))
    rate = _read_rate(top.section("rate_limit"))
    top.finish()
    if problems:
        raise ConfigError("\n".join(problems))
    return WebConfig(tls, headers, users, rate, tuple(notes))


def _read_tls(section: Section, folder: Path, notes: list[str]) -> Tls | None:
    cert = _file_or_text(section, "cert", folder)
    key = _file_or_text(section, "key", folder)
    client_ca = _file_or_text(section, "client_ca", folder)
    auth = _read_client_auth(section, client_ca is not None)
    sans = frozenset(section.words("client_allowed_sans"))
    if sans and auth != "RequireAndVerifyClientCert":
        section.problem("client_allowed_sans", "needs client_auth_type: RequireAndVerifyClientCert")
    versions = [_read_version(section, "min_version", "TLS12"), _read_version(section, "max_version", "TLS13")]
    if versions == ["TLS13", "TLS12"]:
        section.problem("min_version", "is above max_version")
    ciphers = _read_ciphers(section, notes)
    curves = section.words("curve_preferences")
    if len(curves) > 1:
        section.problem("curve_preferences", "only one can be set here; name one, or leave it out for all")
    for curve in curves:
        section.among("curve_preferences", curve, CURVES)
    preference = section.flag("prefer_server_cipher_suites", default=True)
    section.finish()
    if not section.names:
        return None
    for name, found in (("cert", cert), ("key", key)):
        if found is None:
            section.problem(f"{name}_file", "is missing: TLS needs a certificate and its key")
    return Tls(
        cert or "", key or "", client_ca, auth, sans, versions[0], versions[1],
        ciphers, preference, next((CURVES[curve] for curve in curves if curve in CURVES), None),
    )  # fmt: skip


def _file_or_text(section: Section, name: str, folder: Path) -> Path | str | None:
    text, file = section.text(name), section.text(f"{name}_file")
    if text and file:
        section.problem(f"{name}_file", f"stands beside {name}; keep one")
    return (folder / file if file else None) or text or None


def _read_client_auth(section: Section, has_ca: bool) -> str:
    name = "client_auth_type"
    auth = section.text(name) or "NoClientCert"
    if auth in _UNVERIFYING:
        section.problem(name, f"{auth} trusts certificates unverified, which cannot be done here; {VERIFYING[1]} can")
    elif section.among(name, auth, ("NoClientCert", *VERIFYING)):
        if auth in VERIFYING and not has_ca:
            section.problem(name, f"{auth} needs client_ca_file, the authority that signs client certificates")
        if has_ca and auth not in VERIFYING:
            section.problem("client_ca_file", f"is of no use with {auth}; set client_auth_type: {VERIFYING[1]}")
    return auth


def _read_version(section: Section, name: str, default: str) -> str:
    version = section.text(name) or default
    if version in _OLD_VERSIONS:
        section.problem(name, f"{version} is withdrawn (RFC 8996) and not served; use TLS12 or TLS13")
    else:
        section.among(name, version, _VERSIONS)
    return version


def _read_ciphers(section: Section, notes: list[str]) -> tuple[str, ...]:
    name = "cipher_suites"
    asked = section.words(name)
    if set(asked) & set(CIPHERS_13):
        notes.append(f"{section.path(name)}: every suite of TLS 1.3 is offered, whichever are named")
    known = [cipher for cipher in asked if section.among(name, cipher, (*CIPHERS, *CIPHERS_13))]
    return tuple(CIPHERS[cipher] for cipher in known if cipher in CIPHERS)


def _read_headers(section: Section) -> tuple[tuple[str, str], ...]:
    found = []
    for name, allowed in _HEADERS.items():
        value = section.text(name)
        if not value:
            continue
        if allowed and value not in allowed:
            section.problem(name, f"{value!r} is none of {', '.join(allowed)}")
        elif not value.isascii() or not value.isprintable():
            section.problem(name, "holds a letter that a header cannot")
        found.append((name, value))
    section.finish()
    return tuple(found)


def _read_users(section: Section) -> tuple[tuple[str, str], ...]:
    found = []
    for user in section.names:
        hashed = section.text(user)
        if ":" in user or not user:
            section.problem(user, "a user name is not empty and has no colon")
        if not _BCRYPT.fullmatch(hashed):
            section.problem(user, "the password is not a bcrypt hash; make one: htpasswd -nBC 10 USER")
        found.append((user, hashed))
    return tuple(found)


def _read_rate(section: Section) -> Rate | None:
    interval, burst = section.text("interval"), section.text("burst")
    section.finish()
    parts = _DURATION.findall(interval)
    if interval not in ("", "0") and "".join(number + unit for number, unit in parts) != interval:
        section.problem("interval", f"{interval!r} is not a duration like 100ms, 1s or 1m30s")
    if burst and not (burst.isascii() and burst.isdigit()):
        section.problem("burst", f"{burst!r} is not a whole number")
        return None
    interval_s = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    if not interval_s:
        return None
    if not burst or int(burst) < 1:
        section.problem("burst", "must be 1 or more, or every request would be refused")
        return None
    return Rate(interval_s, int(burst))
