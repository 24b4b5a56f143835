-- The public key with which the intake answered the enrolment of a token, for a device that asks again. Nothing can be
-- agreed again with tokens that were used before: their devices are enrolled.

ALTER TABLE enrolment_token ADD COLUMN server_key BYTEA
