-- name: FindPayments :many
SELECT p.source_no, p.payment_id, p.order_no, p.linked
FROM payments p
JOIN (SELECT unnest(@source_nos::smallint[]) AS source_no, unnest(@payment_ids::text[]) AS payment_id) u
  ON p.source_no = u.source_no AND p.payment_id = u.payment_id;

-- name: LockPayments :many
SELECT p.source_no, p.payment_id, p.order_no, p.linked
FROM payments p
JOIN (SELECT unnest(@source_nos::smallint[]) AS source_no, unnest(@payment_ids::text[]) AS payment_id) u
  ON p.source_no = u.source_no AND p.payment_id = u.payment_id
ORDER BY p.source_no, p.payment_id
FOR NO KEY UPDATE OF p;

-- name: AddPayments :many
INSERT INTO payments (source_no, payment_id, order_no, linked)
SELECT unnest(@source_nos::smallint[]), unnest(@payment_ids::text[]), unnest(@order_nos::bigint[]), unnest(@linked::boolean[])
ON CONFLICT DO NOTHING
RETURNING source_no, payment_id;

-- name: LinkPayments :exec
UPDATE payments p SET order_no = u.order_no, linked = true
FROM (SELECT unnest(@source_nos::smallint[]) AS source_no, unnest(@payment_ids::text[]) AS payment_id,
             unnest(@order_nos::bigint[]) AS order_no) u
WHERE p.source_no = u.source_no AND p.payment_id = u.payment_id;

-- name: MovePayment :exec
UPDATE payments SET order_no = @order_no, linked = true WHERE source_no = @source_no AND payment_id = @payment_id;

-- name: SetPayments :exec
UPDATE payments p SET order_no = u.order_no, linked = u.linked
FROM (SELECT unnest(@source_nos::smallint[]) AS source_no, unnest(@payment_ids::text[]) AS payment_id,
             unnest(@order_nos::bigint[]) AS order_no, unnest(@linked::boolean[]) AS linked) u
WHERE p.source_no = u.source_no AND p.payment_id = u.payment_id;
