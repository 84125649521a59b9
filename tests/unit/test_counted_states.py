"""The tables of dangerous states in docs/safety.md count what the tests really make."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.host import test_dangerous_states as on_host
from tests.host import test_overlays as overlays
from tests.host.test_marked_files import copied_over, formatted
from tests.host.test_target_guard import APPEARING
from tests.vm import states

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "safety.md").read_text()
LEAST = 130

IN_GUEST = {
    "device mapper": states.MAPPINGS,
    "LVM": states.VOLUMES,
    "md": states.ARRAYS,
    "file systems": states.FILE_SYSTEMS,
    "others": states.OTHERS,
    "beside": states.BESIDE,
}
TABLES = 6  # types of partition tables
# Kind, file: how many states its parameters name, and texts of which each stands for one more.
ELSEWHERE: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "idle signatures": (
        "host/test_dangerous_states.py",
        len(on_host.SIGNATURES) + len(on_host.MADE) + TABLES,
        (),
    ),
    "in use": (
        "host/test_dangerous_states.py",
        len(on_host.STATES) + len(on_host.BELOW),
        ("def test_the_disk_of_the_running_system_is_refused",),
    ),
    "open elsewhere": (
        "host/test_dangerous_states.py",
        0,
        (
            "def test_a_device_that_is_open_elsewhere_is_refused",
            '"for reading"',
            '"for writing"',
            "def test_a_loop_device_whose_deleted_file_is_open_elsewhere_is_refused",
            "def test_who_has_open_what_is_behind_two_loop_devices_is_named",
        ),
    ),
    "files": (
        "host/test_dangerous_states.py",
        0,
        (
            "def test_a_file_with_data_is_refused",
            "def test_a_file_with_a_second_name_is_refused",
            "def test_a_file_that_is_open_elsewhere_is_refused",
            "def test_a_file_behind_a_loop_device_is_refused",
        ),
    ),
    "data without a signature": ("host/test_dangerous_states.py", len(on_host.UNKNOWN), ()),
    "appearing": ("host/test_target_guard.py", 2 * len(APPEARING), ()),
    "hidden loop devices": (
        "host/test_hidden_loops.py",
        0,
        (
            "def test_a_file_system_above_another_node_of_the_drive_is_seen",
            "def test_a_file_system_on_an_image_that_was_attached_elsewhere_is_seen",
        ),
    ),
    "files of an overlay": ("host/test_overlays.py", len(overlays.STATES), ()),
    "files of ours": ("host/test_marked_files.py", len((copied_over, formatted)), ()),
    "exchanged when fio starts": (
        "host/test_swapped_targets.py",
        0,
        (
            "def test_a_file_that_is_swapped_for_a_link_as_fio_starts_is_not_followed",
            "def test_a_node_that_is_swapped_for_another_one_as_fio_starts_is_not_followed",
        ),
    ),
    "claim released for a step": (
        "host/test_released_claim.py",
        0,
        (
            "def test_a_step_may_not_begin_or_end_while_somebody_else_has_the_device",
            "def test_a_device_that_changed_during_the_step_is_not_taken_again",
            "def test_a_device_that_a_formatting_tool_has_locked_is_refused",
        ),
    ),
    "resumed": (
        "host/test_resume_and_retire.py",
        0,
        (
            "def test_a_run_does_not_go_on_on_a_drive_that_was_exchanged",
            "def test_a_run_does_not_go_on_on_the_other_half_of_its_image",
            "def test_a_run_whose_drive_is_gone_says_which_one_it_needs",
            "def test_a_directory_that_somebody_made_up_is_no_consent",
            "def test_a_record_that_somebody_else_could_have_written_is_none",
            "def test_a_run_that_this_host_does_not_know_goes_on_once_it_is_agreed_to_again",
            "def test_nobody_but_root_says_that_file_systems_on_the_drive_are_the_runs_own",
        ),
    ),
    "changed after consent or after a stop": (
        "host/test_resume_and_retire.py",
        2,
        (
            "def test_a_file_system_that_was_made_since_is_not_erased",
            "def test_data_without_a_signature_that_came_since_is_asked_about",
            "def test_a_write_that_no_sample_shows_is_seen_by_the_drives_counter",
            "def test_another_run_that_used_the_drive_meanwhile_is_told",
            "def test_a_run_without_a_record_of_what_it_left_asks_for_its_own_data",
            "def test_what_is_called_again_and_again_overrides_nothing_that_came_since",
            "def test_when_the_drive_was_changed_after_a_kill_all_of_it_is_measured_again",
            "def test_what_changed_between_consent_and_first_write_is_refused",
        ),
    ),
    "two ways to a drive": (
        "vm/test_namespaces.py",
        0,
        (
            'said["two paths"] = ',
            'said["sanitize"] = list',
            'said["network"] = ',
            'said["write-protected"] = ',
            'said["two initiators"] = ',
            'said["used through the other"] = ',
            'said["reserved"] = ',
            'said["reserved as of old"] = ',
        ),
    ),
    "other drives": (
        "vm/test_target_drives.py",
        0,
        (
            'refused("zoned"',
            'said["pulled out"] = [type',
            "def test_a_drive_that_was_exchanged_under_the_claim",
        ),
    ),
}


def rows(begins: str) -> dict[str, tuple[int, str]]:
    """Kind, number and all text of each row of the table that begins so."""
    table = TEXT.partition(begins)[2].partition("\n\n")[0]
    found = re.findall(r"^\| ([^|(,]+)([^|]*) \(([0-9]+)\) \|", table, re.MULTILINE)
    return {kind.strip(): (int(number), files) for kind, files, number in found}


def test_the_table_of_states_made_in_a_guest_has_their_numbers() -> None:
    told = {kind: number for kind, (number, _) in rows("| family | states |").items()}

    assert told == {kind: len(made) for kind, made in IN_GUEST.items()}
    assert sum(told.values()) == len(states.STATES)


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_the_table_of_other_states_has_their_numbers(kind: str) -> None:
    file, parameters, singles = ELSEWHERE[kind]
    number, files = rows("| kind, in a file of `tests` (number) | states |")[kind]
    named = re.findall(r"`([^`]+)`", files) or [file]
    code = "".join((ROOT / "tests" / name).read_text() for name in named)

    assert file in named
    assert [text for text in singles if text not in code] == []
    assert number == parameters + len(singles)


def test_every_kind_of_the_table_is_counted_and_there_are_enough() -> None:
    elsewhere = rows("| kind, in a file of `tests` (number) | states |")
    total = sum(n for n, _ in elsewhere.values()) + len(states.STATES)

    assert set(elsewhere) == set(ELSEWHERE)
    assert f"Both tables together have {total} states" in " ".join(TEXT.split())
    assert total >= LEAST


def test_partition_tables_are_of_as_many_types_as_are_counted() -> None:
    test: Any = on_host.test_a_partition_table_of_any_kind_is_listed
    marks = test.pytestmark
    (types,) = [mark.args[1] for mark in marks if mark.name == "parametrize"]

    assert len(types) == TABLES
