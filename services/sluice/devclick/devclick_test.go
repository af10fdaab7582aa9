package devclick

import (
	"crypto/sha1" //nolint:gosec // Click's scheme
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestItSaysWhatItWasToldToWhoeverHasTheKeyAlsoAfterARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "click.json")
	start := func() *httptest.Server {
		api, err := Open("the-key", file)
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(api.Handler())
		t.Cleanup(srv.Close)
		return srv
	}
	srv := start()
	ask := func(method, path, key, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha1.Sum([]byte("1767225605" + key)) //nolint:gosec // Click's scheme
		req.Header.Set("Auth", "7:"+hex.EncodeToString(sum[:])+":1767225605")
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	const byOrder, byPayment = "/payment/status_by_mti/24001/A-1/2026-03-14", "/payment/status/24001/31415926535"
	if code, _ := ask("PUT", "/pretend/24001/A-1", "", `{"payment_id":31415926535,"payment_status":2}`); code != http.StatusNoContent {
		t.Fatalf("told: %d", code)
	}
	srv.Close()
	srv = start()
	for path, want := range map[string]string{
		byOrder: `"payment_id":31415926535`, byPayment: `"payment_status":2`,
		strings.Replace(byOrder, "A-1", "A-2", 1): `"error_code":-1`, strings.Replace(byPayment, "24001", "24002", 1): `"error_code":-1`,
	} {
		if code, text := ask("GET", path, "the-key", ""); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, code, text)
		}
		if code, _ := ask("GET", path, "another", ""); code != http.StatusUnauthorized {
			t.Errorf("%s with another key: %d", path, code)
		}
	}
	if code, _ := ask("PUT", "/pretend/24001/A-1", "", `{}`); code != http.StatusBadRequest {
		t.Errorf("told nothing: %d", code)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("the-key", file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("opened over a file cut off: %v", err)
	}
}
