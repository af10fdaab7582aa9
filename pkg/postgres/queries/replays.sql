-- name: AbandonLapsedReplay :execrows
UPDATE replays SET state = 'abandoned', ended_at = clock_timestamp()
WHERE topic_id = @topic_id AND ended_at IS NULL AND state = 'pausing' AND pause_until <= clock_timestamp();

-- name: AddReplay :one
INSERT INTO replays (topic_id, topic, state, who, reason, plan, pause_until)
VALUES (@topic_id, @topic, 'pausing', @who, @reason, @plan, clock_timestamp() + @pause::interval)
ON CONFLICT (topic_id) WHERE ended_at IS NULL DO NOTHING
RETURNING id;

-- name: AddReplayPartitions :exec
INSERT INTO replay_partitions (replay_id, partition, from_offset, skip)
SELECT @replay_id, unnest(@partitions::int[]), unnest(@from_offsets::bigint[]), unnest(@skips::boolean[]);

-- name: OpenReplay :one
SELECT id, (state = 'pausing' AND pause_until <= clock_timestamp())::boolean AS lapsed
FROM replays WHERE topic_id = @topic_id AND ended_at IS NULL;

-- name: ListReplays :many
SELECT id, topic_id, topic, state, (state = 'pausing' AND pause_until > clock_timestamp())::boolean AS paused,
       who, reason, plan, asked_at, started_at, ended_at, stopped_by, stop_reason
FROM replays WHERE (@id::bigint = 0 OR id = @id) AND (sqlc.narg(topic_id)::uuid IS NULL OR topic_id = sqlc.narg(topic_id))
ORDER BY id DESC LIMIT @n;

-- name: ReplayPartitions :many
SELECT * FROM replay_partitions WHERE replay_id = ANY(@replay_ids::bigint[]) ORDER BY replay_id, partition;

-- name: ExtendPause :execrows
UPDATE replays SET pause_until = clock_timestamp() + @pause::interval
WHERE id = @id AND state = 'pausing' AND ended_at IS NULL AND pause_until > clock_timestamp();

-- name: StartReplay :one
UPDATE replays SET state = 'running', started_at = clock_timestamp()
WHERE id = @id AND state = 'pausing' AND ended_at IS NULL AND pause_until > clock_timestamp()
RETURNING topic, who, reason, plan, started_at;

-- name: AbandonReplay :execrows
UPDATE replays SET state = 'abandoned', ended_at = clock_timestamp()
WHERE id = @id AND state = 'pausing' AND ended_at IS NULL;

-- name: StopReplay :one
UPDATE replays SET state = 'abandoned', ended_at = clock_timestamp(), stopped_by = @who::text, stop_reason = @why::text
WHERE id = @id AND state = 'running' AND ended_at IS NULL
RETURNING topic, ended_at;

-- name: ReportPaused :execrows
UPDATE replay_partitions rp SET paused_by = @owner::text, paused_at = clock_timestamp()
FROM replays r, partitions p
WHERE rp.replay_id = @replay_id AND rp.partition = @partition
  AND r.id = rp.replay_id AND r.state = 'pausing' AND r.ended_at IS NULL
  AND p.topic_id = r.topic_id AND p.partition = rp.partition AND p.epoch = @epoch;

-- name: ReplayHasPartition :one
SELECT EXISTS (SELECT 1 FROM replay_partitions WHERE replay_id = @replay_id AND partition = @partition);

-- name: LockReplay :one
SELECT topic_id, topic, state, who FROM replays WHERE id = @id FOR NO KEY UPDATE;

-- name: LockReplayPartition :one
SELECT from_offset, skip, until_offset, (ended_at IS NOT NULL)::boolean AS ended
FROM replay_partitions WHERE replay_id = @replay_id AND partition = @partition FOR NO KEY UPDATE;

-- name: TakeReplayPartition :exec
UPDATE replay_partitions SET until_offset = @until_offset::bigint, taken_at = clock_timestamp(),
  ended_at = CASE WHEN from_offset >= @until_offset::bigint THEN clock_timestamp() END
WHERE replay_id = @replay_id AND partition = @partition;

-- name: EndReplayPartition :exec
UPDATE replay_partitions SET ended_at = clock_timestamp()
WHERE replay_id = @replay_id AND partition = @partition AND taken_at IS NOT NULL AND ended_at IS NULL;

-- name: EndReplay :execrows
UPDATE replays r SET state = 'done', ended_at = clock_timestamp()
WHERE r.id = @id AND r.state = 'running' AND r.ended_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM replay_partitions rp WHERE rp.replay_id = r.id AND rp.ended_at IS NULL);

-- name: CountReplay :exec
UPDATE replay_partitions SET applied = applied + @applied, no_change = no_change + @no_change, held = held + @held,
  dead = dead + @dead, changes = changes + @changes, effects = effects + @effects
WHERE replay_id = @replay_id AND partition = @partition;

-- name: KnowPartition :exec
INSERT INTO partitions (topic_id, partition, topic, owner, epoch) VALUES (@topic_id, @partition, @topic, 'nobody', 0)
ON CONFLICT DO NOTHING;

-- name: AddSkippedOffsets :exec
INSERT INTO review_items (kind, subject, detail, settled_at, settled_by, decision)
VALUES ('offset_gap', @subject, @detail, clock_timestamp(), @who::text, 'skip')
ON CONFLICT (kind, subject) DO UPDATE
  SET detail = excluded.detail, settled_at = excluded.settled_at, settled_by = excluded.settled_by, decision = excluded.decision
  WHERE review_items.settled_at IS NULL;

-- name: NotifyReplays :exec
NOTIFY replays;
