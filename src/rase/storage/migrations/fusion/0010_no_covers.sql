-- Cover reports end at the shuffler, which alone can tell them from others.

ALTER TABLE batches DROP COLUMN covers;
