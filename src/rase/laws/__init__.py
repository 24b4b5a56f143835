"""The laws of reports: mechanisms over public domains, in whole numbers."""
