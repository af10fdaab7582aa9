-- name: LockCheckout :one
SELECT o.order_no, o.order_id, o.registered_at, o.amount, o.currency, o.status
FROM orders o WHERE o.order_id = @order_id::text
FOR NO KEY UPDATE;

-- name: LockCheckoutByNo :one
SELECT o.order_no, o.order_id, o.registered_at, o.amount, o.currency, o.status
FROM orders o WHERE o.order_no = @order_no
FOR NO KEY UPDATE;

-- name: CalledOff :one
SELECT EXISTS (
  SELECT FROM order_events WHERE order_no = @order_no AND kind = @kind AND verdict = @verdict AND payment_id = '');
