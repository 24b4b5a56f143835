-- How many devices a round had a real report of when it was closed: for its operator, who sees how
-- far a round was below k_min. Rounds of earlier releases have none.
ALTER TABLE round ADD COLUMN reports BIGINT
