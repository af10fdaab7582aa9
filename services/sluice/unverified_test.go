package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sluice/pkg/daemon"
)

// loophole is how settings are called that let unsigned webhooks in.
var loophole = regexp.MustCompile(`(?i)skip|insecure|unsigned|unverified|verif|disable|bypass|mock|fake|dummy|sandbox|trust_all|allow_`)

// O09: there is no setting that takes a webhook without its signature, and no code
// that takes a peer without its certificate: what cannot be switched on cannot be left on.
func TestNoSettingSkipsVerification(t *testing.T) {
	count := 0
	for _, settings := range []reflect.Type{reflect.TypeFor[ingressSettings](), reflect.TypeFor[processorSettings](), reflect.TypeFor[relaySettings](),
		reflect.TypeFor[merchantSettings](), reflect.TypeFor[migrateSettings](), reflect.TypeFor[daemon.Config]()} {
		for _, s := range settingsOf(settings) {
			if count++; loophole.MatchString(s.key) {
				t.Errorf("%s of %v sounds like a way around verification", s.key, settings)
			}
		}
	}
	if count < 20 || !loophole.MatchString("SLUICE_SKIP_VERIFICATION") {
		t.Errorf("%d settings were looked at: the test shows nothing", count)
	}
	files := 0
	for _, dir := range []string{"../../pkg", ".."} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "InsecureSkip"+"Verify") {
				t.Errorf("%s takes a peer without its certificate", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 50 {
		t.Errorf("%d files were looked at: the test shows nothing", files)
	}
}
