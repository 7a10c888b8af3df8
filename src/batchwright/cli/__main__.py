"""`python -m batchwright.cli`."""

from batchwright.cli import main

if __name__ == "__main__":
    main()
