package real

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"

	"github.com/moby/moby/api/pkg/stdcopy"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// labels are on every container that this package starts. A sweep (.ci/run)
// removes those whose process is gone: a killed test cleans up nothing.
func labels(part string) testcontainers.CustomizeRequestOption {
	return testcontainers.WithLabels(map[string]string{
		"sluice.test-part":     part,
		"sluice.test-part.pid": strconv.Itoa(os.Getpid()),
	})
}

// container is a host in Docker.
type container struct {
	docker     *testcontainers.DockerClient
	started    testcontainers.Container
	stopSignal string
}

// dockerHost is the address at which published ports are reached.
func dockerHost(ctx context.Context) (string, error) {
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return "", err
	}
	address, err := provider.DaemonHost(ctx)
	if address == "localhost" {
		address = "127.0.0.1" // One address: a name could also mean ::1.
	}
	return address, err
}

// publish binds a port of the container to a fixed one here. Docker would
// choose another port for every start, and a restarted server must come back
// where its clients look for it.
func publish(host string, inside, outside int) testcontainers.CustomizeRequestOption {
	return testcontainers.WithHostConfigModifier(func(config *dockercontainer.HostConfig) {
		binding := network.PortBinding{HostPort: strconv.Itoa(outside)}
		if host == "127.0.0.1" {
			binding.HostIP = netip.MustParseAddr(host)
		}
		port := network.MustParsePort(strconv.Itoa(inside) + "/tcp")
		config.PortBindings = network.PortMap{port: {binding}}
		config.ShmSize = 256 << 20 // PostgreSQL's parallel queries outgrow Docker's 64 MB.
	})
}

func (c *container) id() string { return c.started.GetContainerID() }

func (c *container) start(ctx context.Context) error {
	_, err := c.docker.ContainerStart(ctx, c.id(), client.ContainerStartOptions{})
	return err
}

// stop sends the signal itself: `docker stop` can be told one only since API 1.42.
func (c *container) stop(ctx context.Context) error {
	if !c.running(ctx) {
		return nil
	}
	return c.signal(ctx, c.stopSignal)
}

func (c *container) kill(ctx context.Context) error {
	if !c.running(ctx) {
		return nil
	}
	return c.signal(ctx, "SIGKILL")
}

func (c *container) signal(ctx context.Context, name string) error {
	wait := c.docker.ContainerWait(ctx, c.id(), client.ContainerWaitOptions{Condition: dockercontainer.WaitConditionNotRunning})
	if _, err := c.docker.ContainerKill(ctx, c.id(), client.ContainerKillOptions{Signal: name}); err != nil {
		return err
	}
	select {
	case <-wait.Result:
		return nil
	case err := <-wait.Error:
		return fmt.Errorf("wait for its end: %w", err)
	}
}

func (c *container) pause(ctx context.Context) error {
	_, err := c.docker.ContainerPause(ctx, c.id(), client.ContainerPauseOptions{})
	return err
}

func (c *container) unpause(ctx context.Context) error {
	_, err := c.docker.ContainerUnpause(ctx, c.id(), client.ContainerUnpauseOptions{})
	return err
}

func (c *container) remove(ctx context.Context) error {
	// No time to say goodbye: nobody wants the data.
	return c.started.Terminate(ctx, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0))
}

func (c *container) running(ctx context.Context) bool {
	state, err := c.docker.ContainerInspect(ctx, c.id(), client.ContainerInspectOptions{})
	return err == nil && state.Container.State != nil && state.Container.State.Running
}

func (c *container) log(ctx context.Context) string {
	logs, err := c.docker.ContainerLogs(ctx, c.id(), client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = logs.Close() }()
	var text bytes.Buffer
	_, _ = stdcopy.StdCopy(&text, &text, logs) // What came before an error is still worth reading.
	return text.String()
}
