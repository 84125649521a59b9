"""`python -m ssdbench` is `ssdbench`; both begin here."""

import signal

# Nothing is begun while modules are imported, so Ctrl-C may end that without a word.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from ssdbench.cli.main import main

if __name__ == "__main__":
    main()
