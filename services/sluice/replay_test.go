package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"sluice/pkg/replay"
)

const (
	replayTopic = "shop.webhooks.raw.v1"
	replayGroup = "shop.sluice-processor"
)

// parse reads a command line of replay.
func parse(t *testing.T, args ...string) (replayCmd, error) {
	t.Helper()
	t.Setenv("USER", "anna")
	c := cli{}
	parser, err := kong.New(&c, kong.Bind(&console{}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"replay"}, args...))
	return c.Replay, err
}

func TestEveryTargetOfKafkasToolIsAFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "offsets.csv")
	if err := os.WriteFile(file, []byte(replayTopic+",0,5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	for flags, c := range map[string]struct {
		how   replay.How
		at    time.Time
		n     int64
		again string // the command that carries out the same
	}{
		"--to-earliest":                         {replay.ToEarliest, time.Time{}, 0, "--to-earliest --execute --plan D --reason …"},
		"--to-latest --skip":                    {replay.ToLatest, time.Time{}, 0, "--to-latest --export > offsets.csv\n  sluice replay --from-file offsets.csv --skip --execute"},
		"--to-current":                          {replay.ToCurrent, time.Time{}, 0, "--to-current --export >"},
		"--to-datetime 2026-11-30T13:00:00.250": {replay.ToDatetime, now.Add(-time.Hour + 250*time.Millisecond), 0, "--to-datetime 2026-11-30T13:00:00.250Z --execute"},
		"--by-duration PT1H --partitions 0,2":   {replay.ByDuration, now.Add(-time.Hour), 0, "--to-datetime 2026-11-30T13:00:00.000Z --partitions 0,2 --execute"},
		"--by-duration 90m":                     {replay.ByDuration, now.Add(-90 * time.Minute), 0, "--to-datetime 2026-11-30T12:30:00.000Z --execute"},
		"--to-offset 7 --no-dry-run":            {replay.ToOffset, time.Time{}, 7, "--to-offset 7 --no-dry-run --execute"},
		"--to-offset 0 --beyond-window":         {replay.ToOffset, time.Time{}, 0, "--to-offset 0 --beyond-window --execute"},
		"--shift-by=-100 --partitions 1":        {replay.ShiftBy, time.Time{}, -100, "--shift-by=-100 --partitions 1 --export > offsets.csv\n"},
		"--from-file " + file:                   {replay.FromFile, time.Time{}, 0, "--from-file " + file + " --execute"},
	} {
		r, err := parse(t, strings.Fields(flags)...)
		if err != nil {
			t.Errorf("%s: %v", flags, err)
			continue
		}
		a, err := r.replayOffsets.asked(now, replayGroup, replayTopic, strings.NewReader(""))
		if err != nil || a.Target.How != c.how || !a.Target.At.Equal(c.at) || a.Target.N != c.n {
			t.Errorf("%s: %+v, %v", flags, a, err)
		}
		if again := r.again(r.desk, a, "D"); !strings.HasPrefix(again, "sluice replay "+c.again) {
			t.Errorf("%s: again is\n%s\nwant\n%s", flags, again, c.again)
		}
	}
	r, err := parse(t, "--from-file", "-", "--partitions", "2,0")
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.replayOffsets.asked(now, replayGroup, replayTopic, strings.NewReader(replayGroup+","+replayTopic+",2,9\n"))
	if err != nil || !maps.Equal(a.Target.Offsets, map[int32]int64{2: 9}) || !slices.Equal(a.Target.Partitions, []int32{2, 0}) {
		t.Errorf("standard input: %+v, %v", a, err)
	}
}

func TestATargetThatCannotBeReadIsRefusedByItsFlag(t *testing.T) {
	for flags, want := range map[string]string{
		"--to-datetime tomorrow":         "--to-datetime",
		"--to-datetime 2036-01-01":       "yet to come",
		"--by-duration -2h":              "--by-duration",
		"--to-offset=-1":                 "--to-offset",
		"--from-file /nonexistent":       "--from-file",
		"--to-earliest --to-latest":      "--to-earliest and --to-latest",
		"--to-offset 1 --by-duration 2h": "--by-duration and --to-offset",
	} {
		r, err := parse(t, strings.Fields(flags)...)
		if err == nil {
			_, err = r.replayOffsets.asked(time.Now(), replayGroup, replayTopic, strings.NewReader(""))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flags, err)
		}
	}
}

// None of these reaches for a broker or a database.
func TestAReplayThatIsAskedForWronglyEndsWith2AndSaysWhatToDo(t *testing.T) {
	t.Setenv("USER", "")
	for flags, want := range map[string]string{
		"":                                   "say where to read from",
		"--to-earliest --status":             "one of them",
		"--to-earliest --execute":            "--reason",
		"--to-earliest --execute --reason x": "--as",
		"--to-earliest --plan 123":           "needs --execute",
		"--stop --as ana":                    "--reason",
		"--to-earliest --export --execute --reason x --as ana": "--export only prints",
	} {
		_, err := sluice(t, append([]string{"replay"}, strings.Fields(flags)...)...)
		if err == nil || exitCode(err) != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flags, err)
		}
	}
}

func TestAPlanIsCarriedOutOnlyUnderItsOwnDigest(t *testing.T) {
	var out strings.Builder
	c := &console{&out, &out}
	if err := (replayActs{Plan: "abc"}).agree(c, "abc"); err != nil {
		t.Error(err)
	}
	if err := (replayActs{Plan: "abc"}).agree(c, "xyz"); err == nil || !strings.Contains(err.Error(), "this is another plan (xyz)") {
		t.Error(err)
	}
	answers, asked, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = asked.Close()
	stdin := os.Stdin
	os.Stdin = answers
	defer func() { os.Stdin = stdin }()
	err = replayActs{}.agree(c, "xyz") // nobody at a terminal
	if usage := (usageError{}); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--plan xyz") {
		t.Error(err)
	}
}
