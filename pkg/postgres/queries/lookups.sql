-- name: ArmLookup :exec
INSERT INTO lookups (source_no, object, armed_at) VALUES (@source_no, @object, @armed_at)
ON CONFLICT (source_no, object) DO UPDATE SET armed_at = GREATEST(lookups.armed_at, excluded.armed_at);
