package webhook

import (
	"net/url"
	"testing"
	"time"
)

// The challenge comes after the signature was checked, so what is repeated is Slack's.
func TestSlackIsAnsweredItsChallenge(t *testing.T) {
	p := builtinOf(t, "slack").(Answering)
	for body, want := range map[string]Answer{
		`{"type":"url_verification","challenge":"3eZb","token":"x"}`: {ContentType: "text/plain", Body: []byte("3eZb")},
		`{"type":"event_callback","challenge":"3eZb"}`:               {},
		`{"type":"url_verification"}`:                                {},
		`not JSON`:                                                   {},
	} {
		if a := p.Answer(headersOf(), []byte(body)); a.ContentType != want.ContentType || string(a.Body) != string(want.Body) {
			t.Errorf("%s: %+v", body, a)
		}
	}
}

func TestSlackReadsEventsCommandsAndInteractions(t *testing.T) {
	p := builtinOf(t, "slack")
	for body, want := range map[string]Reading{
		`{"type":"event_callback","event_id":"Ev1","event_time":1767225605,"event":{"type":"message"}}`: {ID: "Ev1", Type: "message", Time: time.Unix(1767225605, 0).UTC(), Trust: "signed"},
		`{"type":"url_verification","challenge":"3eZb"}`:                                                {ID: "3eZb", Type: "url_verification", Trust: "signed"},
		"token=x&command=%2Fpay&trigger_id=T1&channel_id=C1":                                            {ID: "T1", Type: "slash_command", Trust: "signed", Subject: "C1"},
		"payload=" + url.QueryEscape(`{"type":"block_actions","trigger_id":"T2"}`):                      {ID: "T2", Type: "block_actions", Trust: "signed"},
	} {
		if r, err := p.Read(headersOf(), []byte(body)); err != nil || r != want {
			t.Errorf("%s: %+v, %v", body, r, err)
		}
	}
}

func TestSlackStaysSlackWithAnotherTolerance(t *testing.T) {
	p, s := builtinOf(t, "slack").(Timed), secretOf(t, "sl-0f3b9a")
	wide := p.WithTolerance(Tolerance{Past: time.Hour, Future: time.Hour})
	if _, ok := wide.(Answering); !ok {
		t.Error("it no longer answers the challenge")
	}
	req := signed(t, p, s, "", noon, []byte("{}"))
	for off, want := range map[time.Duration]Outcome{300 * time.Second: Valid, -300 * time.Second: Valid, 301 * time.Second: Stale, -301 * time.Second: Stale} {
		if v := p.Verify(req, []Secret{s}, noon.Add(off)); v.Outcome != want {
			t.Errorf("%v off: %+v", off, v)
		}
		if v := wide.Verify(req, []Secret{s}, noon.Add(off)); v.Outcome != Valid {
			t.Errorf("%v off, within an hour: %+v", off, v)
		}
	}
}
