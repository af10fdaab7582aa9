package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// standInLabel marks the images that .ci/images builds where none can be pulled.
const standInLabel = "sluice.stand-in"

// connect returns a client of the Docker daemon, after setting what
// testcontainers-go needs to know about this machine. It asks once.
var connect = sync.OnceValues(func() (docker *testcontainers.DockerClient, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	defer func() {
		// testcontainers-go panics where there is no socket at all.
		if p := recover(); p != nil {
			err = fmt.Errorf("no Docker: %v", p)
		}
	}()
	// Its running commentary would bury what tests print; its errors are returned.
	log.SetDefault(log.NewNoopLogger())
	setUnlessSet("TESTCONTAINERS_HOST_OVERRIDE", hostOverride())
	setUnlessSet("TESTCONTAINERS_RYUK_DISABLED", withoutReaper(ctx))
	docker, err = testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("no Docker: %w; install it, or start its daemon", err)
	}
	if _, err = docker.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, fmt.Errorf("the Docker daemon does not answer: %w; start it (service docker start)", err)
	}
	return docker, nil
})

// hostOverride is not empty where testcontainers-go would look for published
// ports in the wrong place: inside a container it takes the gateway's address,
// but a daemon that runs in the same container publishes on our own loopback.
func hostOverride() string {
	if _, err := os.Stat("/.dockerenv"); err != nil {
		return ""
	}
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		if comm, _ := os.ReadFile(name); strings.TrimSpace(string(comm)) == "dockerd" {
			return "127.0.0.1"
		}
	}
	return ""
}

// withoutReaper is "true" where the image of the reaper, which removes what a
// killed test leaves behind, can not be had: testcontainers-go would then refuse
// to start anything. It asks by a plain client, because testcontainers-go reads
// its settings once, when its own client is made.
func withoutReaper(ctx context.Context) string {
	reaper := testcontainers.ReaperDefaultImage //nolint:staticcheck // No other name tells which image it will want.
	// Where DOCKER_HOST leads nowhere, testcontainers-go falls back to the default
	// socket. A daemon that it finds by still other means can pull the image.
	for _, options := range [][]client.Opt{{client.FromEnv}, nil} {
		docker, err := client.New(options...)
		if err != nil {
			continue
		}
		defer func() { _ = docker.Close() }()
		if _, err := docker.Ping(ctx, client.PingOptions{}); err != nil {
			continue
		}
		if bring(ctx, docker, reaper) != nil {
			return "true"
		}
		return ""
	}
	return ""
}

func setUnlessSet(name, value string) {
	if value != "" && os.Getenv(name) == "" {
		_ = os.Setenv(name, value) // It fails for malformed names only.
	}
}

// bring has the image, or pulls it.
func bring(ctx context.Context, docker *client.Client, image string) error {
	if _, err := docker.ImageInspect(ctx, image); err == nil {
		return nil
	}
	pull, err := docker.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	return errors.Join(pull.Wait(ctx), pull.Close())
}

// image returns the name to run: the official image, or the stand-in for it.
func image(ctx context.Context, official, standIn string) (name, origin string, err error) {
	docker, err := connect()
	if err != nil {
		return "", "", err
	}
	filters := client.Filters{}.Add("label", standInLabel+"="+standIn)
	found, err := docker.ImageList(ctx, client.ImageListOptions{Filters: filters})
	if err == nil {
		for _, item := range found.Items {
			for _, tag := range item.RepoTags {
				if tag != "" && !strings.Contains(tag, "<none>") {
					return tag, tag + ", a stand-in built by .ci/images", nil
				}
			}
		}
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := bring(limited, docker.Client, official); err != nil {
		return "", "", fmt.Errorf("image %s can not be pulled (%w): run `make images` to build a stand-in", official, err)
	}
	return official, official, nil
}
