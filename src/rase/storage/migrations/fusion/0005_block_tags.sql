-- Replay tags of final rounds whose block goes on: where a campaign carries rounds, an envelope
-- would open in any round of its block, and must count in one alone.

CREATE TABLE block_tags (
    batch BYTEA NOT NULL PRIMARY KEY,
    campaign TEXT NOT NULL,
    round BIGINT NOT NULL,
    tags BYTEA NOT NULL
);

CREATE INDEX block_tags_by_round ON block_tags (campaign, round);
