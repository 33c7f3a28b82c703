"""The files of the console: one page, its style, and a few scripts, served as they are (`doors/console_pages.py`)."""
