package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// docker-compose.yml is configuration like any other: every role in it must pass
// its own check, and an address behind a mapped port must be reachable from
// outside its container.
func TestTheRolesInTheComposeFileAreConfigured(t *testing.T) {
	raw, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Command     []string          `yaml:"command"`
			Environment map[string]string `yaml:"environment"`
			Ports       []string          `yaml:"ports"`
			Volumes     []string          `yaml:"volumes"`
		} `yaml:"services"`
	}
	// A key beside `<<` overrides the merged one; the library takes it for a duplicate.
	if err := yaml.UnmarshalWithOptions(raw, &file, yaml.AllowDuplicateMapKey()); err != nil {
		t.Fatalf("read docker-compose.yml: %v", err)
	}
	const secret = "whsec_c2x1aWNlLWNvbXBvc2UtdGVzdC1zZWNyZXQ="
	for _, r := range roles {
		s, ok := file.Services[r.name]
		if !ok {
			t.Errorf("docker-compose.yml has no service %s", r.name)
			continue
		}
		e := environment{}
		for name, value := range s.Environment {
			e[name] = os.Expand(value, func(v string) string {
				if _, def, ok := strings.Cut(v, ":-"); ok {
					return def
				}
				return secret
			})
		}
		for _, volume := range s.Volumes {
			if strings.Contains(volume, e["SLUICE_ENDPOINTS"]) && e["SLUICE_ENDPOINTS"] != "" {
				e["SLUICE_ENDPOINTS"] = filepath.Join("..", "..", "endpoints.compose.yaml")
			}
		}
		if err := r.check(e); err != nil {
			t.Errorf("service %s: %v", r.name, err)
		}
		if address := e["SLUICE_"+strings.ToUpper(r.name)+"_ADDRESS"]; len(s.Ports) > 0 && address != "" {
			if host, _, err := net.SplitHostPort(address); err != nil || host != "" {
				t.Errorf("service %s maps a port and listens at %q: nobody outside the container reaches it", r.name, address)
			}
		}
		if len(s.Ports) > 0 && r.name == "merchant" && e["SLUICE_MERCHANT_ADDRESS"] == "" {
			t.Errorf("service merchant maps a port, and its default address is loopback")
		}
	}
	for _, word := range []string{"whsec_", "password:"} {
		if strings.Contains(string(raw), word) {
			t.Errorf("docker-compose.yml holds %q: no secret belongs there", word)
		}
	}
}
