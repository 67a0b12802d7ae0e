"""The viewer: a page in the browser that shows the records of a dataset, served to this machine alone."""
