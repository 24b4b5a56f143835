-- Which envelopes of a block were seen, one row each, so that a copy is found by the index whatever the round's length.
-- Those of open rounds are taken over by round: where rounds are carried, tokens keep a copy out that comes meanwhile.

CREATE TABLE envelope_tag (
    campaign TEXT NOT NULL,
    block    BIGINT NOT NULL,
    tag      BYTEA NOT NULL,
    PRIMARY KEY (campaign, block, tag)
) WITHOUT ROWID;

WITH RECURSIVE step(i) AS (
    SELECT 0 UNION ALL
    SELECT i + 1 FROM step WHERE i < (SELECT COALESCE(MAX(LENGTH(tags)), 0) / 16 FROM opened)
)
INSERT INTO envelope_tag (campaign, block, tag)
SELECT DISTINCT campaign, round, SUBSTR(tags, 16 * i + 1, 16) FROM opened, step WHERE 16 * i < LENGTH(tags);

DROP TABLE block_tags;

ALTER TABLE opened DROP COLUMN tags
