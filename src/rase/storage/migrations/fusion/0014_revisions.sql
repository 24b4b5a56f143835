-- Later rounds help earlier ones: an estimate of tracked is revised some times and then final. What
-- was stored before is final as it is. Windows of an hour and of a day come from the joint law of
-- their rounds, which is known when a round is followed.

ALTER TABLE answers ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;

ALTER TABLE answers ADD COLUMN final BIGINT NOT NULL DEFAULT 1;

ALTER TABLE tracked ADD COLUMN members BIGINT;

CREATE TABLE joint_windows (
    campaign TEXT NOT NULL,
    round BIGINT NOT NULL,
    w BIGINT NOT NULL,
    value DOUBLE PRECISION NOT NULL,
    standard_error DOUBLE PRECISION NOT NULL,
    n BIGINT NOT NULL,
    rounds BIGINT NOT NULL,
    PRIMARY KEY (campaign, round, w)
);
