-- The campaigns that a device may report to, as ids with a blank before and after each; NULL for every campaign, as that of
-- devices of before.

ALTER TABLE enrolment_token ADD COLUMN campaigns TEXT;

ALTER TABLE device ADD COLUMN campaigns TEXT;

CREATE INDEX device_by_campaigns ON device (campaigns) WHERE campaigns IS NOT NULL;

-- How often operators changed them: a process that knows them by heart looks here. One row, with number 0.

CREATE TABLE membership (
    id       BIGINT PRIMARY KEY,
    changes  BIGINT NOT NULL
)
