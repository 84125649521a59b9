"""`python -m ssdbench` is `ssdbench`."""

from ssdbench.cli.main import main

if __name__ == "__main__":
    main()
