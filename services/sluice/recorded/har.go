package recorded

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// parseHAR reads the requests of a HAR file (HAR 1.2, log.entries).
func parseHAR(text []byte) ([]Request, error) {
	var file struct {
		Log *struct {
			Entries []struct {
				Started time.Time `json:"startedDateTime"`
				Request struct {
					Method, URL string
					Headers     []struct{ Name, Value string }
					PostData    *struct {
						MimeType, Text, Encoding string
						Params                   []struct{ Name, Value string }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("HAR: %w", plain(err))
	}
	if file.Log == nil {
		return nil, errors.New("it is JSON, and no HAR file: it has no log.entries; a body alone is no request")
	}
	var all []Request
	for i, e := range file.Log.Entries {
		if e.Request.Method == "" || e.Request.URL == "" {
			return nil, fmt.Errorf("HAR: entry %d has no request with a method and a URL", i+1)
		}
		r := Request{Method: e.Request.Method, Target: e.Request.URL, At: e.Started}
		for _, h := range e.Request.Headers {
			if !strings.HasPrefix(h.Name, ":") {
				r.Headers = append(r.Headers, Header{h.Name, h.Value})
			}
		}
		if data := e.Request.PostData; data != nil {
			r.Body = []byte(data.Text)
			switch {
			case data.Encoding == "base64":
				body, err := base64.StdEncoding.DecodeString(data.Text)
				if err != nil {
					return nil, fmt.Errorf("HAR: entry %d: its body is not base64, though it says so", i+1)
				}
				r.Body = body
			case data.Encoding != "":
				return nil, fmt.Errorf("HAR: entry %d: its body's encoding is unknown; base64 and none are known", i+1)
			case data.Text == "" && len(data.Params) > 0:
				form := make([]string, 0, len(data.Params))
				for _, p := range data.Params {
					form = append(form, url.QueryEscape(p.Name)+"="+url.QueryEscape(p.Value))
				}
				r.Body = []byte(strings.Join(form, "&"))
				r.Lossy = true
				r.Notes = append(r.Notes, "the recording has the form's fields, not its bytes: they were encoded again")
			}
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, errors.New("HAR: it has no entries")
	}
	return all, nil
}
