package terminal

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestColumnsAlignWhateverTheirStyle(t *testing.T) {
	var plain, styled bytes.Buffer
	table := func(p *Printer) {
		p.Table([][]string{{p.Green("paid"), "12.50", "é"}, {"partially_refunded", p.Bold("1"), "ok"}})
	}
	table(&Printer{w: &plain})
	table(&Printer{w: &styled, colour: true})
	if want := "  paid                12.50  é\n  partially_refunded  1      ok\n"; plain.String() != want {
		t.Errorf("got\n%swant\n%s", plain.String(), want)
	}
	if Width(styled.String()) != Width(plain.String()) {
		t.Errorf("styles change the width: %q", styled.String())
	}
}

func TestAFileGetsNoColourAndNoMovingLines(t *testing.T) {
	var out bytes.Buffer
	p := New(&out)
	step := p.Step("broker")
	for _, why := range []string{"waiting for it", "waiting for it", "still waiting"} {
		step.Note(why)
	}
	step.Done("127.0.0.1:9092")
	bar := p.Bar(10)
	bar.Add(10)
	bar.End()
	p.Line("%s", p.Red("end"))
	if bytes.ContainsAny(out.Bytes(), "\x1b\r") {
		t.Errorf("control characters in %q", out.String())
	}
	if text := out.String(); strings.Count(text, "… waiting for it\n") != 1 || strings.Count(text, "… still waiting\n") != 1 {
		t.Errorf("each reason once: %q", text)
	}
}

func TestABarSaysHowFarHowFastAndHowLongStill(t *testing.T) {
	var out bytes.Buffer
	b := New(&out).Bar(10)
	defer b.End()
	b.At(250, 1000, "lag 0:750")
	const want = "  ━━━━━━━─────────────────────── 250 of 1000, 50/s, 15 s left  lag 0:750"
	if got := b.line(New(&out), 5*time.Second); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for d, want := range map[time.Duration]string{time.Millisecond: "less than 1 s", 59 * time.Second: "59 s", 61 * time.Second: "1 min 1 s",
		90 * time.Minute: "1 h 30 min", 100 * time.Hour: "4 days"} {
		if got := Roughly(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
