-- When a token was made; unknown for those made before.

ALTER TABLE subscribers ADD COLUMN made_s BIGINT
