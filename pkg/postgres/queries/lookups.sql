-- Locked, so that no answer overlooks a hint that is being held, and no claim begins
-- before it is.
-- name: LockLookups :many
SELECT l.source_no, l.object, l.armed, l.begun, l.answered_at, l.endpoint_no, l.event_type, l.order_id, l.payment_id, l.subject,
       l.amount, l.currency FROM lookups l
JOIN (SELECT unnest(@source_nos::smallint[]) AS source_no, unnest(@objects::text[]) AS object) u
  ON l.source_no = u.source_no AND l.object = u.object
ORDER BY l.source_no, l.object FOR UPDATE OF l;

-- An object is asked about at most every 5 s, however often it is armed. One that
-- waits after attempts without an answer is asked about again when there is news.
-- Another transaction may have added a row meanwhile: then its arming will do, for
-- nobody can have begun before it committed.
-- name: ArmLookups :many
INSERT INTO lookups (source_no, object, endpoint_no, event_type, order_id, payment_id, subject, amount, currency, occurred_at,
                     armed_at, due_at, review_at)
SELECT unnest(@source_nos::smallint[]), unnest(@objects::text[]), unnest(@endpoint_nos::smallint[]), unnest(@event_types::text[]),
       unnest(@order_ids::text[]), unnest(@payment_ids::text[]), unnest(@subjects::text[]), unnest(@amounts::bigint[]),
       unnest(@currencies::text[]), unnest(@occurred_at::bigint[]),
       @now::timestamptz, @now::timestamptz, @review_at::timestamptz
ON CONFLICT (source_no, object) DO UPDATE SET
  armed = GREATEST(lookups.armed, lookups.begun + 1),
  endpoint_no = excluded.endpoint_no, event_type = excluded.event_type, order_id = excluded.order_id,
  payment_id = excluded.payment_id, subject = excluded.subject, amount = excluded.amount, currency = excluded.currency,
  occurred_at = excluded.occurred_at,
  armed_at = CASE WHEN lookups.answered < lookups.armed THEN lookups.armed_at ELSE excluded.armed_at END,
  due_at = CASE WHEN lookups.answered < lookups.armed AND lookups.claimed_by IS NOT NULL THEN lookups.due_at
                WHEN lookups.answered < lookups.armed THEN LEAST(lookups.due_at, GREATEST(excluded.due_at, lookups.begun_at + interval '5 s'))
                ELSE GREATEST(excluded.due_at, lookups.begun_at + interval '5 s') END,
  review_at = CASE WHEN lookups.answered < lookups.armed THEN lookups.review_at ELSE excluded.review_at END
RETURNING source_no, object, armed;

-- name: HastenLookup :exec
UPDATE lookups SET due_at = LEAST(due_at, @now) WHERE source_no = @source_no AND object = @object AND claimed_by IS NULL;

-- What is locked is being armed or claimed; it comes next time. Strangers can name
-- objects that do not exist: their retries come after what was asked about less often.
-- name: ClaimLookups :many
UPDATE lookups l SET begun = l.armed, begun_at = @now, due_at = @lease_until, attempts = l.attempts + 1, claimed_by = @owner
FROM (SELECT c.source_no, c.object FROM lookups c
      WHERE c.source_no = @source_no AND c.answered < c.armed AND c.due_at <= @now ORDER BY c.attempts, c.due_at LIMIT @n::int FOR UPDATE SKIP LOCKED) d
WHERE l.source_no = d.source_no AND l.object = d.object
RETURNING l.object, l.endpoint_no, l.event_type, l.order_id, l.payment_id, l.subject, l.amount, l.currency, l.occurred_at, l.begun, l.armed_at, l.begun_at, l.attempts;

-- A look-up that began later may run already: then its lease stays.
-- name: AnswerLookup :many
UPDATE lookups l SET answered = u.begun, answered_at = u.began_at, problem = '',
  armed_at = CASE WHEN l.armed > u.begun THEN u.began_at ELSE l.armed_at END,
  review_at = CASE WHEN l.armed > u.begun THEN u.review_at ELSE l.review_at END,
  due_at = CASE WHEN l.begun > u.begun THEN l.due_at ELSE u.began_at + interval '5 s' END,
  attempts = CASE WHEN l.begun > u.begun THEN l.attempts ELSE 0 END,
  claimed_by = CASE WHEN l.begun > u.begun THEN l.claimed_by ELSE NULL END
FROM (SELECT @begun::bigint AS begun, @began_at::timestamptz AS began_at, @review_at::timestamptz AS review_at) u
WHERE l.source_no = @source_no AND l.object = @object AND l.answered < u.begun
RETURNING l.armed;

-- What was armed meanwhile does not wait for as long as what failed.
-- name: RetryLookup :exec
UPDATE lookups SET due_at = CASE WHEN armed > begun THEN LEAST(@due_at::timestamptz, begun_at + interval '5 s') ELSE @due_at::timestamptz END, problem = @problem, claimed_by = NULL
WHERE source_no = @source_no AND object = @object AND begun = @begun AND attempts = @attempts AND claimed_by = @owner;

-- name: GiveUpLookup :execrows
UPDATE lookups SET answered = armed, begun = armed, due_at = @now, claimed_by = NULL, attempts = 0
WHERE source_no = @source_no AND object = @object AND answered < armed;

-- name: AskAboutLookupAgain :exec
UPDATE lookups SET review_at = @review_at WHERE source_no = @source_no AND object = @object AND answered < armed;

-- name: TakeUnansweredLookups :many
UPDATE lookups l SET review_at = NULL
FROM (SELECT source_no, object FROM lookups
      WHERE answered < armed AND review_at <= @now::timestamptz ORDER BY review_at LIMIT @n::int FOR UPDATE SKIP LOCKED) d
WHERE l.source_no = d.source_no AND l.object = d.object
RETURNING l.source_no, l.object, l.attempts, l.problem, l.armed_at;

-- name: OpenLookups :many
SELECT n.name AS source, count(*) AS armed, min(l.armed_at)::timestamptz AS since
FROM lookups l JOIN names n ON n.name_no = l.source_no WHERE l.answered < l.armed GROUP BY n.name ORDER BY n.name;
