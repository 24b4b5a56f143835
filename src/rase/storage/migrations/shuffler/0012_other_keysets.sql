-- Reports that named a keyset which the devices of their round did not go by: how many were refused, by that number, 0 for
-- one that was never agreed here, and in which hour the last one was. Nothing of their senders.

CREATE TABLE other_keyset (
    keyset  BIGINT PRIMARY KEY,
    reports BIGINT NOT NULL,
    hour_s  BIGINT NOT NULL
)
