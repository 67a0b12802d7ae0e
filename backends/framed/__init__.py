"""Files of frames: a length, the data and perhaps checksums, back to back, without a file header or an index.

TFRecord and OFRecord differ only in their frames, which a `Framing` describes. This room does the rest for both:
scanning, sequential reads, indexes, readers and writers.
"""
