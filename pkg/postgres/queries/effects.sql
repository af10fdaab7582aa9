-- name: AddEffects :many
INSERT INTO effects (key, order_no, effect, fact_source, fact_kind, fact_payment, fact_object, version, created_at, due_at, body)
SELECT unnest(@keys::uuid[]), unnest(@order_nos::bigint[]), unnest(@effects::text[]), unnest(@fact_sources::text[]),
       unnest(@fact_kinds::smallint[]), unnest(@fact_payments::text[]), unnest(@fact_objects::text[]), unnest(@versions::bigint[]),
       @now::timestamptz, unnest(@due_at::timestamptz[]), unnest(@bodies::bytea[])
ON CONFLICT (key) DO NOTHING
RETURNING key;

-- name: LockEffectsOfOrders :many
SELECT key, order_no, effect, state, outdated, attempt FROM effects
WHERE order_no = ANY(@order_nos::bigint[]) ORDER BY key FOR UPDATE;

-- name: WithdrawEffects :exec
UPDATE effects SET state = 3, due_at = @now::timestamptz WHERE key = ANY(@keys::uuid[]);

-- An attempt that is under way goes on; what became of it is written down.
-- name: OutdateEffects :exec
UPDATE effects SET outdated = true, state = CASE WHEN state IN (0, 4) THEN 3 ELSE state END,
  due_at = CASE WHEN state IN (0, 4) THEN @now::timestamptz ELSE due_at END
WHERE key = ANY(@keys::uuid[]);

-- name: ReviveEffects :exec
UPDATE effects e SET outdated = false, state = CASE WHEN e.state = 3 THEN 0 ELSE e.state END,
  due_at = CASE WHEN e.state = 3 THEN u.due_at ELSE e.due_at END,
  series = CASE WHEN e.state = 3 THEN e.attempt ELSE e.series END
FROM (SELECT unnest(@keys::uuid[]) AS key, unnest(@due_at::timestamptz[]) AS due_at) u
WHERE e.key = u.key;

-- One index range an effect: what is due of one never lies behind another's backlog.
-- What is locked is being withdrawn, claimed or finished; it comes next time. What a
-- correction outdated while a dispatcher had it that died is not attempted again.
-- The keys go through an array: the planner takes a join with what is due for thousands
-- of rows and reads the whole table (60 ms at 20,000 rows on 2026-11-30; 1 ms so).
-- name: ClaimEffects :many
WITH due AS (
  SELECT c.key, c.state, c.attempt, c.claimed_at, c.outdated
  FROM (SELECT unnest(@effects::text[]) AS effect, unnest(@ns::int[]) AS n) w
  CROSS JOIN LATERAL (
    SELECT e.key, e.state, e.attempt, e.claimed_at, e.outdated FROM effects e
    WHERE e.effect = w.effect AND e.state IN (0, 1) AND e.due_at <= @now::timestamptz
    ORDER BY e.due_at LIMIT w.n FOR UPDATE SKIP LOCKED) c
), lost AS (
  INSERT INTO effect_attempts (key, attempt, status, latency_ms, started_at, class, answer)
  SELECT d.key, d.attempt, 0, 0, d.claimed_at, 'lost', '' FROM due d WHERE d.state = 1
  ON CONFLICT DO NOTHING
), unwanted AS (
  UPDATE effects e SET state = 3, due_at = @now::timestamptz FROM due d WHERE e.key = d.key AND d.outdated
)
UPDATE effects f SET state = 1, attempt = f.attempt + 1, due_at = (@lease_until::timestamptz[])[array_position(@effects::text[], f.effect)],
  claimed_at = @now::timestamptz, claimed_by = @owner::text
FROM orders o WHERE f.key = ANY(ARRAY(SELECT d.key FROM due d WHERE NOT d.outdated)) AND o.order_no = f.order_no
RETURNING f.key, f.effect, o.order_id, f.order_no, f.attempt, f.series, f.created_at, f.body;

-- name: LockEffects :many
SELECT key, order_no, effect, state, outdated, attempt, series FROM effects
WHERE key = ANY(@keys::uuid[]) ORDER BY key FOR UPDATE;

-- name: SetEffects :exec
UPDATE effects e SET state = u.state, due_at = u.due_at, series = u.series
FROM (SELECT unnest(@keys::uuid[]) AS key, unnest(@states::smallint[]) AS state, unnest(@due_at::timestamptz[]) AS due_at,
             unnest(@series::int[]) AS series) u
WHERE e.key = u.key;

-- What an attempt says itself counts more than that nobody had heard of it.
-- name: AddEffectAttempts :exec
INSERT INTO effect_attempts (key, attempt, status, latency_ms, started_at, class, answer)
SELECT unnest(@keys::uuid[]), unnest(@attempts::int[]), unnest(@statuses::smallint[]), unnest(@latencies::int[]),
       unnest(@started_at::timestamptz[]), unnest(@classes::text[]), unnest(@answers::text[])
