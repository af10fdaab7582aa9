-- name: AddRawBodies :copyfrom
INSERT INTO raw_bodies (event_hash, kept_at, record_offset, partition, record_headers, body)
VALUES (@event_hash, @kept_at, @record_offset, @partition, @record_headers, @body);

-- name: FindRawBodies :many
SELECT kept_at, record_offset, partition, record_headers, body FROM raw_bodies
WHERE event_hash = @event_hash ORDER BY kept_at, partition, record_offset;
