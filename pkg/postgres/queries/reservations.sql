-- name: GetReservation :one
SELECT order_no, source_no, payment_id, reserved_at, expires_at FROM reservations WHERE order_no = @order_no;

-- name: PutReservation :exec
INSERT INTO reservations (order_no, source_no, payment_id, reserved_at, expires_at)
VALUES (@order_no, @source_no, @payment_id, @reserved_at, @expires_at)
ON CONFLICT (order_no) DO UPDATE SET source_no = excluded.source_no, payment_id = excluded.payment_id,
  reserved_at = excluded.reserved_at, expires_at = excluded.expires_at;

-- name: DeleteReservation :exec
DELETE FROM reservations WHERE order_no = @order_no AND source_no = @source_no AND payment_id = @payment_id;

-- name: PaymentEnded :one
SELECT EXISTS (
  SELECT FROM order_events e WHERE e.order_no = @order_no AND e.source_no = @source_no
    AND (e.payment_id = @payment_id OR e.payment_id IN (
      SELECT c.paydoc_id FROM click_transactions c WHERE c.source_no = @source_no AND c.click_trans_id = @payment_id))
    AND e.kind = ANY(@kinds::smallint[]) AND e.verdict <> @held);

-- name: ReleaseGivenUp :exec
DELETE FROM reservations r USING hints h, orders o
WHERE h.source_no = @source_no AND h.object = @object AND o.order_id = h.order_id AND o.order_id <> ''
  AND r.order_no = o.order_no AND r.source_no = h.source_no AND r.expires_at IS NULL
  AND h.event_id = r.payment_id || ':1'; -- Click's Complete: no other hint reserves
