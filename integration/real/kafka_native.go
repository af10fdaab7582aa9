package real

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// kafkaHome finds Apache Kafka on this machine: $KAFKA_HOME, which may be an
// unpacked release, or what .ci/images brought.
func kafkaHome() (string, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", errors.New("java is not installed: install Java 17 or newer (Debian: openjdk-17-jre-headless)")
	}
	candidates := []string{os.Getenv("KAFKA_HOME")}
	if root, err := repository(); err == nil {
		found, _ := filepath.Glob(filepath.Join(root, ".cache", "kafka-*"))
		candidates = append(candidates, found...)
	}
	for _, home := range candidates {
		if home == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(home, "bin", "kafka-server-start.sh")); err == nil {
			return home, nil
		}
	}
	return "", errors.New("no Apache Kafka on this machine: run `.ci/images/build --native` (it needs Maven), or set KAFKA_HOME")
}

// repository is the folder of go.work, from wherever a test runs.
func repository() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.work")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("no go.work above the working directory")
		}
		folder = parent
	}
}

func (k *Kafka) startNatively(ctx context.Context, options KafkaOptions) error {
	home, err := kafkaHome()
	if err != nil {
		return err
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	controllerPort, err := freePort(ctx)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "sluice-kafka-")
	if err != nil {
		return err
	}
	k.origin, k.address = home, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	server := &process{folder: folder, stopSignal: syscall.SIGTERM}
	k.host = server

	all := settings(options, k.address, "127.0.0.1", port, controllerPort)
	all["log.dirs"] = filepath.Join(folder, "data")
	config := filepath.Join(folder, "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		return err
	}
	// A clean environment: ours holds KAFKA_BROKERS and the like, which Kafka's
	// wrapper would take for settings.
	base := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "JAVA_HOME=" + os.Getenv("JAVA_HOME")}
	// The wrapper of the official image here too: one way to configure a broker.
	setup := exec.CommandContext(ctx, filepath.Join(home, "bin", "kafka-run-class.sh"), "kafka.docker.KafkaDockerWrapper", "setup",
		"--default-configs-dir", filepath.Join(home, "config"),
		"--mounted-configs-dir", filepath.Join(folder, "none"),
		"--final-configs-dir", config)
	setup.Dir, setup.Env = folder, append(slices.Clone(base), "CLUSTER_ID=5L6g3nShT-eMCtK--X86sw")
	for name, value := range environment(all) {
		setup.Env = append(setup.Env, name+"="+value)
	}
	if output, err := setup.CombinedOutput(); err != nil {
		return fmt.Errorf("format Kafka's storage: %w\n%s", err, lastLines(string(output)))
	}
	server.command = []string{filepath.Join(home, "bin", "kafka-server-start.sh"), filepath.Join(config, "server.properties")}
	server.env = append(slices.Clone(base), "KAFKA_HEAP_OPTS="+heap(options), "LOG_DIR="+filepath.Join(folder, "logs"),
		"KAFKA_LOG4J_OPTS=-Dlog4j2.configurationFile="+filepath.Join(config, "log4j2.yaml"))
	return server.start(ctx)
}

// toolNames are Kafka's command-line tools that tests and people use on a test broker.
var toolNames = strings.Fields("kafka-topics.sh kafka-consumer-groups.sh kafka-console-producer.sh " +
	"kafka-console-consumer.sh kafka-configs.sh kafka-get-offsets.sh kafka-delete-records.sh")

// Tools returns a folder with Kafka's command-line tools that work against
// Brokers on this machine. They run on this machine's Java, or inside the container.
func (k *Kafka) Tools() (string, error) {
	home, err := kafkaHome()
	if err == nil {
		return filepath.Join(home, "bin"), nil
	}
	in, ok := k.host.(*container)
	if !ok {
		return "", err
	}
	folder, err := os.MkdirTemp("", "sluice-kafka-tools-")
	if err != nil {
		return "", err
	}
	k.onClose = append(k.onClose, func() { _ = os.RemoveAll(folder) })
	for _, name := range toolNames {
		script := fmt.Sprintf("#!/bin/sh\nexec docker exec -i %s /opt/kafka/bin/%s \"$@\"\n", in.id(), name)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o755); err != nil {
			return "", err
		}
	}
	return folder, nil
}
