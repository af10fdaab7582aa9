-- name: AddOrderTransitions :copyfrom
INSERT INTO order_transitions (shard, order_no, order_id, version, from_status, to_status, amount, currency, paid,
  refunded, dispute, correction, cause_source, cause_event_id, occurred_at)
VALUES (@shard, @order_no, @order_id, @version, @from_status, @to_status, @amount, @currency, @paid,
  @refunded, @dispute, @correction, @cause_source, @cause_event_id, @occurred_at);
