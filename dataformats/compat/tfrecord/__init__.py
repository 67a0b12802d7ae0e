"""The `tfrecord` package (vahidk): its readers and writer of TFRecord files."""
