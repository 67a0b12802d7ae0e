"""Records made of features: what the codecs of Example, SequenceExample and OFRecord share."""
