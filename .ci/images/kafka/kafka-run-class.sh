#!/bin/bash
# What Kafka's own script of this name does for its callers: the class path and
# the KAFKA_* settings of a JVM.
set -eu
home=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
java=java
if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then java=$JAVA_HOME/bin/java; fi
# A fixed order of jars and not libs/*, which each start may list differently.
class_path=$(printf '%s:' "$home"/libs/*.jar)${CLASSPATH:-}
# shellcheck disable=SC2086 -- each of these is a list of words
exec "$java" ${KAFKA_HEAP_OPTS:--Xmx256M} \
  ${KAFKA_JVM_PERFORMANCE_OPTS:--XX:+UseSerialGC -XX:TieredStopAtLevel=1} \
  ${KAFKA_GC_LOG_OPTS:-} ${KAFKA_JMX_OPTS:-} \
  ${KAFKA_LOG4J_OPTS:--Dlog4j2.configurationFile="$home/config/tools-log4j2.yaml"} \
  ${KAFKA_OPTS:-} -cp "$class_path" "$@"
