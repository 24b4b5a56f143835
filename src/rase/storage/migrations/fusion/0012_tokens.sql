-- The registrar's keys of token windows, signed by registrar and shuffler, and what is kept of the
-- tokens that were counted: each counts once in its window.

CREATE TABLE window_key (
    campaign    TEXT NOT NULL,
    first_round BIGINT NOT NULL,
    last_round  BIGINT NOT NULL,
    over_s      BIGINT NOT NULL,
    signed      BYTEA NOT NULL,
    PRIMARY KEY (campaign, first_round)
);

CREATE TABLE spent (
    campaign    TEXT NOT NULL,
    first_round BIGINT NOT NULL,
    tag         BYTEA NOT NULL,
    PRIMARY KEY (campaign, first_round, tag)
) WITHOUT ROWID;
