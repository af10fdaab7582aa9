-- name: AddHeldEvents :copyfrom
INSERT INTO held_events (order_no, event_hash, reason, due_at, record_headers, body)
VALUES (@order_no, @event_hash, @reason, @due_at, @record_headers, @body);

-- name: SetHeldReasons :exec
UPDATE held_events h SET reason = u.reason, due_at = CASE WHEN h.due_at IS NULL THEN NULL ELSE u.due_at END
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
