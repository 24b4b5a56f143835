-- The shuffler: who may report, which rounds are open, and what waits to be forwarded.
-- No table has an arrival time, an address or a serial number.

CREATE TABLE campaign (
    hash        BYTEA PRIMARY KEY,
    id          TEXT NOT NULL,
    version     BIGINT NOT NULL,
    signed      BYTEA NOT NULL,
    -- Rounds before this one have been begun; those without a row in `round` are closed.
    next_round  BIGINT NOT NULL,
    UNIQUE (id, version)
);

CREATE TABLE keyset (
    version  BIGINT PRIMARY KEY,
    signed   BYTEA NOT NULL
);

CREATE TABLE enrolment_token (
    id          TEXT PRIMARY KEY,
    digest      BYTEA NOT NULL,
    group_name  TEXT NOT NULL,
    expires_s   BIGINT NOT NULL,
    -- Who used it; for a short while the same device may ask again, if no answer reached it.
    device      BIGINT
);

CREATE TABLE device (
    id          BIGINT PRIMARY KEY,
    digest      BYTEA NOT NULL,
    device_key  BYTEA NOT NULL UNIQUE,
    group_name  TEXT NOT NULL
);

CREATE TABLE round (
    campaign       BYTEA NOT NULL,
    round          BIGINT NOT NULL,
    closes_s       BIGINT NOT NULL,
    -- open, closing; then released, carried or below_k
    state          TEXT NOT NULL,
    lease_token    BYTEA,
    lease_until_s  BIGINT NOT NULL,
    attempts       BIGINT NOT NULL,
    PRIMARY KEY (campaign, round)
);

CREATE INDEX round_by_due ON round (state, closes_s);

-- WITHOUT ROWID: SQLite's row numbers would tell the order of arrival.
CREATE TABLE report (
    round   BIGINT NOT NULL,
    device  BIGINT NOT NULL,
    tag     BIGINT NOT NULL,
    wire    BYTEA NOT NULL,
    PRIMARY KEY (round, tag, device)
) WITHOUT ROWID;

CREATE TABLE outbox (
    batch      BYTEA PRIMARY KEY,
    campaign   BYTEA NOT NULL,
    round      BIGINT NOT NULL,
    body       BYTEA NOT NULL,
    manifest   BYTEA NOT NULL,
    -- waiting, refused
    state      TEXT NOT NULL,
    next_s     BIGINT NOT NULL,
    attempts   BIGINT NOT NULL
);

CREATE INDEX outbox_by_time ON outbox (state, next_s);
