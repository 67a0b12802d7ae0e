"""Files behind URLs: file systems, ranges, versions, blocks kept in memory or on the disk."""
