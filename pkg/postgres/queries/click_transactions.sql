-- name: FindClick :one
SELECT order_no FROM click_transactions WHERE source_no = @source_no AND click_trans_id = @click_trans_id;

-- name: LockClick :one
SELECT transaction_no, order_no, service_id, paydoc_id, amount, state, prepared_at, completed_at, contradicted_at
FROM click_transactions WHERE source_no = @source_no AND click_trans_id = @click_trans_id
FOR UPDATE;

-- name: AddClick :one
INSERT INTO click_transactions (source_no, click_trans_id, service_id, paydoc_id, order_no, amount, prepared_at)
VALUES (@source_no, @click_trans_id, @service_id, @paydoc_id, @order_no, @amount, @prepared_at)
RETURNING transaction_no;

-- name: SetClick :exec
UPDATE click_transactions SET state = @state, completed_at = @completed_at, contradicted_at = @contradicted_at
WHERE transaction_no = @transaction_no;
