"""Documents of `store` and `query`."""

from typing import Literal

from ssdbench.cli.documents import Document


class StoreAdded(Document):
    """Runs that were added, and those that the store had already."""

    document: Literal["store-add"] = "store-add"
    schema_version: Literal[1] = 1
    directory: str
    added: tuple[str, ...]
    there: tuple[str, ...]


class StoreChecked(Document):
    """What is wrong with a store, a sentence for each; empty when it is whole."""

    document: Literal["store-check"] = "store-check"
    schema_version: Literal[1] = 1
    directory: str
    parts: int
    runs: int
    wrong: tuple[str, ...]


class StoreCompacted(Document):
    """By how many parts a store got smaller."""

    document: Literal["store-compact"] = "store-compact"
    schema_version: Literal[1] = 1
    directory: str
    fewer: int


class StoreSigned(Document):
    """Parts that were signed now."""

    document: Literal["store-sign"] = "store-sign"
    schema_version: Literal[1] = 1
    directory: str
    signed: tuple[str, ...]


class Queried(Document):
    """The rows of a query; what is neither number, text nor truth is text."""

    document: Literal["query"] = "query"
    schema_version: Literal[1] = 1
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | bool | None, ...], ...]
    method: int | None
    notes: tuple[str, ...]
