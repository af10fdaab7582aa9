package replay

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ReadFile reads offsets as kafka-consumer-groups exports them: lines of
// topic,partition,offset, or of group,topic,partition,offset. Every line must be about
// this group and topic: another one was surely not meant to be left out in silence.
func ReadFile(text, group, topic string) (map[int32]int64, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.TrimLeadingSpace = -1, true
	offsets := map[int32]int64{}
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read offsets: %w", err)
		}
		line, _ := r.FieldPos(0)
		p, at, err := readLine(fields, group, topic)
		if _, twice := offsets[p]; err == nil && twice {
			err = fmt.Errorf("partition %d is there twice", p)
		}
		if err != nil {
			return nil, fmt.Errorf("read offsets: line %d: %w", line, err)
		}
		offsets[p] = at
	}
	if len(offsets) == 0 {
		return nil, errors.New("read offsets: there are none; a line is topic,partition,offset")
	}
	return offsets, nil
}

func readLine(fields []string, group, topic string) (p int32, at int64, err error) {
	if len(fields) == 4 {
		if fields[0] != group {
			return 0, 0, fmt.Errorf("it is about group %q, not %q", fields[0], group)
		}
		fields = fields[1:]
	}
	if len(fields) != 3 {
		return 0, 0, errors.New("it is not topic,partition,offset")
	}
	if fields[0] != topic {
		return 0, 0, fmt.Errorf("it is about topic %q, not %q", fields[0], topic)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(fields[1]), 10, 32)
	if err != nil || n < 0 {
		return 0, 0, fmt.Errorf("%q is not a partition", fields[1])
	}
	if at, err = strconv.ParseInt(strings.TrimSpace(fields[2]), 10, 64); err != nil || at < 0 {
		return 0, 0, fmt.Errorf("%q is not an offset", fields[2])
	}
	return int32(n), at, nil
}

// WriteFile is what ReadFile and Kafka's own tool read.
func WriteFile(topic string, offsets map[int32]int64) string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(offsets)) {
		fmt.Fprintf(&b, "%s,%d,%d\n", topic, p, offsets[p]) // a topic's name needs no quotes
	}
	return b.String()
}
