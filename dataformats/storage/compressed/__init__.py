"""Files in GZIP and ZLIB: random access, and windows of decompressed bytes for the kernels."""
