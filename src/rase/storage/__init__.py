"""Where the servers keep their state: a small interface to a database, numbered migrations."""
