"""Start the command line; `python -m ssdbench` and `ssdbench` both begin here."""

import signal

# While modules are imported, nothing has begun, so let Ctrl-C end the process without a traceback.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from ssdbench.cli.main import main

if __name__ == "__main__":
    main()
