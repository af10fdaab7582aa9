package effects

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/postgres"
)

// class is what became of an attempt: a bounded set, fit for a metric's label. Empty
// means that it succeeded.
type class string

const (
	succeeded      class = ""
	redirect       class = "redirect"
	unauthorized   class = "unauthorized"
	requestTimeout class = "request_timeout"
	tooEarly       class = "too_early"
	throttled      class = "throttled"
	rejected       class = "rejected"
	unavailable    class = "unavailable"
	unknownStatus  class = "unknown_status"

	refusedAddress class = "refused_address"
	noName         class = "no_name"
	noConnection   class = "no_connection"
	noTLS          class = "no_tls"
	timedOut       class = "timeout"
	broken         class = "broken"
	stopped        class = "stopped"
	unsendable     class = "unsendable"
)

// errStopped is why a call ends that a stop could not wait for.
var errStopped = errors.New("the relay stops")

// outcome is what a class means: for its effect, and for its destination. alive says
// that the destination did its work; what is not alive opens its circuit.
type outcome struct {
	effect postgres.AttemptOutcome
	alive  bool
}

// statuses are the classes of answers; the first range that has it decides. Only a
// 2xx to our own POST is done (O42). What the receiver refuses will be refused again,
// so a person is asked (O43).
var statuses = []struct {
	from, to int
	class    class
}{
	{200, 299, succeeded},
	{300, 399, redirect},
	{401, 401, unauthorized},
	{403, 403, unauthorized},
	{407, 407, unauthorized},
	{408, 408, requestTimeout},
	{425, 425, tooEarly},
	{429, 429, throttled},
	{400, 499, rejected},
	{500, 599, unavailable},
	{0, 999, unknownStatus},
}

// outcomes are what classes mean. A refused credential is nobody's fault but the
// configuration's: a person is asked, and the circuit keeps it from costing every
// effect its attempts.
var outcomes = map[class]outcome{
	succeeded:      {postgres.AttemptDone, true},
	redirect:       {postgres.AttemptRetry, false},
	unauthorized:   {postgres.AttemptFailed, false},
	requestTimeout: {postgres.AttemptRetry, false},
	tooEarly:       {postgres.AttemptRetry, true},
	throttled:      {postgres.AttemptRetry, false},
	rejected:       {postgres.AttemptFailed, true},
	unavailable:    {postgres.AttemptRetry, false},
	unknownStatus:  {postgres.AttemptRetry, false},
	refusedAddress: {postgres.AttemptRetry, false},
	noName:         {postgres.AttemptRetry, false},
	noConnection:   {postgres.AttemptRetry, false},
	noTLS:          {postgres.AttemptRetry, false},
	timedOut:       {postgres.AttemptRetry, false},
	broken:         {postgres.AttemptRetry, false},
	stopped:        {postgres.AttemptRetry, true},
	unsendable:     {postgres.AttemptFailed, true},
}

// classOf is the class of an answer's status.
func classOf(status int) class {
	for _, s := range statuses {
		if s.from <= status && status <= s.to {
			return s.class
		}
	}
	return unknownStatus
}

// decision is what an attempt means.
type decision struct {
	class   class
	outcome postgres.AttemptOutcome
	retryAt time.Time // of a retry
	alive   bool
	// quiet is how long the destination asked to be left alone.
	quiet time.Duration
}

// waits bound how long a retry waits.
type waits struct {
	base, longest time.Duration
	retryAfter    time.Duration // the longest that a receiver may ask for
}

// decide says what an answer to the try-th of attempts means. random draws from 0 to
// just below its argument.
func (w waits) decide(a answer, try, attempts int, now time.Time, random func(time.Duration) time.Duration) decision {
	d := decision{class: a.class}
	if a.class == "" { // answered; even a status of 000 is one
		d.class = classOf(a.status)
	}
	o := outcomes[d.class]
	d.outcome, d.alive = o.effect, o.alive
	if o.effect != postgres.AttemptRetry {
		return d
	}
	asked := min(retryAfter(a.retryAfter, now), w.retryAfter)
	if d.class == throttled || d.class == unavailable {
		d.quiet = asked
	}
	if d.class == stopped { // nobody has refused it
		d.retryAt = now
		return d
	}
	if try >= attempts {
		d.outcome = postgres.AttemptFailed
		return d
	}
	wait := random(w.bound(try)) // full jitter: what failed together does not come back together
	if asked > 0 {
		wait = max(wait, asked+random(asked/10+w.base))
	}
	d.retryAt = now.Add(wait)
	return d
}

// bound is how long the wait after the try-th attempt may be: base, doubled each time.
func (w waits) bound(try int) time.Duration {
	if shift := max(try-1, 0); shift < 40 && w.base<<shift>>shift == w.base {
		return min(w.base<<shift, w.longest)
	}
	return w.longest
}

// retryAfter reads the header of that name: seconds or a date; 0 if it says nothing.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, math.MaxInt32)) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), math.MaxInt32*time.Second)
}
