"""The version, for those who may not import the package as a whole."""

VERSION = "0.2.0"
