package ingress

import (
	"errors"
	"io"
	"net"
	"sync/atomic"

	"sluice/pkg/kafka"
)

var (
	errTooLarge = errors.New("body is larger than a record takes")
	errNoMemory = errors.New("too much memory is in use for bodies")
)

// smallBody is what every request may hold without asking; larger bodies borrow
// from the budget, so that senders of large ones cannot starve the others.
const smallBody = 16 << 10

// readBody reads the exact bytes, at most kafka.MaxBody of them. declared is the
// Content-Length, -1 if unknown; it is believed only as far as bytes come in, so
// what is held is at most twice what was sent.
func readBody(r io.Reader, declared int64, loan *loan) ([]byte, error) {
	if declared > kafka.MaxBody {
		return nil, errTooLarge
	}
	size := int64(4 << 10)
	if declared >= 0 {
		size = min(declared, smallBody)
	}
	b := make([]byte, 0, size)
	for {
		if len(b) == cap(b) {
			if int64(len(b)) == declared { // net/http gives no more than that
				return b, nil
			}
			if len(b) > kafka.MaxBody {
				return nil, errTooLarge
			}
			var err error
			if b, err = grow(b, declared, loan); err != nil {
				return nil, err
			}
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF && len(b) > kafka.MaxBody:
			return nil, errTooLarge
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, err
		}
	}
}

// grow doubles a full buffer, to at most what was declared, or one byte more than
// a body may have.
func grow(b []byte, declared int64, loan *loan) ([]byte, error) {
	limit := int64(kafka.MaxBody + 1)
	if declared > int64(len(b)) {
		limit = declared
	}
	size := min(max(2*int64(len(b)), 512), limit)
	if size > smallBody && !loan.extend(size) {
		return nil, errNoMemory
	}
	return append(make([]byte, 0, size), b...), nil
}

// budget bounds the bytes that large bodies hold together.
type budget struct {
	limit int64
	taken atomic.Int64
}

// loan is one request's part of a budget.
type loan struct {
	from *budget
	size int64
}

// extend makes the loan size bytes; false if the budget has not that much left.
func (l *loan) extend(size int64) bool {
	more := size - l.size
	if l.from.taken.Add(more) > l.from.limit {
		l.from.taken.Add(-more)
		return false
	}
	l.size = size
	return true
}

func (l *loan) giveBack() {
	if l.size > 0 {
		l.from.taken.Add(-l.size)
		l.size = 0
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
