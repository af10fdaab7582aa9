package provider

import (
	"encoding/json"
	"net/http"
	"sync"
)

// Documents is an API that gives a document by its path to whoever sends the header it
// wants: Mollie's, Mercado Pago's, YooKassa's, Midtrans's, GoCardless's, Flutterwave's.
type Documents struct {
	// Header and Value are the credential: Authorization and "Bearer …", for example.
	Header, Value string

	mu        sync.Mutex
	documents map[string]string
}

// Put sets the document at a path.
func (d *Documents) Put(path, document string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.documents == nil {
		d.documents = map[string]string{}
	}
	d.documents[path] = document
}

func (d *Documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	document, ok := d.documents[r.URL.Path]
	switch {
	case r.Header.Get(d.Header) != d.Value:
		answer(w, http.StatusUnauthorized, map[string]any{"status": 401, "title": "Unauthorized Request"})
	case !ok || r.Method != http.MethodGet:
		answer(w, http.StatusNotFound, map[string]any{"status": 404, "title": "Not Found"})
	default:
		answer(w, http.StatusOK, json.RawMessage(document))
	}
}
