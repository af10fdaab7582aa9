-- Locked, so that no answer overlooks a hint that is being held, and no claim begins
-- before it is.
-- name: LockLookups :many
SELECT l.source_no, l.object, l.armed, l.begun, l.answered, l.answered_at, l.endpoint_no, l.event_type, l.order_id, l.payment_id, l.subject,
       l.amount, l.currency, l.due_at FROM lookups l
JOIN (SELECT unnest(@source_nos::smallint[]) AS source_no, unnest(@objects::text[]) AS object) u
  ON l.source_no = u.source_no AND l.object = u.object
ORDER BY l.source_no, l.object FOR UPDATE OF l;

-- An object is asked about at most every 5 s, however often it is armed. One that
-- waits after attempts without an answer is asked about again when there is news.
-- Another transaction may have added a row meanwhile: then its arming will do, for
-- nobody can have begun before it committed.
-- name: ArmLookups :many
INSERT INTO lookups (source_no, object, endpoint_no, event_type, order_id, payment_id, subject, amount, currency, occurred_at,
                     lane, order_no, event_hash, armed_at, due_at, review_at)
SELECT unnest(@source_nos::smallint[]), unnest(@objects::text[]), unnest(@endpoint_nos::smallint[]), unnest(@event_types::text[]),
       unnest(@order_ids::text[]), unnest(@payment_ids::text[]), unnest(@subjects::text[]), unnest(@amounts::bigint[]),
       unnest(@currencies::text[]), unnest(@occurred_at::bigint[]),
       unnest(@lanes::smallint[]), NULLIF(unnest(@order_nos::bigint[]), 0), unnest(@event_hashes::uuid[]),
       @now::timestamptz, unnest(@due_at::timestamptz[]), unnest(@review_at::timestamptz[])
ON CONFLICT (source_no, object) DO UPDATE SET
  armed = GREATEST(lookups.armed, lookups.begun + 1),
  endpoint_no = excluded.endpoint_no, event_type = excluded.event_type, order_id = excluded.order_id,
  payment_id = excluded.payment_id, subject = excluded.subject, amount = excluded.amount, currency = excluded.currency,
  occurred_at = excluded.occurred_at,
  lane = CASE WHEN lookups.answered < lookups.armed THEN LEAST(lookups.lane, excluded.lane) ELSE excluded.lane END,
  order_no = CASE WHEN lookups.answered < lookups.armed THEN COALESCE(excluded.order_no, lookups.order_no) ELSE excluded.order_no END,
  event_hash = CASE WHEN excluded.order_no IS NULL AND lookups.answered < lookups.armed THEN lookups.event_hash ELSE excluded.event_hash END,
  armed_at = CASE WHEN lookups.answered < lookups.armed THEN lookups.armed_at ELSE excluded.armed_at END,
  due_at = CASE WHEN lookups.answered < lookups.armed AND lookups.claimed_by IS NOT NULL THEN lookups.due_at
                WHEN lookups.answered < lookups.armed THEN LEAST(lookups.due_at, GREATEST(excluded.due_at, lookups.begun_at + interval '5 s'))
                ELSE GREATEST(excluded.due_at, lookups.begun_at + interval '5 s') END,
  review_at = CASE WHEN lookups.answered < lookups.armed THEN lookups.review_at ELSE excluded.review_at END
RETURNING source_no, object, armed;

-- name: HastenLookup :exec
UPDATE lookups SET due_at = LEAST(due_at, @now) WHERE source_no = @source_no AND object = @object AND claimed_by IS NULL;

-- What is locked is being armed or claimed. It comes next time.
-- name: ClaimLookups :many
UPDATE lookups l SET begun = l.armed, begun_at = @now, due_at = @lease_until, attempts = l.attempts + 1, claimed_by = @owner
FROM (SELECT c.source_no, c.object FROM lookups c
      WHERE c.source_no = @source_no AND c.lane = @lane AND c.answered < c.armed AND c.due_at <= @now ORDER BY c.due_at LIMIT @n::int FOR UPDATE SKIP LOCKED) d
WHERE l.source_no = d.source_no AND l.object = d.object
RETURNING l.object, l.endpoint_no, l.event_type, l.order_id, l.payment_id, l.subject, l.amount, l.currency, l.occurred_at, l.begun, l.armed_at, l.begun_at, l.attempts,
          l.order_no, l.event_hash;

