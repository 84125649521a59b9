from benchmarks.kernel_table import BEGIN, END, NOT_TRIED, README, with_rows
from ssdbench.lab.kernels import OFFERS


def test_a_row_replaces_that_of_its_kernel_and_what_was_not_tried_is_named() -> None:
    row = ["6.12", "6.12.1", "tested", "no", "loads", "compiles"]

    once = with_rows(f"before\n{BEGIN}\n{END}\nafter\n", {"6.12": row, "6.1": ["6.1", *row[1:]]})
    again = with_rows(once, {"6.12": ["6.12", "6.12.2", *row[2:]]})

    rows = [line for line in again.splitlines() if line.startswith("| 6")]
    assert rows == [
        "| 6.1 | 6.12.1 | tested | no | loads | compiles |",
        "| 6.12 | 6.12.2 | tested | no | loads | compiles |",
    ]
    assert again.startswith("before\n") and again.endswith("\nafter\n")
    untried = [name for name in OFFERS if name not in ("6.1", "6.12")]
    assert f"Not tried: {', '.join([*untried, *NOT_TRIED])}." in again


def test_the_table_of_the_readme_says_of_every_kernel_of_the_lab_what_was_tried() -> None:
    text = README.read_text()

    assert with_rows(text, {}) == text
    table = text.partition(BEGIN)[2].partition(END)[0]
    for name in OFFERS:
        assert f"| {name} |" in table or f" {name}," in table.partition("Not tried:")[2]
