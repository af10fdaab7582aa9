-- name: AddProcessedEvents :many
INSERT INTO processed_events (key, body_fingerprint)
SELECT unnest(@keys::uuid[]), unnest(@fingerprints::bigint[])
ON CONFLICT DO NOTHING
RETURNING key;

-- The bounds let PostgreSQL prune partitions; = ANY alone sends the whole array to each.
-- name: KnownProcessedEvents :many
SELECT key, body_fingerprint FROM processed_events
WHERE key BETWEEN @low AND @high AND key = ANY(@keys::uuid[]);
