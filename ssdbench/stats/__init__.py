"""Pure statistics: numbers in, frozen dataclasses out."""
