-- name: AddReviewItem :execrows
INSERT INTO review_items (kind, subject, order_no, event_hash, detail)
VALUES (@kind, @subject, @order_no, @event_hash, @detail)
ON CONFLICT DO NOTHING;

-- name: SettleReviewItems :exec
UPDATE review_items SET settled_at = now(), decision = 'settled_itself'
WHERE kind = @kind AND subject = ANY(@subjects::text[]) AND settled_at IS NULL;
