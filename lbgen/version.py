"""The version of lbgen, for everything that names it."""

VERSION = "0.1.0"
