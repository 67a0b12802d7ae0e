"""The kinds of media folders: names, first bytes and codecs of their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dataformats.display.media import media_of
from dataformats.interfaces.stored_file import StoredFile

_HEAD = 2048


@dataclass(frozen=True, slots=True)
class MediaKind:
    """One kind of media.

    Attributes:
        name: The name of the format, such as `images`.
        field: The field of the media, and the word for one of them.
        codecs: The endings of files, in small letters, and their codecs: `bytes` for files that none decodes.
        starts: How files begin that `media_of` does not know.
        endings: The endings of files that are written, by the name of their `Media`.
    """

    name: str
    field: str
    codecs: Mapping[str, str]
    starts: tuple[bytes, ...]
    endings: Mapping[str, str]

    def has(self, name: str) -> bool:
        """True if a file of this name is of the kind."""
        return name[name.rfind(".") :].lower() in self.codecs

    def codec_of(self, name: str) -> str:
        """Return the codec of a file by its name."""
        return self.codecs[name[name.rfind(".") :].lower()]

    def is_sound(self, file: StoredFile) -> bool:
        """True if the first bytes of a file are of the kind."""
        head = file.pread(0, _HEAD)
        media = media_of(head)
        return head.startswith(self.starts) or (media is not None and media.kind == self.field)


IMAGES = MediaKind(
    "images",
    "image",
    {
        ".jpg": "jpg",
        ".jpeg": "jpg",
        ".png": "png",
        ".webp": "webp",
        **dict.fromkeys((".ppm", ".bmp", ".pgm", ".tif", ".tiff"), "bytes"),
    },
    (b"\xff\xd8\xff", b"\x89PNG\r\n", b"RIFF", b"BM", b"II*\0", b"MM\0*", b"P2", b"P3", b"P5", b"P6"),
    {"JPEG": ".jpg", "PNG": ".png", "WebP": ".webp"},
)
VIDEOS = MediaKind(
    "videos",
    "video",
    {".mp4": "mp4", ".webm": "webm", **dict.fromkeys((".mov", ".mkv", ".avi", ".m4v"), "bytes")},
    (b"RIFF",),
    {"MP4": ".mp4", "WebM": ".webm"},
)
AUDIO = MediaKind(
    "audio",
    "audio",
    {**dict.fromkeys((".wav", ".flac", ".mp3", ".ogg"), "audio"), **dict.fromkeys((".m4a", ".opus"), "bytes")},
    (b"OggS", b"\xff\xfb", b"ID3"),
    {"WAV": ".wav", "FLAC": ".flac", "MP3": ".mp3", "OGG": ".ogg"},
)
