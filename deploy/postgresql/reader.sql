-- A user who may read final estimates and nothing else, for Grafana and the like.
-- Run it as the owner of the schema rase_fusion, once the fusion centre has run; then give the user
-- a password: \password rase_reader
--
-- Who reads here is not in the access log of the fusion centre. Time of a round: its number times
-- the campaign's round_s, as in  SELECT to_timestamp(round * 900) AS time, mean FROM fleet_mean.

CREATE VIEW rase_fusion.fleet_mean AS
SELECT campaign, round, method, target, mean, standard_error, degrees_of_freedom, n, shuffle
FROM rase_fusion.estimates
JOIN rase_fusion.rounds USING (campaign, round)
WHERE state = 'final';

CREATE ROLE rase_reader LOGIN;
GRANT USAGE ON SCHEMA rase_fusion TO rase_reader;
GRANT SELECT ON rase_fusion.fleet_mean TO rase_reader;
ALTER ROLE rase_reader SET search_path = rase_fusion;
ALTER ROLE rase_reader SET default_transaction_read_only = on;
