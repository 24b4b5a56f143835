-- What operators did, in order. Each line holds the hash of itself and of the line before it.

CREATE TABLE act (
    number  BIGINT PRIMARY KEY,
    time_s  BIGINT NOT NULL,
    act     TEXT NOT NULL,
    subject TEXT NOT NULL,
    done_by TEXT NOT NULL,
    hash    BYTEA NOT NULL
);
