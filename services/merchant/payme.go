package merchant

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"sluice/pkg/webhook"
)

// payme answers Payme's Merchant API for one endpoint.
type payme struct {
	*Merchant
	provider webhook.Payme
}

// call is one call that is Payme's.
type call struct {
	webhook.PaymeCall
	request
	secret string
	now    int64 // Unix milliseconds
}

// paymeMethods are the methods that are answered; every other is -32601.
// ChangePassword is none: keys are changed in the endpoints file.
var paymeMethods = map[string]func(*payme, context.Context, call) (any, *fault, error){
	webhook.PaymeCheckPerform:     (*payme).checkPerform,
	webhook.PaymeCreate:           (*payme).create,
	webhook.PaymePerform:          (*payme).perform,
	webhook.PaymeCancel:           (*payme).cancel,
	webhook.PaymeCheckTransaction: (*payme).check,
	webhook.PaymeGetStatement:     (*payme).statement,
	setFiscalData:                 (*payme).fiscal,
}

const setFiscalData = "SetFiscalData"

// answer: whatever is wrong, Payme wants HTTP 200.
func (p *payme) answer(ctx context.Context, q request) (reply, error) {
	if q.Method != http.MethodPost {
		return answered("none", nil, nil, faultMethod), nil
	}
	c, unread := p.provider.Call(q.Body)
	verdict := q.endpoint.Verify(q.Request, q.received)
	do, known := paymeMethods[c.Method]
	operation := c.Method
	if !known {
		operation = "none"
	}
	switch {
	case verdict.Outcome != webhook.Valid:
		return answered(operation, c.RPC, nil, faultAuth), nil
	case errors.Is(unread, webhook.ErrPaymeJSON):
		return answered(operation, c.RPC, nil, faultJSON), nil
	case unread != nil:
		return answered(operation, c.RPC, nil, faultCall), nil //nolint:nilerr // the answer says it
	case !known:
		return answered(operation, c.RPC, nil, faultUnknown), nil
	}
	result, f, err := do(p, ctx, call{c, q, verdict.Secret, q.received.UnixMilli()})
	if err != nil {
		return reply{}, err
	}
	return answered(operation, c.RPC, result, f), nil
}

func (p *payme) failed(q request) reply {
	c, _ := p.provider.Call(q.Body)
	operation := c.Method
	if paymeMethods[c.Method] == nil {
		operation = "none"
	}
	return answered(operation, c.RPC, nil, faultSystem)
}

// maxRPC is the longest id of a call that its answer repeats, in bytes.
const maxRPC = 128

// answered is a JSON-RPC answer: a result or an error, never both.
func answered(operation string, rpc []byte, result any, f *fault) reply {
	if len(rpc) == 0 || len(rpc) > maxRPC || !json.Valid(rpc) {
		rpc = []byte("null")
	}
	outcome := "ok"
	if f != nil {
		outcome = strconv.Itoa(f.Code)
		result = nil
	}
	body, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result,omitempty"`
		Error   *fault          `json:"error,omitempty"`
	}{"2.0", rpc, result, f})
	if err != nil {
		panic("encode an answer: " + err.Error()) // texts and numbers always do
	}
	return reply{status: http.StatusOK, body: body, operation: operation, outcome: outcome}
}

// The results of the methods, in the order of Payme's documentation.
type (
	allowed struct {
		Allow bool `json:"allow"`
	}
	created struct {
		CreateTime  int64  `json:"create_time"`
		Transaction string `json:"transaction"`
		State       int16  `json:"state"`
	}
	performed struct {
		Transaction string `json:"transaction"`
		PerformTime int64  `json:"perform_time"`
		State       int16  `json:"state"`
	}
	cancelled struct {
		Transaction string `json:"transaction"`
		CancelTime  int64  `json:"cancel_time"`
		State       int16  `json:"state"`
	}
	checked struct {
		CreateTime  int64  `json:"create_time"`
		PerformTime int64  `json:"perform_time"`
		CancelTime  int64  `json:"cancel_time"`
		Transaction string `json:"transaction"`
		State       int16  `json:"state"`
		Reason      *int16 `json:"reason"`
	}
	statement struct {
		Transactions []stated `json:"transactions"`
	}
	stated struct {
		ID      string          `json:"id"`
		Time    int64           `json:"time"`
		Amount  int64           `json:"amount"`
		Account json.RawMessage `json:"account"`
		checked
	}
	succeeded struct {
		Success bool `json:"success"`
	}
)

func number(no int64) string { return strconv.FormatInt(no, 10) }
