"""Where the servers keep their state: one small face over a database, and numbered migrations."""
