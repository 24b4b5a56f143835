-- Who may have tokens, and the keys of token windows. No table has a place for what a device reports
-- or for a token: the registrar signs them blinded and keeps nothing of them but one hash.

CREATE TABLE approval (
    id         TEXT PRIMARY KEY,
    digest     BYTEA NOT NULL,
    expires_s  BIGINT NOT NULL,
    device_key BYTEA
);

CREATE TABLE device (
    device_key BYTEA PRIMARY KEY,
    is_revoked BIGINT NOT NULL
);

CREATE TABLE token_key (
    campaign      TEXT NOT NULL,
    first_round   BIGINT NOT NULL,
    last_round    BIGINT NOT NULL,
    issue_until_s BIGINT NOT NULL,
    over_s        BIGINT NOT NULL,
    body          BYTEA NOT NULL,
    private       BYTEA,
    signed        BYTEA,
    PRIMARY KEY (campaign, first_round)
);

-- A device asks once for a window; the same request again is answered the same.
CREATE TABLE issued (
    campaign    TEXT NOT NULL,
    first_round BIGINT NOT NULL,
    device_key  BYTEA NOT NULL,
    digest      BYTEA NOT NULL,
    PRIMARY KEY (campaign, first_round, device_key)
) WITHOUT ROWID;
