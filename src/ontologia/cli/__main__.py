"""`python -m ontologia.cli` is `onto`."""

from ontologia.cli.root import main

if __name__ == "__main__":
    main(prog_name="onto")
