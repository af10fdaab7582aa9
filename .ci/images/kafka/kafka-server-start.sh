#!/bin/bash
# Starts a broker in the foreground: kafka-server-start.sh server.properties [--override key=value]
set -eu
if [ $# -eq 0 ]; then echo "usage: $0 server.properties [--override key=value]..." >&2; exit 1; fi
home=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
export KAFKA_HEAP_OPTS=${KAFKA_HEAP_OPTS:--Xmx1G -Xms1G}
export KAFKA_JVM_PERFORMANCE_OPTS=${KAFKA_JVM_PERFORMANCE_OPTS:--server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true}
export KAFKA_LOG4J_OPTS=${KAFKA_LOG4J_OPTS:--Dlog4j2.configurationFile=$home/config/log4j2.yaml}
exec "$home/bin/kafka-run-class.sh" kafka.Kafka "$@"
