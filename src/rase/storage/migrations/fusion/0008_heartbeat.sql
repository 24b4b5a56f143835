-- Processes that run: when each was last seen, and the public halves of the keys it opens reports with, as CBOR.
CREATE TABLE heartbeat (
    process  TEXT PRIMARY KEY,
    part     TEXT NOT NULL,
    seen_s   BIGINT NOT NULL,
    keys     BYTEA NOT NULL
);
