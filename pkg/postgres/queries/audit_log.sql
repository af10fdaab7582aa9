-- name: AddAuditEntry :exec
INSERT INTO audit_log (at, who, action, subject, reason, before, after)
VALUES (@at, @who, @action, @subject, @reason, @before, @after);
