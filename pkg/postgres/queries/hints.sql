-- Returns those that were not waiting already.
-- name: HoldHints :many
INSERT INTO hints (source_no, object, event_hash, arming, appended_at, held_at, record_offset, partition, endpoint_no,
                   event_id, event_type, order_id, payment_id)
SELECT unnest(@source_nos::smallint[]), unnest(@objects::text[]), unnest(@event_hashes::uuid[]), unnest(@armings::bigint[]),
       unnest(@appended_at::timestamptz[]), @held_at::timestamptz, unnest(@record_offsets::bigint[]), unnest(@partitions::int[]),
       unnest(@endpoint_nos::smallint[]), unnest(@event_ids::text[]), unnest(@event_types::text[]), unnest(@order_ids::text[]),
       unnest(@payment_ids::text[])
ON CONFLICT (source_no, object, event_hash) DO UPDATE SET
  arming = excluded.arming, appended_at = excluded.appended_at, held_at = excluded.held_at, settled_at = NULL,
  record_offset = excluded.record_offset, partition = excluded.partition, endpoint_no = excluded.endpoint_no,
  event_type = excluded.event_type, order_id = excluded.order_id, payment_id = excluded.payment_id
  WHERE hints.settled_at IS NOT NULL
RETURNING source_no, object, event_hash;

-- name: SettleHints :many
UPDATE hints SET settled_at = @now::timestamptz
WHERE source_no = @source_no AND object = @object AND settled_at IS NULL AND arming <= @arming
RETURNING endpoint_no, appended_at;

-- name: ReadHints :many
SELECT h.source_no, h.object, h.event_hash, h.settled_at FROM hints h
JOIN (SELECT unnest(@source_nos::smallint[]) AS source_no, unnest(@objects::text[]) AS object, unnest(@event_hashes::uuid[]) AS event_hash) u
  ON h.source_no = u.source_no AND h.object = u.object AND h.event_hash = u.event_hash;
