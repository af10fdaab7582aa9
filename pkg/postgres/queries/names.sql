-- name: ListNames :many
SELECT name_no, name FROM names;

-- name: AddNames :exec
INSERT INTO names (name) SELECT unnest(@names::text[]) ON CONFLICT DO NOTHING;
