"""Files in GZIP and ZLIB: random access, and spans of decompressed bytes for the kernels."""
