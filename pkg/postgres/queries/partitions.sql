-- name: ClaimPartition :one
INSERT INTO partitions (topic_id, partition, topic, owner, epoch)
VALUES (@topic_id, @partition, @topic, @owner, 1)
ON CONFLICT (topic_id, partition) DO UPDATE
  SET owner = excluded.owner, topic = excluded.topic, epoch = partitions.epoch + 1
RETURNING epoch, applied_offset;

-- name: LockPartitions :many
SELECT partition, epoch, applied_offset FROM partitions
WHERE topic_id = @topic_id AND partition = ANY(@partitions::int[])
ORDER BY partition
FOR NO KEY UPDATE;

-- name: ReadPartitions :many
SELECT partition, epoch, applied_offset FROM partitions
WHERE topic_id = @topic_id AND partition = ANY(@partitions::int[]);

-- name: SetAppliedOffsets :exec
UPDATE partitions p SET applied_offset = GREATEST(p.applied_offset, u.last_offset)
FROM (SELECT unnest(@partitions::int[]) AS partition, unnest(@last_offsets::bigint[]) AS last_offset) u
WHERE p.topic_id = @topic_id AND p.partition = u.partition;

-- name: AppliedOffsets :many
SELECT partition, applied_offset FROM partitions WHERE topic_id = @topic_id;
