"""``python -m alignkit``."""

from alignkit.cli import main

if __name__ == "__main__":
    main()
