-- name: AddReviewItem :execrows
INSERT INTO review_items (kind, subject, order_no, event_hash, detail)
VALUES (@kind, @subject, @order_no, @event_hash, @detail)
ON CONFLICT DO NOTHING;

-- What waits once more is asked about once more.
-- name: OpenReviewItem :exec
INSERT INTO review_items (kind, subject, order_no, event_hash, detail)
VALUES (@kind, @subject, @order_no, @event_hash, @detail)
ON CONFLICT (kind, subject) DO UPDATE
  SET order_no = excluded.order_no, detail = excluded.detail, created_at = now(), claimed_by = NULL, claimed_at = NULL,
      claimed_version = NULL, settled_at = NULL, settled_by = NULL, decision = NULL
  WHERE review_items.settled_at IS NOT NULL;

-- name: SettleReviewItems :exec
UPDATE review_items SET settled_at = now(), decision = @decision::text
WHERE kind = @kind AND subject = ANY(@subjects::text[]) AND settled_at IS NULL;

-- name: MoveReviewItems :exec
UPDATE review_items i SET order_no = u.to_no
FROM (SELECT unnest(@from_nos::bigint[]) AS from_no, unnest(@to_nos::bigint[]) AS to_no) u
WHERE i.order_no = u.from_no AND i.settled_at IS NULL;

-- One conditional update: of two people one gets it.
-- name: ClaimReviewItem :execrows
UPDATE review_items i SET claimed_by = @who::text, claimed_at = @now::timestamptz,
  claimed_version = (SELECT version FROM orders o WHERE o.order_no = i.order_no)
WHERE id = @id AND settled_at IS NULL AND (claimed_by IS NULL OR claimed_by = @who::text OR claimed_at <= @expired::timestamptz);

-- name: GiveBackReviewItems :exec
UPDATE review_items SET claimed_by = NULL, claimed_at = NULL, claimed_version = NULL
WHERE id = ANY(@ids::bigint[]) AND settled_at IS NULL AND claimed_by = @who::text;

-- name: SettleClaimedReviewItem :execrows
UPDATE review_items SET settled_at = @now::timestamptz, settled_by = claimed_by, decision = @decision::text
WHERE id = @id AND settled_at IS NULL AND claimed_by = @who::text AND claimed_at > @expired::timestamptz;

-- name: ListReviewItems :many
SELECT i.id, i.kind, i.subject, coalesce(o.order_id, '')::text AS order_id, i.detail, i.created_at, i.claimed_by, i.claimed_at,
       i.settled_at, i.settled_by, i.decision
FROM review_items i LEFT JOIN orders o ON o.order_no = i.order_no
WHERE (@settled::boolean OR i.settled_at IS NULL) AND (@kind::text = '' OR i.kind = @kind::text)
ORDER BY i.settled_at IS NOT NULL, i.created_at, i.id LIMIT @n::int;

-- name: GetReviewItem :one
SELECT id, kind, subject, order_no, event_hash, detail, created_at, claimed_by, claimed_at, claimed_version,
       settled_at, settled_by, decision
FROM review_items WHERE id = @id;

-- name: CountOpenReviewItems :one
SELECT count(*) FROM (SELECT 1 FROM review_items WHERE settled_at IS NULL AND kind = @kind LIMIT @n::int) open;

-- name: MoveReviewItemsOf :exec
UPDATE review_items i SET order_no = u.to_no
FROM (SELECT unnest(@from_nos::bigint[]) AS from_no, unnest(@to_nos::bigint[]) AS to_no, unnest(@event_hashes::uuid[]) AS event_hash) u
WHERE i.order_no = u.from_no AND i.event_hash = u.event_hash AND i.settled_at IS NULL;

-- Which of the held events a person put where they are.
-- name: LinkedByPeople :many
SELECT event_hash FROM review_items
WHERE kind = @kind AND subject = ANY(@subjects::text[]) AND decision = @decision::text;

-- name: ReadReviewItems :many
SELECT subject, settled_at FROM review_items WHERE kind = @kind AND subject = ANY(@subjects::text[]);
