-- What the rounds of a campaign that probes told about the distribution of readings, in so many
-- counts of bins: enough to choose a better range from, after the reports themselves are gone. Not
-- only probing rounds, as before; by which mechanism a round reported follows from its version.

CREATE TABLE told (
    campaign TEXT NOT NULL,
    round BIGINT NOT NULL,
    version BIGINT NOT NULL,
    epsilon DOUBLE PRECISION NOT NULL,
    counts BYTEA NOT NULL,
    mean DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (campaign, round, epsilon)
);

INSERT INTO told (campaign, round, version, epsilon, counts, mean)
    SELECT campaign, round, version, epsilon, counts, mean FROM probes;

DROP TABLE probes;
