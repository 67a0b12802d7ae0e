"""`dataformats schema`: the types of the fields, as arguments of commands and of `open`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from dataformats.cli import options
from dataformats.cli.info import print_spec
from dataformats.cli.output import print_fact, print_json
from dataformats.spec import Spec, Type


@options.paths
@options.reading
@options.as_json
def schema(paths: str | list[str], as_json: bool, **reading: Any) -> None:
    """Show the types of the fields, in a form to pass back.

    They are printed as options of commands and as arguments of open. Types are declared by --spec, by the sidecar or by
    the files, or inferred from samples of the records. Fields that no codec decodes are bytes in the options. No index
    is needed.
    """
    from dataformats.columns.codec_resolver import as_bytes
    from dataformats.interfaces.declared_spec import is_single
    from dataformats.reading.opening import open as open_source

    with open_source(paths, **options.arguments(reading)) as source:
        facts = source.spec_facts
        is_inferred = facts.provenance == "inferred"
        opaque = {name: str(kind) for name, kind in facts.opaque_fields.items()}
        single = is_single(source)
        given = Spec({}) if single else as_bytes(source.spec, opaque)
        about: dict[str, Any] = {
            "format": source.format,
            "payload": source.payload,
            "spec": {} if single else source.spec.to_json(),
            "spec_is_inferred": is_inferred,
            "opaque": opaque,
            "arguments": ({} if source.payload is None else {"payload": source.payload})
            | ({"spec": given.to_json()} if given else {}),
        }
    if as_json:
        print_json(about)
        return
    print_fact("format", about["format"])
    if about["payload"] is not None:
        print_fact("payload", about["payload"])
    if single:
        print_fact("spec", "none: a record is one value")
    else:
        print_spec(source.spec, is_inferred, opaque)
    print_fact("options", _options(source.payload, given))
    print_fact("python", ", ".join(f"{name}={value!r}" for name, value in about["arguments"].items()))


def _options(payload: str | None, spec: Mapping[str, Type]) -> str:
    texts = [] if payload is None else [f"--payload {shlex.quote(payload)}"]
    types = [f"{name}={kind}" for name, kind in spec.items()]
    if not all(map(str.isprintable, types)):  # JSON escapes names that cannot be printed
        types = [json.dumps({name: str(kind) for name, kind in spec.items()})]
    return " ".join([*texts, *(f"--spec {shlex.quote(text)}" for text in types)])
