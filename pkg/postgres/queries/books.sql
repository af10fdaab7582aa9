-- name: AddToBooks :exec
INSERT INTO books (topic_id, partition, hour, endpoint_no, verdict, events)
SELECT @topic_id::uuid, @partition::int, unnest(@hours::timestamptz[]),
       unnest(@endpoint_nos::smallint[]), unnest(@verdicts::smallint[]), unnest(@events::bigint[])
ON CONFLICT (topic_id, partition, hour, endpoint_no, verdict) DO UPDATE SET events = books.events + excluded.events;

-- name: SumBooks :many
SELECT n.name AS endpoint, b.hour, b.verdict, sum(b.events)::bigint AS events
FROM books b JOIN names n ON n.name_no = b.endpoint_no
WHERE b.hour >= @since
GROUP BY n.name, b.hour, b.verdict ORDER BY b.hour, n.name, b.verdict;
