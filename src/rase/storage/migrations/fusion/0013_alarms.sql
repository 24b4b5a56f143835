-- What alarms said of each round in which they changed, and whether everybody was notified; the
-- last round that each of them has looked at.

CREATE TABLE alarm_history (
    alarm TEXT NOT NULL,
    campaign TEXT NOT NULL,
    round BIGINT NOT NULL,
    state TEXT NOT NULL,
    value DOUBLE PRECISION NOT NULL,
    standard_error DOUBLE PRECISION NOT NULL,
    delivered BIGINT NOT NULL,
    PRIMARY KEY (alarm, round)
);

CREATE TABLE alarm_states (
    alarm TEXT NOT NULL PRIMARY KEY,
    round BIGINT NOT NULL,
    state TEXT NOT NULL
);
