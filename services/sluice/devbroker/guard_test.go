package devbroker

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func frame(size int32, key, version int16, rest ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(size))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return append(b, rest...)
}

var hostile = map[string][]byte{
	"an HTTP request":                []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
	"a TLS hello":                    {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03},
	"an SSH greeting":                []byte("SSH-2.0-OpenSSH_9.2\r\n"),
	"size -1":                        frame(-1, 3, 0, 0, 0, 0, 0),
	"size 0":                         frame(0, 3, 0, 0, 0, 0, 0),
	"size 7":                         frame(7, 3, 0, 0, 0, 0),
	"size 100 MiB and one":           frame(100<<20+1, 3, 0, 0, 0, 0, 0),
	"an unknown key":                 frame(8, 9999, 0, 0, 0, 0, 0),
	"a negative key":                 frame(8, -1, 0, 0, 0, 0, 0),
	"a version that does not exist":  frame(8, 3, 32767, 0, 0, 0, 0),
	"a negative version":             frame(8, 3, -7, 0, 0, 0, 0),
	"a client id longer than itself": frame(10, 3, 4, 0, 0, 0, 1, 0x7f, 0xff),
	"half a size":                    {0, 0},
	"zeros":                          make([]byte, 64),
	"ones":                           bytes.Repeat([]byte{0xff}, 64),
}

func TestTheBrokerSurvivesHostileBytes(t *testing.T) {
	b := start(t, t.TempDir())
	cl := client(t, b)
	for name, input := range hostile {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", b.Addr())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write(input); err != nil {
				t.Fatal(err)
			}
			_ = c.(*net.TCPConn).CloseWrite()
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
			if err := cl.Ping(t.Context()); err != nil {
				t.Fatalf("the broker is gone: %v", err)
			}
		})
	}
}

// Garbage in the body of an otherwise right frame, for every request there is.
func TestTheBrokerSurvivesGarbageInEveryRequest(t *testing.T) {
	b := start(t, t.TempDir())
	for key := range int16(kmsg.MaxKey + 1) {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		garbage := bytes.Repeat([]byte{0x7f}, 60)
		if _, err := c.Write(frame(64, key, 0, garbage...)); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
	if err := client(t, b).Ping(t.Context()); err != nil {
		t.Fatalf("the broker is gone: %v", err)
	}
}

type reader struct {
	net.Conn
	r io.Reader
}

func (c reader) Read(p []byte) (int, error) { return c.r.Read(p) }
func (c reader) Close() error               { return nil }

// FuzzGuard: what passes is a prefix of what came, made of whole acceptable
// frames but for the last, however the bytes are cut.
func FuzzGuard(f *testing.F) {
	for _, input := range hostile {
		f.Add(input)
	}
	f.Add(append(frame(8, 18, 3, 0, 0, 0, 1), frame(8, 9999, 0, 0, 0, 0, 0)...))
	f.Fuzz(func(t *testing.T, input []byte) {
		whole, _ := io.ReadAll(&conn{Conn: reader{r: bytes.NewReader(input)}})
		bytewise, _ := io.ReadAll(&conn{Conn: reader{r: iotest.OneByteReader(bytes.NewReader(input))}})
		if !bytes.Equal(whole, bytewise) {
			t.Fatal("the cut of the bytes changes what passes")
		}
		if !bytes.HasPrefix(input, whole) {
			t.Fatal("bytes were changed")
		}
		for rest := whole; len(rest) > 0; {
			if len(rest) < 6 {
				t.Fatal("part of a frame's head passed")
			}
			size := binary.BigEndian.Uint32(rest)
			if size < minFrame || size > maxFrame || kmsg.RequestForKey(int16(binary.BigEndian.Uint16(rest[4:]))) == nil {
				t.Fatalf("a hostile frame passed: % x", rest[:6])
			}
			rest = rest[min(len(rest), int(size)+4):]
		}
	})
}
