-- name: KeepAnswer :exec
INSERT INTO comparisons (source_no, object, payment_id, said, said_at, compare_at)
VALUES (@source_no, @object, @payment_id, @said, @now, @compare_at)
ON CONFLICT (source_no, object) DO UPDATE SET payment_id = excluded.payment_id, said = excluded.said, said_at = excluded.said_at,
  compare_at = excluded.compare_at, tries = 0;

-- name: DueComparisons :many
SELECT object, payment_id, said, said_at, tries, differed FROM comparisons
WHERE source_no = @source_no AND compare_at <= @now ORDER BY compare_at LIMIT @n::int FOR UPDATE SKIP LOCKED;

-- name: DeferComparison :exec
UPDATE comparisons SET tries = tries + 1, compare_at = @compare_at WHERE source_no = @source_no AND object = @object;

-- name: DoubtComparison :exec
UPDATE comparisons SET differed = true, compare_at = 'infinity' WHERE source_no = @source_no AND object = @object;

-- name: EndComparisons :exec
DELETE FROM comparisons WHERE source_no = @source_no AND object = ANY(@objects::text[]);

-- name: RearmLookup :execrows
UPDATE lookups SET armed = begun + 1, armed_at = @now, due_at = @due_at, attempts = 0, lane = @lane, review_at = NULL
WHERE source_no = @source_no AND object = @object AND answered >= armed;
