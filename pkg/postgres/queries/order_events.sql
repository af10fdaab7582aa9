-- name: LoadOrderEvents :many
SELECT order_no, event_hash, source_no, endpoint_no, kind, verdict, reason, occurred_at, appended_at,
       reading_hash, amount, currency, event_id, event_type, payment_id, object_id,
       partition, record_offset
FROM order_events WHERE order_no = ANY(@order_nos::bigint[]);

-- name: AddOrderEvents :copyfrom
INSERT INTO order_events (order_no, event_hash, source_no, endpoint_no, kind, verdict, reason, occurred_at,
  appended_at, reading_hash, amount, currency, event_id, event_type, payment_id, object_id, partition, record_offset)
VALUES (@order_no, @event_hash, @source_no, @endpoint_no, @kind, @verdict, @reason, @occurred_at,
  @appended_at, @reading_hash, @amount, @currency, @event_id, @event_type, @payment_id, @object_id, @partition, @record_offset);

-- name: SetVerdicts :exec
UPDATE order_events e SET verdict = u.verdict, reason = u.reason
FROM (SELECT unnest(@order_nos::bigint[]) AS order_no, unnest(@event_hashes::uuid[]) AS event_hash,
             unnest(@verdicts::smallint[]) AS verdict, unnest(@reasons::smallint[]) AS reason) u
WHERE e.order_no = u.order_no AND e.event_hash = u.event_hash;

-- name: DeleteOrderEvents :exec
DELETE FROM order_events WHERE order_no = ANY(@order_nos::bigint[]);

-- name: FindReadings :many
SELECT e.order_no, e.event_hash, e.reading_hash
FROM order_events e
WHERE e.order_no = ANY(@order_nos::bigint[]) AND e.event_hash = ANY(@event_hashes::uuid[]);
