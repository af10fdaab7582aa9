-- name: FindOrders :many
SELECT order_no, order_id FROM orders WHERE order_id = ANY(@order_ids::text[]);

-- name: AddOrders :many
INSERT INTO orders (order_id) SELECT unnest(@order_ids::text[])
ON CONFLICT DO NOTHING
RETURNING order_no, order_id;

-- name: AddStubs :many
INSERT INTO orders (order_id) SELECT NULL FROM generate_series(1, @n::int)
RETURNING order_no;

-- name: DeleteStubs :exec
DELETE FROM orders WHERE order_no = ANY(@order_nos::bigint[]) AND order_id IS NULL;

-- name: LockOrders :many
SELECT order_no, order_id, reference, registered_at, amount, currency, status, paid, refunded, dispute,
       version, n_events, n_held
FROM orders WHERE order_no = ANY(@order_nos::bigint[])
ORDER BY order_no
FOR NO KEY UPDATE;

-- name: UpdateOrders :exec
UPDATE orders o SET status = u.status, paid = u.paid, refunded = u.refunded, dispute = u.dispute,
  version = u.version, n_events = u.n_events, n_held = u.n_held, updated_at = now()
FROM (SELECT unnest(@order_nos::bigint[]) AS order_no, unnest(@statuses::smallint[]) AS status,
             unnest(@paid::bigint[]) AS paid, unnest(@refunded::bigint[]) AS refunded,
             unnest(@disputes::smallint[]) AS dispute, unnest(@versions::bigint[]) AS version,
             unnest(@n_events::int[]) AS n_events, unnest(@n_held::int[]) AS n_held) u
WHERE o.order_no = u.order_no;

-- name: SetRegistrations :exec
UPDATE orders o SET reference = u.reference, registered_at = u.registered_at, amount = u.amount, currency = u.currency
FROM (SELECT unnest(@order_nos::bigint[]) AS order_no, unnest(@refs::text[]) AS reference,
             unnest(@registered_at::timestamptz[]) AS registered_at, unnest(@amounts::bigint[]) AS amount,
             unnest(@currencies::text[]) AS currency) u
WHERE o.order_no = u.order_no;

-- name: ReadOrder :one
SELECT order_no, order_id, reference, registered_at, amount, currency, status, paid, refunded, dispute,
       version, n_events, n_held
FROM orders WHERE order_no = @order_no;

-- What LockOrders reads, without a lock.
-- name: ReadOrders :many
SELECT order_no, order_id, reference, registered_at, amount, currency, status, paid, refunded, dispute,
       version, n_events, n_held
FROM orders WHERE order_no = ANY(@order_nos::bigint[]);
