"""ssdbench, the pessimist's SSD benchmark."""

__version__ = "0.1.0"
