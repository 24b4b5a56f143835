-- What the estimator `auto` needs to go on: the spread within each round it followed (its unbiased
-- mean stands among the estimates), and now and then all that was learnt. The second follows from
-- the first; it only saves going through all rounds again.

CREATE TABLE tracked (
    campaign TEXT NOT NULL,
    round BIGINT NOT NULL,
    spread DOUBLE PRECISION,
    PRIMARY KEY (campaign, round)
);

CREATE TABLE tracker_states (
    campaign TEXT NOT NULL PRIMARY KEY,
    round BIGINT NOT NULL,
    state BYTEA NOT NULL
);
