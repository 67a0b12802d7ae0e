"""Folders of images: a file for each record, a folder for each label."""

from dataformats.backends.images.backend import ImagesBackend

BACKEND = ImagesBackend()
