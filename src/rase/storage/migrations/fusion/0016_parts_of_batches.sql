-- Long batches come in parts: for which key of the fusion centre the batch is, and how many parts hold the reports of its
-- round and key. Batches of before are whole.

ALTER TABLE batches ADD COLUMN fusion_key BIGINT NOT NULL DEFAULT 0;

ALTER TABLE batches ADD COLUMN parts BIGINT NOT NULL DEFAULT 1
