"""The modules behind `syrah.File`, under the names that code imports them by."""
