"""Conditions that were written to fill the memory, or to never end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import dataformats

pytest.importorskip("duckdb", reason="the extra duckdb is not installed")

MOST_MEGABYTES = 700  # 180 of them without any condition
TIMEOUT_S = 5

SEARCH = f"""
import json, sys, time
from pathlib import Path
import dataformats
from dataformats.interop.duckdb import matching
outcomes = []
for condition in json.loads(sys.stdin.read()):
    began = time.monotonic()
    try:
        outcome = sum(map(len, matching(dataformats.open(sys.argv[1]), condition, timeout_s={TIMEOUT_S})))
    except (ValueError, TimeoutError) as error:
        outcome = type(error).__name__
    # Not ru_maxrss, which begins with that of the process that started this one.
    status = Path("/proc/self/status").read_text().split("VmHWM:")[1]
    peak = int(status.split()[0]) // 1024
    outcomes.append((outcome, peak))
    print(peak, f"{{time.monotonic() - began:.1f}} s", outcome, condition[:60], file=sys.stderr)
print(json.dumps(outcomes))
"""


def nested(text: str, times: int, call: str) -> str:
    for _ in range(times):
        text = call.format(text)
    return text


ALLOWED = [  # functions of the list, as many as an expression may have
    f"len({nested('s', 200, '({}||s)')}) > 0",
    f"len({nested('s', 6, '({0}||{0})')}) > 0",
    f"len({nested('s', 10, '({0}||{0})')}) > 0",
    f"len({nested('s', 14, '({0}||{0})')}) > 0",
    f"len({nested('s', 200, 'lower({})')}) > 0",
    f"len({nested('s', 200, 'upper(lower({}))')}) > 0",
    f"len({nested('s', 900, 'lower({})')}) > 0",
    f"len({nested('s', 100, 'concat({},s,s,s)')}) > 0",
    f"len({nested('s', 200, 'trim({})')}) > 0",
    f"len({nested('s', 200, 'reverse({})')}) > 0",
    f"len({nested('s', 200, 'substring({},2)')}) > 0",
    f"len({nested('s', 60, 'encode({}::varchar)')}) > 0",
    f"len({nested('s', 60, 'encode({})::varchar')}) > 0",
    f"len({nested('b', 60, 'encode({}::varchar)')}) > 0",
    f"len({nested('tokens', 100, '{}[1:]')}) > 0",
    f"len({nested('tokens', 100, '({}||tokens)')}) > 0",
    f"len({nested('tokens', 9, '({0}||{0})')}) > 0",
    "tokens::varchar || tokens::varchar || tokens::varchar || tokens::varchar = ''",
    f"len({nested(repr('x' * 8000), 200, 'lower({})')}) > a",
    f"len({nested('s', 50, '({}||' + repr('x' * 150) + ')')}) > 0",
    " or ".join(f"contains(lower(s || '{i}'), 'zzz')" for i in range(250)),
    " or ".join(f"s || '{i}' || s = 'zzz'" for i in range(400)),
    "s || s in (" + ",".join(f"s || '{i}' || s" for i in range(400)) + ")",
    "coalesce(" + ",".join(f"nullif(s || '{i}', s || '{i}')" for i in range(300)) + ") = ''",
    nested("s", 150, "case when a > 5 then {} || s else upper(s) end") + " = ''",
    "regexp_matches(s, '((a{0,9}){0,9})z')",
    "regexp_matches(s, '(x+x+)+y')",
    "regexp_matches(s, '(.*.*.*.*.*.*.*.*.*)z')",
    "regexp_matches(s, '.{0,8}.{0,8}z')",
    "len(regexp_extract(s, '(.*)(.*)(.*)(.*)z?', 1)) > 0",
    "s like '%t%e%x%t%t%e%x%t%z'",
    "s like '%_t%_e%_x%_t%_t%_e%_x%_t%_z'",
    "s ilike '%T%_E%X%_T%Z'",
    "list_has_all(tokens, tokens)",
    "list_has_any(tokens, tokens)",
    f"{'(' * 300}a{')' * 300} > 0",
    "a in (" + ",".join(map(str, range(1500))) + ")",
    "2::hugeint ** 100000 > a",
    "a::decimal(38,37) > 0",
    "try_cast(s as interval) is null",
]
REFUSED = [
    "regexp_matches(s, '.{0,500}.{0,500}z')",
    "regexp_matches(s, s)",
    "bitstring('1', 2000000000) is null",
    f"len({nested('s', 6, 'replace({},' + repr('t') + ',' + repr('t' * 10) + ')')}) > 0",
    f"len({nested('s', 9, 'replace({},' + repr('t') + ',' + repr('t' * 10) + ')')}) > 0",
    "len(list_reduce([" + ",".join(["s"] * 26) + "], lambda x, y: x || x)) > 0",
    "len(list_transform(tokens, lambda x: s)) > 0",
    "len([x || s for x in tokens]) > 0",
    "len(regexp_replace(s, '', s, 'g')) > 0",
    "len(repeat(s, 100000000)) > 0",
    "len(lpad(s, 2000000000, 'x')) > 0",
    "len(range(2000000000)) > a",
    "len(printf('%2000000000d', a)) > 0",
    "len(format('{:2000000000}', a)) > 0",
    "len(array_resize(tokens, 2000000000)) > 0",
    "len(string_agg(s, s)) > 0",
    "len(unnest(tokens)) > 0",
    "len(translate(s, 't', 'tt')) > 0",
    "len(concat_ws(s, s, s, s, s)) > 0",
    f"len({nested('s', 30, 'hex({})')}) > 0",
    f"len({nested('s', 30, 'to_base64(encode({}))')}) > 0",
    f"len({nested('s', 12, '[{}]::varchar')}) > 0",
    f"len({nested('s', 12, '{}::blob::bit::varchar')}) > 0",
    f"len({nested('s', 12, 'to_json({})::varchar')}) > 0",
    f"len({nested('s', 12, 'struct_pack(a := {})::varchar')}) > 0",
    "len(string_split(s, '')::varchar) > 0",
    "a in (select unnest(range(1000000000)))",
    "levenshtein(s, s) > 0",
    "sleep_ms(100000) is null",
]


@pytest.mark.timeout(1800)  # a condition without an end takes longer
def test_memory_and_time_are_bounded(tmp_path: Path) -> None:
    types = {"a": "int64", "s": "utf8", "b": "bytes", "tokens": "int64[]"}
    with dataformats.create(tmp_path / "x.ffr", spec=types) as writer:
        for i in range(2200):
            n = 20_000 if i % 1000 == 7 else i % 300
            writer.append({"a": i, "s": "text " * n, "b": bytes(range(i % 256)), "tokens": [i] * (i % 200)})
    command = [sys.executable, "-c", SEARCH, str(tmp_path / "x.ffr")]
    hostile = ALLOWED + REFUSED
    run = subprocess.run(
        command, input=json.dumps(hostile), text=True, stdout=subprocess.PIPE, timeout=1700, check=True
    )
    outcomes = json.loads(run.stdout)
    for condition, (outcome, peak) in zip(hostile, outcomes, strict=True):
        assert peak < MOST_MEGABYTES, condition
        assert condition in ALLOWED or outcome == "SpecError", condition
