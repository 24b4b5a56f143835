-- How often a batch was refused, apart from how often it was sent: attempts that met no fusion centre say nothing of the
-- batch. Of batches of before each attempt may have been a refusal, and none is counted.

ALTER TABLE outbox ADD COLUMN refusals BIGINT NOT NULL DEFAULT 0