-- For whom the look-ups of one source are: nobody any more, if the order is decided, or
-- the event is held no longer, and no hint waits; or for a refund of the payment
-- whose end nobody has told.
-- name: IdleLookups :many
WITH u AS (SELECT unnest(@objects::text[]) AS object, unnest(@order_nos::bigint[]) AS order_no, unnest(@event_hashes::uuid[]) AS event_hash),
refunds AS (
  SELECT DISTINCT u.object FROM u
  JOIN payments p ON p.source_no = @source_no AND p.payment_id = u.object -- whatever order it was when it was armed
  JOIN order_events e ON e.order_no = p.order_no AND e.source_no = p.source_no AND e.payment_id = p.payment_id
  WHERE e.kind = @under_way::smallint AND e.object_id NOT IN ('', e.payment_id)
    AND NOT EXISTS (SELECT FROM order_events d WHERE d.order_no = e.order_no AND d.source_no = e.source_no
                    AND d.payment_id = e.payment_id AND d.object_id = e.object_id AND d.kind = ANY(@ends::smallint[])))
SELECT u.object::text AS object, (r.object IS NOT NULL)::boolean AS refund,
  (r.object IS NULL
    AND CASE WHEN u.event_hash IS NULL THEN NOT EXISTS (SELECT FROM orders o WHERE o.order_no = u.order_no AND o.status = @pending::smallint)
             ELSE NOT EXISTS (SELECT FROM held_events h WHERE h.order_no = u.order_no AND h.event_hash = u.event_hash) END
    AND NOT EXISTS (SELECT FROM hints h WHERE h.source_no = @source_no AND h.object = u.object AND h.settled_at IS NULL))::boolean AS idle
FROM u LEFT JOIN refunds r ON r.object = u.object;

-- A refund has ended that is asked about: then it may be over, also if it is being
-- asked about now.
-- name: HastenRefunds :exec
UPDATE lookups l SET armed = GREATEST(l.armed, l.begun + 1), due_at = CASE WHEN l.claimed_by IS NULL THEN LEAST(l.due_at, @now) ELSE l.due_at END
FROM (SELECT unnest(@source_nos::smallint[]) AS source_no, unnest(@objects::text[]) AS object) u
WHERE l.source_no = u.source_no AND l.object = u.object AND l.answered < l.armed AND l.event_hash IS NOT NULL;

-- name: CloseLookups :many
UPDATE lookups SET answered = armed, begun = armed, due_at = @now, claimed_by = NULL, attempts = 0, order_no = NULL, event_hash = NULL
WHERE source_no = @source_no AND object = ANY(@objects::text[]) AND answered < armed
RETURNING object;

-- What is asked about for a hint already is for what hangs, too.
-- name: JoinLookups :exec
UPDATE lookups l SET order_no = u.order_no, event_hash = u.event_hash
FROM (SELECT unnest(@objects::text[]) AS object, unnest(@order_nos::bigint[]) AS order_no, unnest(@event_hashes::uuid[]) AS event_hash) u
WHERE l.source_no = @source_no AND l.object = u.object AND l.answered < l.armed;

-- How many hints wait that name the order, up to n.
-- name: CountWaitingHints :many
SELECT u.order_id::text AS order_id, (SELECT count(*) FROM (SELECT 1 FROM hints h WHERE h.order_id = u.order_id AND h.order_id <> '' AND h.settled_at IS NULL LIMIT @n::int) w) AS waiting
FROM (SELECT unnest(@order_ids::text[]) AS order_id) u;

-- A look-up that began later may run already: then its lease stays.
-- name: AnswerLookup :many
UPDATE lookups l SET answered = u.begun, answered_at = u.began_at, problem = '',
  armed_at = CASE WHEN l.armed > u.begun THEN u.began_at ELSE l.armed_at END,
  review_at = CASE WHEN l.armed > u.begun THEN u.review_at ELSE l.review_at END,
  due_at = CASE WHEN l.begun > u.begun THEN l.due_at ELSE u.began_at + interval '5 s' END,
  attempts = CASE WHEN l.begun > u.begun THEN l.attempts ELSE 0 END,
  claimed_by = CASE WHEN l.begun > u.begun THEN l.claimed_by ELSE NULL END,
  order_no = CASE WHEN l.armed > u.begun THEN l.order_no ELSE NULL END,
  event_hash = CASE WHEN l.armed > u.begun THEN l.event_hash ELSE NULL END
