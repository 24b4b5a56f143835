-- The shuffler's public keys with its signature, for a fusion centre that follows them; only where the shuffler rotates
-- its keys by itself.

CREATE TABLE key_offer (
    number BIGINT PRIMARY KEY,
    signed BYTEA NOT NULL
)
