package devdb

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// fetch downloads server programs into dir (once) and returns where they are.
// The library fetches only by starting, so a throw-away server is started; as
// root that fails after the download, which is all that is needed.
func fetch(dir string, port int) (string, error) {
	bin := filepath.Join(dir, "bin")
	if _, err := os.Stat(filepath.Join(bin, "postgres")); err == nil {
		return bin, nil
	}
	scratch, err := os.MkdirTemp("", "sluice-fetch-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	server := embedded.NewDatabase(embedded.DefaultConfig().
		Version(embedded.V17).
		Port(uint32(port)).
		CachePath(filepath.Join(scratch, "cache")).
		RuntimePath(filepath.Join(scratch, "run")).
		BinariesPath(dir).
		Logger(io.Discard))
	err = server.Start()
	if err == nil {
		err = server.Stop()
	}
	if _, missing := os.Stat(filepath.Join(bin, "postgres")); missing != nil {
		return "", errors.Join(err, missing)
	}
	return bin, nil
}
