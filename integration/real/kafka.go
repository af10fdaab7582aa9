package real

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/testcontainers/testcontainers-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaImage is the official image. SLUICE_TEST_KAFKA_IMAGE names another.
const KafkaImage = "apache/kafka:4.3.1"

// KafkaOptions may be left empty.
type KafkaOptions struct {
	Kind     Kind              // "" takes what the machine has, Docker first
	HeapMB   int               // 0 means 1024
	Settings map[string]string // on top of the defaults, by their names in server.properties
}

// Kafka is one Apache Kafka node, broker and controller at once.
type Kafka struct {
	Server
	address string
}

// Brokers is the value for KAFKA_BROKERS.
func (k *Kafka) Brokers() string { return k.address }

// StartKafka returns a broker that answers. The caller closes it.
func StartKafka(ctx context.Context, options KafkaOptions) (*Kafka, error) {
	kind, err := choose(ctx, "Kafka", options.Kind,
		attempt{Docker, func(ctx context.Context) error { _, _, err := kafkaImage(ctx); return err }},
		attempt{Native, func(context.Context) error { _, err := kafkaHome(); return err }})
	if err != nil {
		return nil, err
	}
	options.HeapMB = cmp.Or(options.HeapMB, 1024)
	k := &Kafka{Server: Server{name: "Kafka", kind: kind}}
	k.ready = func(ctx context.Context) error { return PingKafka(ctx, k.address) }
	if kind == Docker {
		err = k.startInDocker(ctx, options)
	} else {
		err = k.startNatively(ctx, options)
	}
	if err == nil {
		err = k.awaitReady(ctx)
	}
	if err != nil {
		if k.host != nil {
			_ = k.Close() // The first error is the one to report.
		}
		return nil, fmt.Errorf("start Kafka (%s): %w", kind, err)
	}
	return k, nil
}

// PingKafka asks the broker for its metadata once.
func PingKafka(ctx context.Context, brokers string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Ping(ctx)
}

func kafkaImage(ctx context.Context) (name, origin string, err error) {
	if other := os.Getenv("SLUICE_TEST_KAFKA_IMAGE"); other != "" {
		return other, other, nil
	}
	return image(ctx, KafkaImage, "kafka")
}

func (k *Kafka) startInDocker(ctx context.Context, options KafkaOptions) error {
	name, origin, err := kafkaImage(ctx)
	if err != nil {
		return err
	}
	docker, err := connect()
	if err != nil {
		return err
	}
	address, err := dockerHost(ctx)
	if err != nil {
		return err
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	// The same port inside as outside, so that the one advertised address works
	// for clients here and for tools inside the container.
	k.origin, k.address = origin, net.JoinHostPort(address, strconv.Itoa(port))
	env := environment(settings(options, k.address, "0.0.0.0", port, 9093))
	env["KAFKA_HEAP_OPTS"] = heap(options)
	started, err := testcontainers.Run(ctx, name,
		testcontainers.WithEnv(env),
		testcontainers.WithExposedPorts(strconv.Itoa(port)+"/tcp"),
		labels("kafka"),
		publish(address, port, port))
	if started != nil {
		k.host = &container{docker: docker, started: started, stopSignal: "SIGTERM"}
	}
	return err
}

// settings for one node. What tests rely on: topics are only what somebody
// created, and every internal topic has one replica since there is one node.
func settings(options KafkaOptions, advertised, listen string, port, controllerPort int) map[string]string {
	s := map[string]string{
		"node.id":                          "1",
		"process.roles":                    "broker,controller",
		"listeners":                        fmt.Sprintf("PLAINTEXT://%s:%d,CONTROLLER://127.0.0.1:%d", listen, port, controllerPort),
		"advertised.listeners":             "PLAINTEXT://" + advertised,
		"controller.quorum.voters":         fmt.Sprintf("1@127.0.0.1:%d", controllerPort),
		"controller.listener.names":        "CONTROLLER",
		"inter.broker.listener.name":       "PLAINTEXT",
		"listener.security.protocol.map":   "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"auto.create.topics.enable":        "false",
		"offsets.topic.replication.factor": "1",
		// Fewer partitions than 50 each start faster, and one node gains nothing from them.
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
		// After a kill a broker may register again only when its old session has
		// ended. 9 s, the default, would be most of a crash test's time.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "500",
	}
	maps.Copy(s, options.Settings)
	return s
}

// environment spells settings as the official image reads them.
func environment(settings map[string]string) map[string]string {
	env := map[string]string{}
	spell := strings.NewReplacer("_", "__", "-", "___", ".", "_")
	for name, value := range settings {
		env["KAFKA_"+strings.ToUpper(spell.Replace(name))] = value
	}
	return env
}

func heap(options KafkaOptions) string {
	return fmt.Sprintf("-Xms%[1]dm -Xmx%[1]dm", options.HeapMB)
}
