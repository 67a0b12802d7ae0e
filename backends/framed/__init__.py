"""Files of frames: a length, the data, perhaps checksums, back to back without a header or an index of the file.

TFRecord and OFRecord differ in the frame alone, which a `Framing` describes; this room does the rest for both:
finding frames, going through them without an index, indexes beside data, reading, writing.
"""
