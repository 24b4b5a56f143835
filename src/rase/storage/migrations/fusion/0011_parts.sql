-- Answers that a round has several of: the shares of states, and means by label. Labels of reports
-- are parallel to their places; reports from before have none.

ALTER TABLE opened ADD COLUMN labels BYTEA;

CREATE TABLE parts (
    campaign TEXT NOT NULL,
    quantity TEXT,
    unit TEXT,
    label TEXT NOT NULL,
    category TEXT NOT NULL,
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
    PRIMARY KEY (campaign, round, method, label, category)
);
