"""The counters of ssdb_flash, in user space: configfs takes 4 KiB, however large a page is."""

import re
import subprocess
from pathlib import Path

import pytest

MAIN = Path(__file__).resolve().parents[3] / "kmod" / "flash" / "main.c"
TAKEN_BYTES = 4096  # SIMPLE_ATTR_SIZE of the kernel's fs/configfs/file.c; more is a WARNING and EIO
PROGRAM = r"""
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef uint32_t u32;
typedef unsigned long long u64;
#define SZ_4K 4096
#define READ_ONCE(x) (x)
struct flash { u32 nr_lines; struct { u64 interrupts; } lines[1024]; };
static int sysfs_emit_at(char *page, int at, const char *format, ...)
{
	va_list words;
	int length;

	va_start(words, format);
	length = vsnprintf(page + at, PAGE_SIZE - at, format, words);
	va_end(words);
	return length;
}
@CODE@
int main(int argc, char **argv)
{
	static char page[PAGE_SIZE];
	static struct flash flash = { .nr_lines = 1024 };
	size_t length = atoi(argv[1]);

	for (u32 i = 0; i < flash.nr_lines; i++)
		flash.lines[i].interrupts = -1ULL >> (i % 64);
	length = flash_print_lines(&flash, page, length);
	printf("%zu %d\n", length, page[length - 1] == '\n');
	return argc != 2;
}
"""


@pytest.mark.parametrize("page_bytes", [4096, 65536])
@pytest.mark.parametrize("before", [0, 1500, 4060])
def test_the_lines_of_interrupts_are_no_more_than_configfs_takes(
    tmp_path: Path, page_bytes: int, before: int
) -> None:
    found = re.search(
        r"^#define FLASH_COUNTER.*?^static size_t flash_print_lines.*?^}$",
        MAIN.read_text(), re.MULTILINE | re.DOTALL,
    )  # fmt: skip
    assert found is not None
    source, program = tmp_path / "a.c", tmp_path / "a"
    source.write_text(PROGRAM.replace("@CODE@", found.group()))
    words = ["gcc", "-Wall", "-Werror", f"-DPAGE_SIZE={page_bytes}", "-fsanitize=address,undefined"]
    subprocess.run([*words, str(source), "-o", str(program)], check=True)

    said = subprocess.run([program, str(before)], capture_output=True, text=True, check=True).stdout

    length, whole = map(int, said.split())
    assert before <= length <= TAKEN_BYTES
    if before < TAKEN_BYTES - 48:
        assert whole
        assert length > TAKEN_BYTES - 48
