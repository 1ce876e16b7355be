"""Cost of lbgen's configurations against hand-tuned ones of the same engine; `python -m tests.bench`, see README.md."""