ON CONFLICT (key, attempt) DO UPDATE SET status = excluded.status, latency_ms = excluded.latency_ms, started_at = excluded.started_at,
  class = excluded.class, answer = excluded.answer WHERE effect_attempts.class = 'lost';

-- name: SendEffectAgain :exec
UPDATE effects SET state = 0, due_at = @now::timestamptz, series = attempt WHERE key = @key;

-- name: CountEffects :many
SELECT e.effect, count(*) AS due, min(e.due_at)::timestamptz AS oldest, 0::bigint AS failed
FROM effects e WHERE e.state IN (0, 1) AND e.due_at <= @now::timestamptz GROUP BY e.effect
UNION ALL
SELECT f.effect, 0, 'infinity', count(*) FROM effects f WHERE f.state = 4 GROUP BY f.effect;

-- name: ListEffects :many
SELECT e.key, e.effect, e.order_no, coalesce(o.order_id, '')::text AS order_id, e.state, e.outdated, e.fact_source, e.fact_kind, e.fact_payment,
       e.fact_object, e.version, e.attempt, e.series, e.created_at, e.due_at,
       coalesce(a.status, 0)::smallint AS status, coalesce(a.class, '')::text AS class, coalesce(a.started_at, e.created_at)::timestamptz AS last_at
FROM effects e JOIN orders o ON o.order_no = e.order_no
LEFT JOIN LATERAL (SELECT * FROM effect_attempts t WHERE t.key = e.key ORDER BY t.attempt DESC LIMIT 1) a ON true
WHERE (@open::boolean AND e.state IN (0, 1) OR @failed::boolean AND e.state = 4 OR @ended::boolean AND e.state IN (2, 3))
  AND (@order_no::bigint = 0 OR e.order_no = @order_no::bigint) AND e.state = ANY(@states::smallint[]) AND (@effect::text = '' OR e.effect = @effect::text)
  AND (cardinality(@keys::uuid[]) = 0 OR e.key = ANY(@keys::uuid[]))
ORDER BY e.created_at, e.version, e.effect, e.key LIMIT @n::int;

-- name: EffectBody :one
SELECT body FROM effects WHERE key = @key;

-- name: FailedEffects :many
SELECT key FROM effects WHERE state = 4 AND effect = @effect ORDER BY due_at LIMIT @n::int;

-- Whoever has claimed the item decides; nobody has to claim it for this.
-- name: SettleEffectItem :execrows
UPDATE review_items SET settled_at = @now::timestamptz, settled_by = @who::text, decision = 'send_again'
WHERE id = @id AND settled_at IS NULL AND (claimed_by IS NULL OR claimed_by = @who::text OR claimed_at <= @expired::timestamptz);

-- name: GetEffectItem :one
SELECT id, claimed_by, claimed_at, settled_at FROM review_items WHERE kind = 'effect_failed' AND subject = @subject;

-- name: EffectAttempts :many
SELECT attempt, status, latency_ms, started_at, class, answer FROM effect_attempts WHERE key = @key ORDER BY attempt;

-- name: ForgetEffectBodies :execrows
UPDATE effects SET body = NULL WHERE key IN (
  SELECT e.key FROM effects e WHERE e.state = 2 AND e.body IS NOT NULL AND e.due_at < @before::timestamptz
  ORDER BY e.due_at LIMIT @n::int FOR UPDATE SKIP LOCKED);

-- name: ForgetEffectAttempts :execrows
DELETE FROM effect_attempts WHERE (key, attempt) IN (
  SELECT t.key, t.attempt FROM effect_attempts t JOIN effects e ON e.key = t.key
  WHERE t.started_at < @before::timestamptz AND e.state IN (2, 3) LIMIT @n::int);

-- name: DeclareEffects :exec
INSERT INTO effect_declarations (role, rules, declared_at) VALUES (@role, @rules, @now)
ON CONFLICT (role) DO UPDATE SET rules = excluded.rules, declared_at = excluded.declared_at
WHERE effect_declarations.rules <> excluded.rules;

-- name: ReadEffectDeclarations :many
SELECT role, rules, declared_at FROM effect_declarations ORDER BY role;

-- Without a lock.
-- name: ReadEffectsOfOrders :many
SELECT key, order_no, effect, state, outdated, attempt FROM effects
WHERE order_no = ANY(@order_nos::bigint[]) ORDER BY key;

-- name: ReadEffects :many
SELECT key, order_no, effect, state, outdated, attempt FROM effects WHERE key = ANY(@keys::uuid[]);
