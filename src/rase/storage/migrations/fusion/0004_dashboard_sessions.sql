-- Who is logged in to the dashboard, so that a restart logs nobody out. The name is the hash of the
-- session's id, and the contents (token, name, scopes) are sealed with a key that follows from the
-- id: both are in the browser's cookie alone, so nothing here opens anything.

CREATE TABLE dashboard_sessions (
    session BYTEA NOT NULL PRIMARY KEY,
    sealed BYTEA NOT NULL,
    begun_s BIGINT NOT NULL,
    seen_s BIGINT NOT NULL
);
