"""Settings of S3 for obstore: what s3fs takes from the same options, environment and files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_OPTIONS = frozenset(("key", "secret", "token", "anon", "endpoint_url", "profile", "client_kwargs"))
_CLIENT_OPTIONS = frozenset(("endpoint_url", "region_name"))
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_OPTION_NAMES = ("key", "secret", "token")
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_FILES = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}
_OTHER_VARIABLES = (
    "AWS_SECURITY_TOKEN",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)
_OTHER_SETTINGS = ("s3", "services", "endpoint_url", "ca_bundle", "use_dualstack_endpoint", "use_fips_endpoint")
# Access points, directory buckets and the like, whose names have such endings, are no buckets at the same endpoint.
_URL = re.compile(
    r"s3a?://[a-z0-9][a-z0-9.-]+(?<!-s3alias)(?<!--ol-s3)(?<!--x-s3)(?<!\.mrap)(/(?!.*\?versionId=).*)?", re.S
)
_TTL = timedelta(minutes=10)  # botocore renews credentials that end within 15 minutes; obstore asks 5 minutes before

Credentials = Callable[[], Any]


def fits_obstore(url: str, options: Mapping[str, Any]) -> bool:
    """Return True if a URL names objects of a bucket, and obstore knows all `storage_options`."""
    known = options.keys() <= _OPTIONS and (options.get("client_kwargs") or {}).keys() <= _CLIENT_OPTIONS
    keys = [bool(options.get(name)) for name in _OPTION_NAMES]
    paired = keys in ([True, True, True], [True, True, False], [False, False, False])
    return bool(known and paired and "::" not in url and _URL.fullmatch(url))


def settings_of(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `obstore.store.S3Store`, but for the bucket; `None` if s3fs alone has such settings.

    Keys in the options or the environment need no other package if there are no such files. Else botocore looks for
    credentials, in the files, by web identity, and at the metadata service of a machine, as s3fs lets it do.

    Args:
        options: `storage_options` that fit obstore.
    """
    environment, client, anonymous = os.environ, options.get("client_kwargs") or {}, bool(options.get("anon"))
    found = [options.get("endpoint_url"), client.get("endpoint_url"), *map(environment.get, _ENDPOINTS)]
    endpoint = next((url for url in found if url), None)
    region = client.get("region_name") or environment.get("AWS_DEFAULT_REGION")
    if any(map(environment.get, _OTHER_VARIABLES)) or (endpoint is None and "AWS_ENDPOINT" in environment):
        return None
    credentials = _keys_of(options) or _keys_of(dict(zip(_OPTION_NAMES, map(environment.get, _KEYS), strict=True)))
    try:
        if not (credentials or anonymous) or "profile" in options or _has_files(environment):
            region, credentials = _from_session(options, region)
        http = _client_options(endpoint, environment.get("AWS_CA_BUNDLE"))
    except Exception:  # such as a profile that is missing: s3fs says so
        return None
    # Given in full, so that variables that obstore alone reads change nothing.
    config: dict[str, Any] = {"virtual_hosted_style_request": False, "s3_express": False, "request_payer": False}
    config |= {"skip_signature": anonymous} | ({"region": region} if region else {})
    config |= {"aws_endpoint_url_s3": endpoint} if endpoint else {}
    once = {"max_retries": 0}  # `get_ranges` and `retry_transient` make requests again
    settings = {"config": config, "client_options": http, "retry_config": once}
    return settings if anonymous else settings | {"credential_provider": credentials}


def _client_options(endpoint: str | None, bundle: str | None) -> dict[str, Any]:
    """Return the options of the HTTP client.

    Raises:
        ValueError: The endpoint is no URL: obstore would panic.
        OSError: The file of certificates cannot be read.
    """
    parts = urlsplit(endpoint or "https://any")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"{endpoint!r} is no URL")
    plain = endpoint is not None and endpoint.startswith("http://")
    certificates = {"root_certificate": Path(bundle).read_bytes()} if bundle and not plain else {}
    return {"connect_timeout": "5s", "read_timeout": "60s", "timeout": "1h", "allow_http": plain} | certificates


def _from_session(options: Mapping[str, Any], region: str | None) -> tuple[str | None, Credentials | None]:
    """Return region and credentials by botocore, which is a part of s3fs.

    Raises:
        ValueError: It has none, or other settings.
        Exception: As botocore does.
    """
    import botocore.session

    session = botocore.session.Session(profile=options.get("profile"))
    other = session.get_scoped_config().keys() & {*_OTHER_SETTINGS}
    credentials = None if options.get("anon") else _keys_of(options) or _credentials_of(session.get_credentials())
    if other or not (credentials or options.get("anon")):
        raise ValueError(f"no credentials, or settings that obstore lacks: {other}")
    return region or session.get_config_variable("region"), credentials


def _has_files(environment: Mapping[str, str]) -> bool:
    return any(Path(environment.get(name, path)).expanduser().exists() for name, path in _FILES.items())


def _keys_of(options: Mapping[str, Any]) -> Credentials | None:
    """Return the keys, if both are there."""
    key, secret, token = (options.get(name) for name in _OPTION_NAMES)
    answer = {"access_key_id": key, "secret_access_key": secret, "token": token or None, "expires_at": None}
    return (lambda: dict(answer)) if key and secret else None


def _credentials_of(credentials: Any) -> Credentials | None:
    """Return credentials that botocore renews; `None` if it found none."""
    if credentials is None:
        return None

    def answer() -> dict[str, Any]:
        now = credentials.get_frozen_credentials()
        return {
            "access_key_id": now.access_key,
            "secret_access_key": now.secret_key,
            "token": now.token,
            "expires_at": datetime.now(UTC) + _TTL,
        }

    return answer
