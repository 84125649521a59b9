"""The exit codes, from the errors that carry them."""

import inspect

from docs.siteparts.markdown import code, prose, table
from ssdbench import errors
from ssdbench.cli.main import EXIT_BROKEN_PIPE, EXIT_BUG

OTHERS = {
    0: "The command did what was asked; of a run: its result is VALIDATED.",
    1: "The run ended, but its result is not VALIDATED; or `capacity` used such a number.",
    130: "Interrupted with Ctrl-C (SIGINT); what was measured is kept.",
    143: "Stopped by SIGTERM; what was measured is kept.",
    EXIT_BUG: "A bug in ssdbench; the message names the file with the details.",
    EXIT_BROKEN_PIPE: "Stdout was closed before the whole answer was written; "
    "the run itself is finished and stored.",
}


def page() -> str:
    """One table."""
    rows: dict[int, list[str]] = {number: [text] for number, text in OTHERS.items()}
    for name, kind in vars(errors).items():
        if not inspect.isclass(kind) or not issubclass(kind, errors.SsdbenchError):
            continue
        if kind not in (errors.SsdbenchError, errors.Interrupted):
            said = (kind.__doc__ or "").split("\n\n")[0]
            rows.setdefault(kind.exit_code, []).append(f"`{name}`: {prose(said)}")
    return table(
        ("exit code", "meaning"),
        ((code(number), " ".join(rows[number])) for number in sorted(rows)),
    )
