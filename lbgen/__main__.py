"""`python -m lbgen` is the `lbgen` command."""

from lbgen.cli.main import main

main()
