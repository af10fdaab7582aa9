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

-- What a person has discarded stays as it is; what was sent again counts by itself,
-- and here too if a replay was first to take it over.
-- name: SettleDeadLetters :many
UPDATE dead_letters d SET revived_at = now(), settled_at = coalesce(d.settled_at, now()), settled_as = coalesce(d.settled_as, 'readable')
FROM (SELECT unnest(@topic_ids::uuid[]) AS topic_id, unnest(@partitions::int[]) AS partition,
             unnest(@record_offsets::bigint[]) AS record_offset) u
WHERE d.topic_id = u.topic_id AND d.partition = u.partition AND d.record_offset = u.record_offset
  AND d.revived_at IS NULL AND d.settled_as IS DISTINCT FROM 'discarded'
RETURNING d.topic, d.partition, d.record_offset, d.endpoint_no, d.appended_at;

-- name: DiscardedDeadLetters :many
SELECT d.partition, d.record_offset FROM dead_letters d
JOIN (SELECT unnest(@partitions::int[]) AS partition, unnest(@firsts::bigint[]) AS first, unnest(@lasts::bigint[]) AS last) u
  ON d.partition = u.partition AND d.record_offset BETWEEN u.first AND u.last
WHERE d.topic_id = @topic_id AND d.settled_as = 'discarded';

-- Who decides on a letter takes its row first, its review item second.
-- name: LockDeadLetters :exec
SELECT FROM dead_letters WHERE topic = @topic AND partition = @partition AND record_offset = @record_offset FOR UPDATE;

-- name: DiscardDeadLetters :exec
UPDATE dead_letters SET settled_at = @now::timestamptz, settled_by = @who::text, settled_as = 'discarded'
WHERE topic = @topic AND partition = @partition AND record_offset = @record_offset AND settled_at IS NULL;

-- name: TakeDeadLetters :many
SELECT d.topic_id, d.partition, d.record_offset, d.topic, d.reason, d.detail, d.record_key, d.record_headers, d.body, d.appended_at, i.id AS item
FROM dead_letters d
JOIN (SELECT unnest(@topic_ids::uuid[]) AS topic_id, unnest(@partitions::int[]) AS partition,
             unnest(@record_offsets::bigint[]) AS record_offset) u
  ON d.topic_id = u.topic_id AND d.partition = u.partition AND d.record_offset = u.record_offset
JOIN review_items i ON i.kind = 'dead_letter' AND i.subject = d.topic || '/' || d.partition || '/' || d.record_offset
WHERE d.settled_at IS NULL AND i.settled_at IS NULL AND i.claimed_by = @who::text
ORDER BY d.appended_at, d.partition, d.record_offset FOR UPDATE OF d SKIP LOCKED;

-- name: SettleSentDeadLetters :execrows
UPDATE dead_letters d SET settled_at = @now::timestamptz, settled_by = @who::text, settled_as = 'sent_again'
FROM (SELECT unnest(@topic_ids::uuid[]) AS topic_id, unnest(@partitions::int[]) AS partition,
             unnest(@record_offsets::bigint[]) AS record_offset) u
WHERE d.topic_id = u.topic_id AND d.partition = u.partition AND d.record_offset = u.record_offset;

-- name: SettleSentReviewItems :exec
UPDATE review_items SET settled_at = @now::timestamptz, settled_by = @who::text, decision = 'send_again'
WHERE id = ANY(@ids::bigint[]) AND settled_at IS NULL;

-- Newest first where topics of one name followed each other: the caller takes the first.
-- name: ListDeadLetters :many
SELECT d.topic_id, d.topic, d.partition, d.record_offset, n.name AS endpoint, d.reason, d.detail, d.record_key, coalesce(length(d.body), 0)::int AS size,
       d.appended_at, d.created_at, d.published_at, d.settled_at, d.settled_by, d.settled_as, d.revived_at, coalesce(i.id, 0)::bigint AS item, i.claimed_by, i.claimed_at
FROM dead_letters d JOIN names n ON n.name_no = d.endpoint_no
LEFT JOIN review_items i ON i.kind = 'dead_letter' AND i.subject = d.topic || '/' || d.partition || '/' || d.record_offset
WHERE (@endpoint::text = '' OR n.name = @endpoint::text) AND (@reason::text = '' OR d.reason = @reason::text)
  AND d.created_at >= @since::timestamptz AND (@open::boolean AND d.settled_at IS NULL OR @settled::boolean AND d.settled_at IS NOT NULL)
  AND (d.created_at, d.partition, d.record_offset) > (@after_at::timestamptz, @after_partition::int, @after_offset::bigint)
ORDER BY d.created_at, d.partition, d.record_offset LIMIT @n::int;

-- name: CountDeadLetters :many
SELECT n.name AS endpoint, d.reason, count(*) FILTER (WHERE d.settled_at IS NULL) AS open,
       count(*) FILTER (WHERE d.settled_as = 'sent_again') AS sent_again, count(*) FILTER (WHERE d.settled_as = 'discarded') AS discarded,
       count(*) FILTER (WHERE d.settled_as = 'readable') AS readable, min(d.created_at) FILTER (WHERE d.settled_at IS NULL)::timestamptz AS oldest
FROM dead_letters d JOIN names n ON n.name_no = d.endpoint_no
WHERE (@endpoint::text = '' OR n.name = @endpoint::text) AND (@reason::text = '' OR d.reason = @reason::text) AND d.created_at >= @since::timestamptz
GROUP BY 1, 2 ORDER BY 1, 2;

-- name: CountOpenDeadLetters :one
SELECT count(*) FROM dead_letters WHERE settled_at IS NULL;

-- name: GetDeadLetter :one
SELECT d.topic_id, d.topic, d.partition, d.record_offset, n.name AS endpoint, d.reason, d.detail, d.record_key, d.record_headers, d.body,
       d.appended_at, d.created_at, d.published_at, d.settled_at, d.settled_by, d.settled_as, d.revived_at, coalesce(i.id, 0)::bigint AS item, i.claimed_by, i.claimed_at
FROM dead_letters d JOIN names n ON n.name_no = d.endpoint_no
LEFT JOIN review_items i ON i.kind = 'dead_letter' AND i.subject = d.topic || '/' || d.partition || '/' || d.record_offset
WHERE (@topic::text = '' OR d.topic = @topic::text) AND d.partition = @partition AND d.record_offset = @record_offset
ORDER BY d.created_at DESC LIMIT 1;

-- name: FindOpenDeadLetters :many
SELECT d.partition, d.record_offset FROM dead_letters d
JOIN (SELECT unnest(@partitions::int[]) AS partition, unnest(@record_offsets::bigint[]) AS record_offset) u
  ON d.partition = u.partition AND d.record_offset = u.record_offset
WHERE d.topic_id = @topic_id AND d.revived_at IS NULL;

-- Those among places, settled or not; open as SettleDeadLetters means it.
-- name: ReadDeadLetters :many
SELECT d.topic, d.partition, d.record_offset, d.endpoint_no, d.appended_at,
       (d.revived_at IS NULL AND d.settled_as IS DISTINCT FROM 'discarded')::boolean AS open
FROM dead_letters d
JOIN (SELECT unnest(@topic_ids::uuid[]) AS topic_id, unnest(@partitions::int[]) AS partition,
             unnest(@record_offsets::bigint[]) AS record_offset) u
  ON d.topic_id = u.topic_id AND d.partition = u.partition AND d.record_offset = u.record_offset;
