-- name: AddRaw :exec
INSERT INTO raw_outbox (record_key, record_headers, body, created_at) VALUES (@record_key, @record_headers, @body, @created_at);

-- name: TryRawOutbox :one
SELECT pg_try_advisory_xact_lock(77, 4);

-- name: UnpublishedRaw :many
SELECT id, record_key, record_headers, body FROM raw_outbox WHERE published_at IS NULL ORDER BY id LIMIT @n::int;

-- name: MarkRawPublished :exec
UPDATE raw_outbox SET published_at = @published_at WHERE id = ANY(@ids::bigint[]);

-- name: DeletePublishedRaw :execrows
DELETE FROM raw_outbox WHERE id = ANY(ARRAY(
  SELECT r.id FROM raw_outbox r WHERE r.published_at IS NOT NULL AND r.published_at < @until ORDER BY r.published_at LIMIT @n::int));

-- name: RawOutboxBacklog :one
SELECT count(*)::bigint AS records, min(created_at)::timestamptz AS oldest FROM raw_outbox WHERE published_at IS NULL;
