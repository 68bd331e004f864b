"""``python -m flyingsquid``."""

from flyingsquid.cli.main import main

if __name__ == "__main__":
    main(prog_name="flyingsquid")
