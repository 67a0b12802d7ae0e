"""`python -m dataformats` is the command line."""

from dataformats.cli import main

if __name__ == "__main__":
    main()
