package real

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
)

// freePort picks a port below the range from which systems take the ports of
// outgoing connections. From within that range, a client's own connection could
// take the port of a server that is down between Kill and Restart, or a client
// that keeps dialling the closed port could even connect to itself.
func freePort(ctx context.Context) (int, error) {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("no free TCP port between 20000 and 32000 after 100 tries: close some servers")
}

// lastLines are what an error quotes of a log.
func lastLines(text string) string {
	const count = 25
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
