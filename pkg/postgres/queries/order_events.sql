-- name: LoadOrderEvents :many
SELECT order_no, event_hash, source_no, endpoint_no, kind, verdict, reason, occurred_at, appended_at,
       reading_hash, amount, currency, event_id, event_type, payment_id, object_id,
       partition, record_offset, named
FROM order_events WHERE order_no = ANY(@order_nos::bigint[]);

-- name: AddOrderEvents :copyfrom
INSERT INTO order_events (order_no, event_hash, source_no, endpoint_no, kind, verdict, reason, occurred_at,
  appended_at, reading_hash, amount, currency, event_id, event_type, payment_id, object_id, partition, record_offset, named)
VALUES (@order_no, @event_hash, @source_no, @endpoint_no, @kind, @verdict, @reason, @occurred_at,
  @appended_at, @reading_hash, @amount, @currency, @event_id, @event_type, @payment_id, @object_id, @partition, @record_offset, @named);

-- name: SetVerdicts :exec
UPDATE order_events e SET verdict = u.verdict, reason = u.reason
FROM (SELECT unnest(@order_nos::bigint[]) AS order_no, unnest(@event_hashes::uuid[]) AS event_hash,
             unnest(@verdicts::smallint[]) AS verdict, unnest(@reasons::smallint[]) AS reason) u
WHERE e.order_no = u.order_no AND e.event_hash = u.event_hash;

-- name: DeleteOrderEvents :exec
DELETE FROM order_events WHERE order_no = ANY(@order_nos::bigint[]);

-- name: ReplaceReadings :exec
UPDATE order_events e SET kind = u.kind, verdict = u.verdict, reason = u.reason, occurred_at = u.occurred_at,
  reading_hash = u.reading_hash, amount = u.amount, currency = u.currency, event_type = u.event_type,
  payment_id = u.payment_id, object_id = u.object_id, partition = u.partition, record_offset = u.record_offset,
  named = u.named
FROM (SELECT unnest(@order_nos::bigint[]) AS order_no, unnest(@event_hashes::uuid[]) AS event_hash,
             unnest(@kinds::smallint[]) AS kind, unnest(@verdicts::smallint[]) AS verdict, unnest(@reasons::smallint[]) AS reason,
             unnest(@occurred_at::bigint[]) AS occurred_at, unnest(@reading_hashes::bigint[]) AS reading_hash,
             unnest(@amounts::bigint[]) AS amount, unnest(@currencies::text[]) AS currency,
             unnest(@event_types::text[]) AS event_type, unnest(@payment_ids::text[]) AS payment_id,
             unnest(@object_ids::text[]) AS object_id, unnest(@partitions::int[]) AS partition,
             unnest(@record_offsets::bigint[]) AS record_offset, unnest(@named::boolean[]) AS named) u
WHERE e.order_no = u.order_no AND e.event_hash = u.event_hash;

-- name: SetVerdict :exec
UPDATE order_events SET verdict = @verdict, reason = @reason WHERE order_no = @order_no AND event_hash = @event_hash;

-- name: ReadVerdict :one
SELECT verdict, reason, source_no, payment_id FROM order_events WHERE order_no = @order_no AND event_hash = @event_hash;

-- name: DeleteEntries :exec
DELETE FROM order_events e
USING (SELECT unnest(@order_nos::bigint[]) AS order_no, unnest(@event_hashes::uuid[]) AS event_hash) u
WHERE e.order_no = u.order_no AND e.event_hash = u.event_hash;
