-- Campaigns and keysets that the fusion centre signed and that wait for the shuffler's signature. The intake, which holds
-- no signing key, writes them; the closer signs or refuses and leaves its answer. The intake that asked reads it.

CREATE TABLE proposal (
    id        BYTEA PRIMARY KEY,
    -- campaign, keyset
    kind      TEXT NOT NULL,
    body      BYTEA NOT NULL,
    asked_s   BIGINT NOT NULL,
    -- waiting, signed, refused
    state     TEXT NOT NULL,
    signature BYTEA,
    is_new    BIGINT,
    problem   TEXT,
    detail    TEXT
)
