-- The registrar's keys of token windows that this shuffler signed, one for the rounds of each.

CREATE TABLE token_key (
    campaign    TEXT NOT NULL,
    first_round BIGINT NOT NULL,
    last_round  BIGINT NOT NULL,
    signed      BYTEA NOT NULL,
    PRIMARY KEY (campaign, first_round)
);
