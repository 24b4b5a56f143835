-- A user who may read final answers and nothing else, for Grafana and the like.
-- Run it as the owner of the schema rase_fusion, once the fusion centre has run, and again after an
-- update that says so; then give the user a password, if it is new: \password rase_reader
--
-- Who reads here is not in the access log of the fusion centre. Rows from before migration 9 have no
-- quantity, unit, times, interval or epsilon; their round began at its number times the campaign's
-- round_s, as in  SELECT to_timestamp(round * 900) AS time, value FROM fleet_mean.

CREATE OR REPLACE VIEW rase_fusion.fleet_mean AS
SELECT campaign, quantity, unit, "time", until, round, value, standard_error, low, high, n, target,
    method, local_epsilon, shuffled_epsilon, delta, degrees_of_freedom, shuffle, revision,
    final = 1 AS final
FROM rase_fusion.answers
JOIN rase_fusion.rounds USING (campaign, round)
WHERE state = 'final';

-- The shares of states, and answers by label; empty for those of all devices.
CREATE OR REPLACE VIEW rase_fusion.fleet_parts AS
SELECT campaign, quantity, unit, label, category, "time", until, round, value, standard_error, low,
    high, n, target, method, local_epsilon, shuffled_epsilon, delta, degrees_of_freedom, shuffle
FROM rase_fusion.parts
JOIN rase_fusion.rounds USING (campaign, round)
WHERE state = 'final';

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'rase_reader') THEN
        CREATE ROLE rase_reader LOGIN;
    END IF;
END
$$;
GRANT USAGE ON SCHEMA rase_fusion TO rase_reader;
GRANT SELECT ON rase_fusion.fleet_mean TO rase_reader;
GRANT SELECT ON rase_fusion.fleet_parts TO rase_reader;
ALTER ROLE rase_reader SET search_path = rase_fusion;
ALTER ROLE rase_reader SET default_transaction_read_only = on;
