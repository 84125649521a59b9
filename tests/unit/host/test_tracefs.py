"""Pages of the kernel's trace buffer, built by the rules of include/linux/ring_buffer.h."""

import struct

from ssdbench.host.tracefs import decode, layout

FORMAT = """name: block_rq_issue
ID: 2104
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:int error;\toffset:24;\tsize:4;\tsigned:1;
\tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;
"""


def body(number: int, *, sector: int) -> bytes:
    return struct.pack("<HxxiI4xQi", number, 7, 0, sector, -5) + bytes(12)


def entry(data: bytes, *, after: int) -> bytes:
    return struct.pack("<I", after << 5 | len(data) // 4) + data


def page(at_ns: int, *entries: bytes) -> bytes:
    data = b"".join(entries)
    return (struct.pack("<QQ", at_ns, len(data)) + data).ljust(4096, b"\0")


def test_fields_are_read_from_where_the_format_says_and_texts_are_left_out() -> None:
    found = layout(FORMAT)

    (event,) = decode(page(1000, entry(body(2104, sector=77), after=5)), {2104: found}, cpu=3)

    assert (event.at_ns, event.cpu, event.name) == (1005, 3, "block_rq_issue")
    assert event.fields == {"dev": 0, "sector": 77, "error": -5}


def test_times_add_up_over_entries_extensions_and_events_of_others() -> None:
    far = struct.pack("<II", 3 << 5 | 30, 2)  # 2 * 2^27 + 3
    absolute = struct.pack("<II", 9 << 5 | 31, 1 << 10)
    long = struct.pack("<II", 4 << 5 | 0, 44) + body(2104, sector=3)
    raw = page(
        100,
        entry(body(9, sector=1), after=10),
        entry(body(2104, sector=2), after=1),
        far,
        long,
        absolute,
        entry(body(2104, sector=4), after=0),
    )

    found = list(decode(raw, {2104: layout(FORMAT)}, cpu=0))

    assert [(event.at_ns, event.fields["sector"]) for event in found] == [
        (111, 2),
        (111 + (2 << 27) + 3 + 4, 3),
        ((1 << 37) + 9, 4),
    ]


def test_the_rest_of_a_page_after_padding_is_not_read() -> None:
    raw = page(0, struct.pack("<I", 29), entry(body(2104, sector=1), after=1))

    assert not list(decode(raw, {2104: layout(FORMAT)}, cpu=0))
