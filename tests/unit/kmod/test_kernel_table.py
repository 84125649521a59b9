from benchmarks.kernel_table import BEGIN, END, README, with_rows
from ssdbench.lab.kernels import OFFERS, ONLY_COMPILED


def test_a_row_replaces_that_of_its_kernel_and_what_was_not_tried_is_named() -> None:
    row = ["6.12", "6.12.1", "tested", "no", "loads", "compiles", "tested"]
    first = ["6.1", "6.1.9", *row[2:6], "no"]

    once = with_rows(f"before\n{BEGIN}\n{END}\nafter\n", {"6.12": row, "6.1": first})
    again = with_rows(once, {"6.12": ["6.12", "6.12.2", *row[2:]]})

    rows = [line for line in again.splitlines() if line.startswith("| 6")]
    assert rows == [
        "| 6.1 | 6.1.9 | tested | no | loads | compiles | no |",
        "| 6.12 | 6.12.2 | tested | no | loads | compiles | tested |",
    ]
    assert again.startswith("before\n") and again.endswith("\nafter\n")
    untried = [name for name in OFFERS if name not in ("6.1", "6.12")]
    assert f"Not tried: {', '.join(untried)}, 5.x, 6.2 to 6.11, 6.13 to 6.19." in again


def test_versions_between_those_that_were_tried_are_named_up_to_the_newest() -> None:
    rows = {
        name: [name, f"{release}-amd64", *["tested"] * 5]
        for name, release in (("6.18", "6.18.2"), ("7.x", "7.3.4+deb13"), ("7.1", "7.1.0"))
    }

    table = with_rows(f"{BEGIN}\n{END}\n", rows)

    assert ", 5.x, 6.1 to 6.17, 6.19, 7.0, 7.2." in table


def test_the_table_of_the_readme_says_of_every_kernel_of_the_lab_what_was_tried() -> None:
    text = README.read_text()

    assert with_rows(text, {}) == text
    table = text.partition(BEGIN)[2].partition(END)[0]
    rows = [line.split()[1] for line in table.splitlines() if " compiles | compiles |" in line]
    assert rows == [*ONLY_COMPILED]
    for name in OFFERS:
        assert f"| {name} |" in table or f" {name}," in table.partition("Not tried:")[2]
