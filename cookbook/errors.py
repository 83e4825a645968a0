"""A failure -> an error that says what is wrong and what fixes it.

    CookbookError
    |-- MissingExtraError        an optional package is not installed: names the extra
    |-- MissingKeyError          a provider needs a key or an address: names the variable
    |-- MissingDataError         a file is not there: names it, its folder and COOKBOOK_DATA
    |-- CorpusError              a corpus holds something unusable: names document and offset
    |-- BudgetError              system text and question alone exceed the token budget
    |-- ProviderError            a model's server failed: names provider, address and status
    |   |-- TimeoutExceededError no reply before the deadline
    |   `-- BadReplyError        a reply came, but it is not what was asked for
    `-- StoreError               a store refused: names the collection or the path
        |-- StoreClosedError     used after close()
        |-- StoreLockedError     a second opener of one local store
        |-- DimensionError       vectors of another size than the collection's
        `-- SettingsError        built with another chunker or other settings

Bad arguments raise ``ValueError`` with the parameter, its value and the rule.
"""


class CookbookError(Exception):
    """Base of every error that is not a bad argument."""


class MissingExtraError(CookbookError):
    """An optional package is not installed."""


class MissingKeyError(CookbookError):
    """A provider needs an API key or an address that is not set."""


class MissingDataError(CookbookError):
    """A data file is absent and cannot be fetched."""


class CorpusError(CookbookError):
    """A document or a question cannot be used as it stands."""


class BudgetError(CookbookError):
    """The parts of a prompt that cannot be dropped exceed the budget."""


class ProviderError(CookbookError):
    """A model's server refused or failed."""


class TimeoutExceededError(ProviderError):
    """No complete reply arrived before the deadline."""


class BadReplyError(ProviderError):
    """A reply arrived, but not of the shape that was asked for."""


class StoreError(CookbookError):
    """A store refused an operation."""


class StoreClosedError(StoreError):
    """The store was used after ``close()``."""


class StoreLockedError(StoreError):
    """Another opener holds the local store."""


class DimensionError(StoreError):
    """Vectors have another size than the collection."""


class SettingsError(StoreError):
    """The collection was built with another chunker or other settings."""
