-- Estimates under the names of the one schema of answers, so that whoever reads them by SQL finds
-- what every other interface shows. The estimator over time is called tracked.

CREATE TABLE answers (
    campaign TEXT NOT NULL,
    quantity TEXT,
    unit TEXT,
    "time" TEXT,
    until TEXT,
    round BIGINT NOT NULL,
    value DOUBLE PRECISION NOT NULL,
    standard_error DOUBLE PRECISION,
    low DOUBLE PRECISION,
    high DOUBLE PRECISION,
    n BIGINT NOT NULL,
    target TEXT NOT NULL,
    method TEXT NOT NULL,
    local_epsilon DOUBLE PRECISION,
    shuffled_epsilon DOUBLE PRECISION,
    delta DOUBLE PRECISION,
    degrees_of_freedom DOUBLE PRECISION,
    PRIMARY KEY (campaign, round, method)
);

INSERT INTO answers (campaign, round, method, target, value, standard_error, degrees_of_freedom, n)
    SELECT campaign, round, CASE method WHEN 'auto' THEN 'tracked' ELSE method END,
        CASE WHEN target = 'mean of the readings of the fleet' THEN 'fleet'
            WHEN substr(target, 1, 20) = 'mean of the readings' THEN 'reporters'
            ELSE 'reports' END,
        mean, standard_error, degrees_of_freedom, n FROM estimates;

-- The view of deploy/postgresql/reader.sql would hold the table; run that file again.
DROP VIEW IF EXISTS fleet_mean;

DROP TABLE estimates;
