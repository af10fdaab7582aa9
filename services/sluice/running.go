package main

import (
	"maps"

	"sluice/services/sluice/dev"
)

// running is the process's environment, and where that says nothing, that of the
// sluice dev which runs in a data directory: tools for people find it by themselves.
func running(dataDir string) (environment, error) {
	e := processEnvironment()
	found, err := dev.ReadEnvironment(dataDir)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(found, func(name, _ string) bool { _, set := e[name]; return set })
	maps.Copy(e, found)
	return e, nil
}
