package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// conn is one keep-alive HTTP/1.1 connection that writes ready-made requests:
// net/http's client costs more than the server under test.
type conn struct {
	c net.Conn
	r *bufio.Reader
}

func dial(address string) (*conn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &conn{c: c, r: bufio.NewReaderSize(c, 4096)}, nil
}

// do sends a request and reads the whole answer. It knows the answers that
// ingress gives: a status line, headers, and a body only by Content-Length.
func (c *conn) do(request []byte) (status int, err error) {
	if _, err := c.c.Write(request); err != nil {
		return 0, err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, fmt.Errorf("the answer begins with %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("read the answer's status: %w", err)
	}
	length := 0
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return 0, err
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			_, err = c.r.Discard(length)
			return status, err
		}
		if strings.EqualFold(string(name), "Content-Length") {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, fmt.Errorf("read the answer's length: %w", err)
			}
		}
	}
}

// rendered is the whole request as it goes over the wire.
func rendered(address, path string, header http.Header, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", path, address, len(body))
	_ = header.Write(&b)
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}
