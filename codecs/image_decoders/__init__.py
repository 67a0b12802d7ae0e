"""Decode image files: JPEG by libjpeg-turbo, plain PNG by zlib and a kernel, everything else by Pillow."""
