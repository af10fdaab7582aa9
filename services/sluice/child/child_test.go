//go:build linux

package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A parent of the tests is this program again, told to start a child and wait.
func TestMain(m *testing.M) {
	if os.Getenv("CHILD_TEST_PARENT") == "" {
		os.Exit(m.Run())
	}
	c, err := Start(exec.Command("sleep", "600"), syscall.SIGTERM)
	if err != nil {
		panic(err)
	}
	fmt.Println(c.cmd.Process.Pid)
	<-c.Done()
}

// gone waits until no process of that id runs; a dead one that nobody has
// collected counts as gone.
func gone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("process %d still runs", pid)
		}
	}
}

func TestAChildDiesWithAParentThatIsKilled(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "CHILD_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	gone(t, pid)
}

func TestStopAsksFirstAndKillsAfterTheGrace(t *testing.T) {
	polite, err := Start(exec.Command("sleep", "600"), syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	if err := polite.Stop(10 * time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
	deaf := exec.Command("sh", "-c", `trap "" TERM; echo ready; while :; do sleep 1; done`)
	out, err := deaf.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(deaf, syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(50 * time.Millisecond); err == nil {
		t.Error("a process that had to be killed was called stopped")
	}
	gone(t, c.cmd.Process.Pid)
}

func TestAnEndWithoutBeingAskedIsTold(t *testing.T) {
	c, err := Start(exec.Command("false"), syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if c.Err() == nil {
		t.Error("a failed process has no error")
	}
	if _, err := Start(exec.Command("/no/such/program"), syscall.SIGTERM); err == nil {
		t.Error("started what does not exist")
	}
}
