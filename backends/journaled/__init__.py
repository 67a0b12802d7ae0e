"""Files with a table of their records that is written last: what FFRecord and Syrah share, a writer and its journal."""
