package recorded

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
)

const body = `{"id":"evt_1", "note":"☕ it's \"x\" & $5\n"}`

// forms are the same request, as different tools record it.
var forms = map[string]string{
	"raw HTTP":                       "POST /webhooks/stripe?a=1 HTTP/1.1\r\nHost: shop.example\r\nStripe-Signature: t=1,v1=ab\r\nContent-Type: application/json\r\n\r\n" + body,
	"raw HTTP with line feeds alone": "POST /webhooks/stripe?a=1 HTTP/1.1\nHost: shop.example\nStripe-Signature: t=1,v1=ab\nContent-Type: application/json\n\n" + body,
	"curl": `curl -sS -X POST 'https://shop.example/webhooks/stripe?a=1' \
  -H 'Host: shop.example' -H "Stripe-Signature: t=1,v1=ab" \
  --header=Content-Type:\ application/json --data-raw '{"id":"evt_1", "note":"☕ it'\''s \"x\" & $5\n"}'`,
	"curl as browsers copy it": `curl 'https://shop.example/webhooks/stripe?a=1' -H 'host: shop.example' -H 'stripe-signature: t=1,v1=ab' -H 'content-type: application/json' --data-raw $'{"id":"evt_1", "note":"\u2615 it\'s \\"x\\" & $5\\n"}' --compressed`,
	"curl with a file":         `curl https://shop.example/webhooks/stripe?a=1 -H 'Host: shop.example' -H 'Stripe-Signature: t=1,v1=ab' -HContent-Type:application/json --data-binary @body.json | cat`,
	"HAR": `{"log":{"version":"1.2","entries":[{"startedDateTime":"2026-03-14T09:26:53Z","request":{"method":"POST","url":"https://shop.example/webhooks/stripe?a=1",
 "headers":[{"name":":method","value":"POST"},{"name":"Host","value":"shop.example"},{"name":"Stripe-Signature","value":"t=1,v1=ab"},{"name":"Content-Type","value":"application/json"}],
 "postData":{"mimeType":"application/json","text":"{\"id\":\"evt_1\", \"note\":\"☕ it's \\\"x\\\" & $5\\n\"}"}}}]}}`,
}

func files(name string) ([]byte, error) {
	if name != "body.json" {
		return nil, os.ErrNotExist
	}
	return []byte(body), nil
}

func TestOneRequestIsTheSameHoweverItWasRecorded(t *testing.T) {
	for name, text := range forms {
		all, err := Parse([]byte(text), files)
		if err != nil || len(all) != 1 {
			t.Errorf("%s: %d requests, %v", name, len(all), err)
			continue
		}
		r := all[0]
		if r.Method != http.MethodPost || r.Path() != "/webhooks/stripe" || r.Query() != "a=1" || string(r.Body) != body {
			t.Errorf("%s: %s %s %s %q", name, r.Method, r.Path(), r.Query(), r.Body)
		}
		for header, want := range map[string]string{"STRIPE-SIGNATURE": "t=1,v1=ab", "content-type": "application/json", "Host": "shop.example"} {
			if got := r.Values(header); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q", name, header, got)
			}
		}
		if len(r.Headers) != 3 {
			t.Errorf("%s: headers %v", name, r.Headers)
		}
	}
}

