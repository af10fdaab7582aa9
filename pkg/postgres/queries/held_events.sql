-- name: AddHeldEvents :copyfrom
INSERT INTO held_events (order_no, event_hash, reason, due_at, record_headers, body)
VALUES (@order_no, @event_hash, @reason, @due_at, @record_headers, @body);

-- name: SetHeldReasons :exec
UPDATE held_events h SET reason = u.reason, due_at = CASE WHEN h.due_at IS NULL THEN NULL ELSE u.due_at END,
  asked_at = CASE WHEN h.reason = u.reason THEN h.asked_at END
FROM (SELECT unnest(@order_nos::bigint[]) AS order_no, unnest(@event_hashes::uuid[]) AS event_hash,
             unnest(@reasons::smallint[]) AS reason, unnest(@due_at::timestamptz[]) AS due_at) u
WHERE h.order_no = u.order_no AND h.event_hash = u.event_hash;

-- name: MoveHeldEvents :exec
UPDATE held_events h SET order_no = u.to_no
FROM (SELECT unnest(@from_nos::bigint[]) AS from_no, unnest(@to_nos::bigint[]) AS to_no) u
WHERE h.order_no = u.from_no;

-- name: DeleteHeldEvents :many
DELETE FROM held_events h
USING (SELECT unnest(@order_nos::bigint[]) AS order_no, unnest(@event_hashes::uuid[]) AS event_hash) u
WHERE h.order_no = u.order_no AND h.event_hash = u.event_hash
RETURNING h.event_hash, h.due_at;

-- Takes what is due off the list; locked rows are left for the next round.
-- name: TakeDueHeldEvents :many
UPDATE held_events h SET due_at = NULL
FROM (SELECT order_no, event_hash FROM held_events
      WHERE due_at <= @now::timestamptz ORDER BY due_at LIMIT @n::int FOR UPDATE SKIP LOCKED) d
WHERE h.order_no = d.order_no AND h.event_hash = d.event_hash
RETURNING h.order_no, h.event_hash, h.reason;

-- name: AwaitProvider :exec
UPDATE held_events SET reason = @reason, due_at = @due_at WHERE order_no = @order_no AND event_hash = @event_hash;

-- name: GetHeldEvent :one
SELECT reason, held_at, record_headers, body FROM held_events WHERE order_no = @order_no AND event_hash = @event_hash;

-- name: ReplaceHeldBytes :exec
UPDATE held_events h SET record_headers = @record_headers, body = @body WHERE order_no = @order_no AND event_hash = @event_hash;

-- name: MoveHeldEntries :exec
UPDATE held_events h SET order_no = u.to_no
FROM (SELECT unnest(@from_nos::bigint[]) AS from_no, unnest(@to_nos::bigint[]) AS to_no, unnest(@event_hashes::uuid[]) AS event_hash) u
WHERE h.order_no = u.from_no AND h.event_hash = u.event_hash;

-- What will be due by then and was not asked about: those of one reason, with a payment
-- of one source.
-- name: UnaskedHeldEvents :many
SELECT h.order_no, h.event_hash, h.due_at, e.endpoint_no, e.event_type, e.payment_id, e.object_id, e.amount, e.currency, e.occurred_at,
       COALESCE(o.order_id, '')::text AS order_id
FROM held_events h JOIN order_events e ON e.order_no = h.order_no AND e.event_hash = h.event_hash JOIN orders o ON o.order_no = h.order_no
WHERE h.due_at <= @until::timestamptz AND h.reason = @reason AND h.asked_at IS NULL
  AND h.held_at <= @held_before::timestamptz AND e.source_no = @source_no AND e.payment_id <> ''
ORDER BY h.due_at LIMIT @n::int;

-- name: MarkHeldEventsAsked :exec
UPDATE held_events h SET asked_at = @now::timestamptz
FROM (SELECT unnest(@order_nos::bigint[]) AS order_no, unnest(@event_hashes::uuid[]) AS event_hash) u
WHERE h.order_no = u.order_no AND h.event_hash = u.event_hash;

-- name: ReadHeldEvents :many
SELECT h.order_no, h.event_hash, h.due_at FROM held_events h
JOIN (SELECT unnest(@order_nos::bigint[]) AS order_no, unnest(@event_hashes::uuid[]) AS event_hash) u
  ON h.order_no = u.order_no AND h.event_hash = u.event_hash;
