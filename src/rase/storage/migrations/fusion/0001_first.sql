-- What the fusion centre keeps. No table has a place for who sent a report.

CREATE TABLE campaigns (
    campaign TEXT NOT NULL,
    version BIGINT NOT NULL,
    hash BYTEA NOT NULL UNIQUE,
    body BYTEA NOT NULL,
    not_before BIGINT NOT NULL,
    fusion_signature BYTEA NOT NULL,
    shuffler_signature BYTEA,
    PRIMARY KEY (campaign, version)
);

CREATE TABLE keysets (
    version BIGINT NOT NULL PRIMARY KEY,
    body BYTEA NOT NULL,
    fusion_signature BYTEA NOT NULL,
    shuffler_signature BYTEA
);

CREATE TABLE rounds (
    campaign TEXT NOT NULL,
    round BIGINT NOT NULL,
    version BIGINT NOT NULL,
    state TEXT NOT NULL,
    batches BIGINT NOT NULL,
    settles_s BIGINT NOT NULL,
    sequence BIGINT UNIQUE,
    shuffle TEXT,
    kept_until_s BIGINT,
    PRIMARY KEY (campaign, round)
);

CREATE INDEX rounds_by_state ON rounds (state, settles_s);

CREATE TABLE batches (
    batch BYTEA NOT NULL PRIMARY KEY,
    campaign TEXT NOT NULL,
    round BIGINT NOT NULL,
    manifest BYTEA NOT NULL,
    opened BIGINT NOT NULL,
    covers BIGINT NOT NULL,
    replayed BIGINT NOT NULL,
    refused BIGINT NOT NULL
);

CREATE INDEX batches_by_round ON batches (campaign, round);

-- Tags and places are sorted, each for itself: no place can be joined to its envelope again.
CREATE TABLE opened (
    batch BYTEA NOT NULL PRIMARY KEY,
    campaign TEXT NOT NULL,
    round BIGINT NOT NULL,
    tags BYTEA NOT NULL,
    places BYTEA NOT NULL,
    classes BYTEA NOT NULL
);

CREATE INDEX opened_by_round ON opened (campaign, round);

CREATE TABLE estimates (
    campaign TEXT NOT NULL,
    round BIGINT NOT NULL,
    method TEXT NOT NULL,
    target TEXT NOT NULL,
    mean DOUBLE PRECISION NOT NULL,
    standard_error DOUBLE PRECISION,
    degrees_of_freedom DOUBLE PRECISION,
    n BIGINT NOT NULL,
    PRIMARY KEY (campaign, round, method)
);

CREATE TABLE subscribers (
    subscriber TEXT NOT NULL PRIMARY KEY,
    handle TEXT NOT NULL UNIQUE,
    token_hash BYTEA NOT NULL,
    scopes TEXT NOT NULL,
    expires_s BIGINT,
    revoked_s BIGINT
);

CREATE TABLE access_log (
    number BIGINT NOT NULL PRIMARY KEY,
    time_s BIGINT NOT NULL,
    subscriber TEXT NOT NULL,
    question TEXT NOT NULL,
    answer TEXT NOT NULL
);