func TestWhatCurlPrintsGivesTheRequest(t *testing.T) {
	const verbose = "* Connected to shop.example\n> POST /w HTTP/1.1\r\n> Host: shop.example\r\n> Content-Length: 4\r\n> \r\n* upload completely sent off\n< HTTP/1.1 200 OK\n< \n"
	const ascii = "== Info: Connected\n=> Send header, 40 bytes (0x28)\n0000: POST /w HTTP/1.1\n0012: Host: shop.example\n0026: \n=> Send data, 8 bytes (0x8)\n0000: {}\n0004: ab c\n<= Recv header, 17 bytes (0x11)\n0000: HTTP/1.1 200 OK\n"
	const hexed = "=> Send header, 40 bytes (0x28)\n" +
		"0000: 50 4f 53 54 20 2f 77 20 48 54 54 50 2f 31 2e 31 POST /w HTTP/1.1\n" +
		"0010: 0d 0a 48 6f 73 74 3a 20 73 68 6f 70 2e 65 78 61 ..Host: shop.exa\n" +
		"0020: 6d 70 6c 65 0d 0a 0d 0a                         mple....\n" +
		"=> Send data, 4 bytes (0x4)\n0000: 7b 22 e2 98                                     {\"..\n=> Send data, 2 bytes (0x2)\n0000: 95 0a                                           ..\n"
	for name, c := range map[string]struct{ text, body, note string }{
		"-v":            {verbose, "", "--body FILE"},
		"--trace-ascii": {ascii, "{}\r\nab c", "printable"},
		"--trace":       {hexed, "{\"☕\n", ""},
		"with times":    {strings.ReplaceAll("12:01:02.123456 "+hexed, "\n=>", "\n12:01:02.123456 =>"), "{\"☕\n", ""},
	} {
		all, err := Parse([]byte(c.text), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := all[0]
		if r.Method != http.MethodPost || r.Target != "/w" || string(r.Body) != c.body || len(r.Values("host")) != 1 || !strings.Contains(strings.Join(r.Notes, ";"), c.note) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestCurlSendsWhatItsOptionsSay(t *testing.T) {
	for text, want := range map[string]string{
		`curl x.example -d a=1 -d b=2`:                  "POST a=1&b=2 application/x-www-form-urlencoded",
		`curl x.example --json '{}'`:                    "POST {} application/json",
		`curl -X PUT x.example --data-raw @body.json`:   "PUT @body.json application/x-www-form-urlencoded",
		`curl -G x.example -d a=1`:                      "GET  ",
		`curl x.example -d @body.json -H content-type:`: "POST " + body + " ",
		`curl -u u:p x.example`:                         "GET  ",
	} {
		all, err := Parse([]byte(text), files)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := all[0].Method + " " + string(all[0].Body) + " " + strings.Join(all[0].Values("content-type"), ","); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestAChunkedBodyIsPutTogether(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
	for text, want := range map[string]string{
		"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n": "abcde", "0\r\n\r\n": "", "already whole": "already whole", "ff\r\nabc": "ff\r\nabc", "5\r\nabc\r\n0\r\n\r\n": "5\r\nabc\r\n0\r\n\r\n",
	} {
		all, err := Parse([]byte(head+text), nil)
		if err != nil || string(all[0].Body) != want {
			t.Errorf("%q: %q, %v", text, all[0].Body, err)
		}
	}
}

func TestWhatIsNoRecordingSaysWhy(t *testing.T) {
	const confidential = "hunter22"
	for text, want := range map[string]string{
		"": "neither", confidential: "neither", `{"id":"` + confidential + `"}`: "no log.entries", `{"log":{"entries":[]}}`: "no entries", `{"log":{"entries":[{}]}}`: "entry 1",
		`{"log":{"entries":7}}`: "is not what HAR has", `{"log": ` + confidential: "not JSON at byte",
		"POST / HTTP/1.1\nno header " + confidential: "line 2", "curl x -d '" + confidential: "not closed", "curl x y": "two URLs", "curl -d x": "no URL",
		"curl $" + confidential: "put the text there itself", "curl x --data @nothing": "read the body", "curl x --form a=b": "option form", "curl x -H": "argument", "curl x -H " + confidential: "no header",
		"* nothing was sent\n": "shows no request", "=> Send header, 1 bytes\n0007: POST": "offset",
	} {
		all, err := Parse([]byte(text), files)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), confidential) {
			t.Errorf("%q: %v, %v", text, all, err)
		}
	}
	if _, err := Parse([]byte("neither"), nil); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// Whatever is parsed is a request, and no input panics.
func FuzzParse(f *testing.F) {
	for _, text := range forms {
		f.Add([]byte(text))
	}
	f.Add([]byte("* x\n> POST / HTTP/1.1\r\n> A: b\r\n"))
	f.Add([]byte("=> Send header, 1\n0000: 50 4f 53 54 20 2f 77 20 48 54 54 50 2f 31 2e 31 POST\n=> Send data, 4\n0000: 7b\n"))
	f.Add([]byte("POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n1\r\na\r\n0\r\n\r\n"))
	f.Add([]byte(`curl "a\
b" $'\x41\u00e9'`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := Parse(text, func(string) ([]byte, error) { return nil, os.ErrNotExist })
		if err == nil && len(all) == 0 {
			t.Fatal("no request and no error")
		}
		for _, r := range all {
			if r.Method == "" && !strings.HasPrefix(strings.TrimSpace(string(text)), "curl") && !strings.HasPrefix(strings.TrimSpace(string(text)), "$ curl") {
				t.Error("a request without a method")
			}
			_, _, _ = r.Path(), r.Query(), r.Values("Host")
		}
	})
}
