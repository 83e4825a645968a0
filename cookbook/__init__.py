"""Small-to-big retrieval: match a small piece of text, hand the model a bigger one.

Importing the package loads nothing heavy; each module imports what it needs where it is used.
"""

__version__ = "0.1.0"
