-- What probing rounds told about the distribution of readings, in so many counts of bins: enough to
-- choose a better range from, after the reports themselves are gone.

CREATE TABLE probes (
    campaign TEXT NOT NULL,
    round BIGINT NOT NULL,
    version BIGINT NOT NULL,
    epsilon DOUBLE PRECISION NOT NULL,
    counts BYTEA NOT NULL,
    mean DOUBLE PRECISION NOT NULL,
    square DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (campaign, round, epsilon)
);
