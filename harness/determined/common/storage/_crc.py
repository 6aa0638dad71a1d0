"""CRC-32, computed by `isal` if the image has it, because it is several times faster than zlib."""

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
