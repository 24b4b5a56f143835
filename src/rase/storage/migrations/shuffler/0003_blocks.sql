-- The first round of a round's block: where a campaign carries rounds, those of a block are closed
-- one after the other, because each may leave reports to the next. Rounds of before have none and
-- wait for no other.

ALTER TABLE round ADD COLUMN block_start BIGINT
