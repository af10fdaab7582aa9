-- name: BeginOrderVisits :exec
INSERT INTO order_visits (source_no) VALUES (@source_no) ON CONFLICT DO NOTHING;

-- One reconciler at a time: the others find nothing to do.
-- name: ClaimOrderVisits :one
SELECT transition_id FROM order_visits WHERE source_no = @source_no FOR UPDATE SKIP LOCKED;

-- name: EndOrderVisits :exec
UPDATE order_visits SET transition_id = @transition_id WHERE source_no = @source_no;

-- The first version of an order is its registration. Every other row is only passed.
-- name: RegistrationsAfter :many
SELECT t.id, t.order_no, (t.version = 1)::boolean AS registration, t.changed_at
FROM relay_shards s CROSS JOIN LATERAL (
  SELECT o.id, o.order_no, o.version, o.changed_at FROM order_transitions o
  WHERE o.shard = s.shard AND o.id > @after AND o.id < @frontier ORDER BY o.id LIMIT @n::int) t
ORDER BY t.id LIMIT @n::int;

-- name: PendingOrders :many
SELECT order_no, order_id, amount, currency, registered_at FROM orders
WHERE order_no = ANY(@order_nos::bigint[]) AND status = @pending::smallint AND registered_at IS NOT NULL;

-- The payments of orders, each with the last that its provider said of it.
-- name: PaymentsOfOrders :many
SELECT DISTINCT ON (order_no, source_no, payment_id) order_no, source_no, payment_id, endpoint_no, event_type, object_id, occurred_at
FROM order_events
WHERE order_no = ANY(@order_nos::bigint[]) AND payment_id <> ''
ORDER BY order_no, source_no, payment_id, event_type LIKE 'looked\_up.%', occurred_at DESC;

-- name: HangOnRefund :exec
UPDATE lookups l SET armed = l.begun + 1, armed_at = @now, due_at = @due_at, review_at = @review_at, attempts = 0, lane = @lane,
  order_no = p.order_no, event_hash = @event_hash
FROM payments p
WHERE l.source_no = @source_no AND l.object = @object AND l.answered >= l.armed
  AND p.source_no = l.source_no AND p.payment_id = @payment_id;

-- name: HangOn :exec
UPDATE lookups l SET armed = l.begun + 1, armed_at = @now, due_at = @due_at, review_at = @review_at, attempts = 0, lane = @lane,
  order_no = o.order_no, event_hash = NULL
FROM orders o
WHERE l.source_no = @source_no AND l.object = @object AND l.answered >= l.armed
  AND o.order_id = ANY(@order_ids::text[]) AND o.status = @pending::smallint AND o.registered_at IS NOT NULL;
