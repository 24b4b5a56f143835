-- When a keyset was agreed: a new key of the fusion centre must wait two cache times from then. Of keysets of before it
-- is not known.

ALTER TABLE keyset ADD COLUMN agreed_s BIGINT;

-- Why a batch was not taken the last time, by the name of the problem.

ALTER TABLE outbox ADD COLUMN problem TEXT;

-- Processes that run: when each was last seen, and the public halves of the keys it opens reports with, as CBOR.
CREATE TABLE heartbeat (
    process  TEXT PRIMARY KEY,
    part     TEXT NOT NULL,
    seen_s   BIGINT NOT NULL,
    keys     BYTEA NOT NULL
);
