package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the build (-X main.version=…).
var version = "dev"

type versionCmd struct{}

func (versionCmd) Run(c *console) error {
	revision, changed := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = " " + s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = " (changed)"
			}
		}
	}
	_, err := fmt.Fprintf(c.out, "sluice %s%s%s %s %s/%s\n", version, revision, changed, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