FROM (SELECT @begun::bigint AS begun, @began_at::timestamptz AS began_at, @review_at::timestamptz AS review_at) u
WHERE l.source_no = @source_no AND l.object = @object AND l.answered < u.begun
RETURNING l.armed;

-- What was armed meanwhile does not wait for as long as what failed. What a stranger
-- named and the provider does not know goes on in a lane of its own.
-- name: RetryLookup :exec
UPDATE lookups SET lane = CASE WHEN lane = @strangers::smallint AND @problem = 'unknown' THEN @retries::smallint ELSE lane END, due_at = CASE WHEN armed > begun THEN LEAST(@due_at::timestamptz, begun_at + interval '5 s') ELSE @due_at::timestamptz END, problem = @problem, claimed_by = NULL
WHERE source_no = @source_no AND object = @object AND begun = @begun AND attempts = @attempts AND claimed_by = @owner;

-- The hints that wait for it need wait no longer, but the refund is not decided. Only
-- what fails is before a person earlier than the deadline.
-- name: AnswerHanging :many
UPDATE lookups SET due_at = CASE WHEN armed > begun THEN LEAST(@due_at::timestamptz, begun_at + interval '5 s') ELSE @due_at::timestamptz END,
  problem = @problem, claimed_by = NULL,
  review_at = CASE WHEN review_at IS NULL THEN NULL ELSE GREATEST(review_at, @review_at) END
WHERE source_no = @source_no AND object = @object AND begun = @begun AND answered < armed AND claimed_by = @owner
RETURNING armed;

-- name: EndLookup :execrows
UPDATE lookups l SET answered = l.armed, begun = l.armed, due_at = @now, claimed_by = NULL, attempts = 0, order_no = NULL, event_hash = NULL
WHERE l.source_no = @source_no AND l.object = @object AND l.armed = @begun AND l.answered < l.armed AND l.claimed_by = @owner
  AND NOT EXISTS (SELECT FROM hints h WHERE h.source_no = l.source_no AND h.object = l.object AND h.settled_at IS NULL);

-- name: AskAboutLookupAgain :exec
UPDATE lookups SET review_at = @review_at WHERE source_no = @source_no AND object = @object AND answered < armed;

-- name: TakeUnansweredLookups :many
UPDATE lookups l SET review_at = NULL
FROM (SELECT source_no, object FROM lookups
      WHERE answered < armed AND review_at <= @now::timestamptz ORDER BY review_at LIMIT @n::int FOR UPDATE SKIP LOCKED) d
WHERE l.source_no = d.source_no AND l.object = d.object
RETURNING l.source_no, l.object, l.attempts, l.problem, l.armed_at, l.lane, l.payment_id, l.order_id, l.order_no, l.event_hash;

-- name: OpenLookups :many
SELECT n.name AS source, count(*) FILTER (WHERE l.lane <> @orders::smallint) AS open, count(*) FILTER (WHERE l.lane = @orders::smallint) AS hanging,
       COALESCE(min(l.armed_at) FILTER (WHERE l.lane <> @orders::smallint), 'infinity')::timestamptz AS since
FROM lookups l JOIN names n ON n.name_no = l.source_no WHERE l.answered < l.armed GROUP BY n.name ORDER BY n.name;

-- name: SettleHangingOrders :execrows
UPDATE review_items i SET settled_at = @now::timestamptz, decision = @decision::text
FROM (SELECT r.id FROM review_items r JOIN orders o ON o.order_no = r.order_no
      WHERE r.settled_at IS NULL AND r.kind = @kind AND o.status <> @pending::smallint ORDER BY r.created_at LIMIT @n::int) d
WHERE i.id = d.id AND i.settled_at IS NULL;

-- What LockLookups reads, without a lock.
-- name: ReadLookups :many
SELECT l.source_no, l.object, l.armed, l.begun, l.answered, l.answered_at, l.endpoint_no, l.event_type, l.order_id, l.payment_id, l.subject,
       l.amount, l.currency, l.due_at FROM lookups l
JOIN (SELECT unnest(@source_nos::smallint[]) AS source_no, unnest(@objects::text[]) AS object) u
  ON l.source_no = u.source_no AND l.object = u.object;
