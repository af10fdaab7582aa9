-- name: AddDeadLetter :execrows
INSERT INTO dead_letters (topic_id, partition, record_offset, topic, endpoint_no, reason, detail, record_key, record_headers, body, appended_at)
VALUES (@topic_id, @partition, @record_offset, @topic, @endpoint_no, @reason, @detail, @record_key, @record_headers, @body, @appended_at)
ON CONFLICT DO NOTHING;

-- name: UnpublishedDeadLetters :many
SELECT topic_id, partition, record_offset, topic, reason, detail, record_key, record_headers, body, appended_at
FROM dead_letters WHERE published_at IS NULL
ORDER BY created_at LIMIT @n::int FOR UPDATE SKIP LOCKED;

-- name: MarkDeadLetterPublished :exec
UPDATE dead_letters SET published_at = now()
WHERE topic_id = @topic_id AND partition = @partition AND record_offset = @record_offset;

-- name: SettleDeadLetters :many
UPDATE dead_letters d SET settled_at = now()
FROM (SELECT unnest(@topic_ids::uuid[]) AS topic_id, unnest(@partitions::int[]) AS partition,
             unnest(@record_offsets::bigint[]) AS record_offset) u
WHERE d.topic_id = u.topic_id AND d.partition = u.partition AND d.record_offset = u.record_offset
  AND d.settled_at IS NULL
RETURNING d.topic, d.partition, d.record_offset, d.endpoint_no, d.appended_at;
