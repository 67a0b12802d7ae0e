"""Folders of media: a file for each record, a folder for each label, and what lies beside the files."""

from dataformats.backends.media.backend import MediaBackend
from dataformats.backends.media.kinds import AUDIO as _AUDIO
from dataformats.backends.media.kinds import IMAGES as _IMAGES
from dataformats.backends.media.kinds import VIDEOS as _VIDEOS

IMAGES = MediaBackend(_IMAGES)
"""The backend of folders of images."""

VIDEOS = MediaBackend(_VIDEOS)
"""The backend of folders of videos."""

AUDIO = MediaBackend(_AUDIO)
"""The backend of folders of sounds."""
