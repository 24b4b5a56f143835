-- Owners, so that the devices of one can be counted: hashes of the operator's words for them. A token or device
-- without one stands for itself. The table has a row for each, which who counts holds while it adds a device.

CREATE TABLE owner (
    id  BYTEA PRIMARY KEY
);

ALTER TABLE enrolment_token ADD COLUMN owner BYTEA;

ALTER TABLE device ADD COLUMN owner BYTEA;

CREATE INDEX device_by_owner ON device (owner);
