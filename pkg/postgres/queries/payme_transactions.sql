-- name: FindPayme :one
SELECT order_no FROM payme_transactions WHERE source_no = @source_no AND payme_id = @payme_id;

-- name: LockPayme :one
SELECT payme_id, transaction_no, order_no, amount, account, payme_time, create_time, perform_time, cancel_time, state, reason
FROM payme_transactions WHERE source_no = @source_no AND payme_id = @payme_id
FOR UPDATE;

-- name: AddPayme :one
INSERT INTO payme_transactions (source_no, payme_id, order_no, amount, account, payme_time, create_time)
VALUES (@source_no, @payme_id, @order_no, @amount, @account, @payme_time, @create_time)
RETURNING transaction_no;

-- name: SetPayme :exec
UPDATE payme_transactions SET state = @state, perform_time = @perform_time, cancel_time = @cancel_time, reason = @reason
WHERE transaction_no = @transaction_no;

-- name: SetPaymeFiscal :execrows
UPDATE payme_transactions SET
  fiscal = CASE WHEN @refund::boolean THEN fiscal ELSE @data::text END,
  fiscal_cancel = CASE WHEN @refund::boolean THEN @data::text ELSE fiscal_cancel END
WHERE source_no = @source_no AND payme_id = @payme_id;

-- name: PaymeStatement :many
SELECT payme_id, transaction_no, order_no, amount, account, payme_time, create_time, perform_time, cancel_time, state, reason
FROM payme_transactions WHERE source_no = @source_no AND payme_time BETWEEN @from_time AND @to_time
ORDER BY payme_time, transaction_no;

-- name: OverduePayme :many
SELECT t.payme_id, n.name FROM payme_transactions t JOIN names n ON n.name_no = t.source_no
WHERE t.state = 1 AND t.payme_time <= @until
ORDER BY t.payme_time LIMIT @n::int;
