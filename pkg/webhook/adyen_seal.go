package webhook

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Sign makes no header: the signatures are in the body. See Seal.
func (p adyen) Sign(s Secret, _ string, _ time.Time, _ []byte) (map[string]string, error) {
	return map[string]string{}, p.CheckSecret(s)
}

// Seal signs every item.
func (p adyen) Seal(s Secret, body []byte) ([]byte, error) {
	key, err := hexKey(s)
	if err != nil || len(key) == 0 {
		return nil, p.CheckSecret(s)
	}
	live, items, err := adyenItems(body)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	sealed := make([]json.RawMessage, len(items))
	for i, item := range items {
		values, err := adyenItem.scan(item)
		if err != nil {
			return nil, fmt.Errorf("sign item %d: %w", i, err)
		}
		signed, err := adyenText(values)
		if err != nil {
			return nil, fmt.Errorf("sign item %d: %w", i, err)
		}
		sum := appendHMAC(nil, sha256.New, key, signed)
		if sealed[i], err = sealAdyen(item, base64.StdEncoding.EncodeToString(sum)); err != nil {
			return nil, fmt.Errorf("sign item %d: %w", i, err)
		}
	}
	batch := map[string]any{"notificationItems": sealed}
	if live.given() {
		batch["live"] = json.RawMessage(live.raw)
	}
	return json.Marshal(batch)
}

// sealAdyen puts a signature into an item.
func sealAdyen(item []byte, signature string) (json.RawMessage, error) {
	var outer map[string]map[string]json.RawMessage
	if err := json.Unmarshal(item, &outer); err != nil {
		return nil, errors.New("it is not an object of objects")
	}
	inner := outer["NotificationRequestItem"]
	if inner == nil {
		return nil, errors.New("it has no NotificationRequestItem")
	}
	var additional map[string]json.RawMessage
	if raw := inner["additionalData"]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &additional); err != nil {
			return nil, errors.New("its additionalData is not an object")
		}
	}
	if additional == nil {
		additional = map[string]json.RawMessage{}
	}
	var err error
	if additional["hmacSignature"], err = json.Marshal(signature); err != nil {
		return nil, err
	}
	if inner["additionalData"], err = json.Marshal(additional); err != nil {
		return nil, err
	}
	return json.Marshal(outer)
}
