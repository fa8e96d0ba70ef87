package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"onced/internal/config"
)

// containerSettings are those of a node in docker-compose.yml, with a secret of the test's.
func containerSettings(t *testing.T, node string) config.Serve {
	t.Helper()
	s, err := config.Load(config.Serve{
		Config: filepath.Join(root, "compose", "config", "onced.yaml"), NodeID: node,
		ClusterSecretFile: writeFile(t, strings.Repeat("s", 64)),
		RequestTimeout:    10 * time.Second, ElectionTimeout: 400 * time.Millisecond,
		MaxRequestBytes: 1 << 20, MaxResponseBytes: 1 << 20, LogLevel: "info", LogFormat: "text",
	}, func(flag string) bool { return flag == "node-id" || flag == "cluster-secret-file" })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// composeService is what is looked at of a service in docker-compose.yml.
type composeService struct {
	Ports       []string          `yaml:"ports"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	Grace       string            `yaml:"stop_grace_period"`
}

func composeServices(t *testing.T) map[string]composeService {
	t.Helper()
	var file struct {
		Services map[string]composeService `yaml:"services"`
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(root, "docker-compose.yml"))), &file); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

// TestContainersAndTheirSettingsAgree holds docker-compose.yml to the settings that its nodes share.
func TestContainersAndTheirSettingsAgree(t *testing.T) {
	services := composeServices(t)
	peers := containerSettings(t, "n1").Peers.List
	if len(peers) != 3 {
		t.Fatalf("%d peers", len(peers))
	}
	for _, peer := range peers {
		service, settings := services[peer.ID], containerSettings(t, peer.ID)
		if service.Environment["ONCED_NODE_ID"] != peer.ID || peer.Addr != peer.ID+":8481" {
			t.Errorf("peer %s at %s: its service has the environment %v", peer.ID, peer.Addr, service.Environment)
		}
		if !slices.Contains(service.Volumes, peer.ID+":"+settings.DataDir) {
			t.Errorf("%s keeps its data in %s, but has the volumes %v", peer.ID, settings.DataDir, service.Volumes)
		}
		grace, err := time.ParseDuration(service.Grace)
		if least := farewell + settings.DrainTimeout + handoverWithin; err != nil || grace < least {
			t.Errorf("%s is killed %s after SIGTERM (%v); it may need %s", peer.ID, grace, err, least)
		}
	}
}

// TestContainersArePublishedOnLoopback: nobody is asked for a token.
func TestContainersArePublishedOnLoopback(t *testing.T) {
	loopback := regexp.MustCompile(`^\$\{[A-Z0-9_]+:-127\.0\.0\.1:\d+\}:\d+$`)
	seen := map[string]bool{}
	for name, service := range composeServices(t) {
		for _, port := range service.Ports {
			if !loopback.MatchString(port) || seen[port] {
				t.Errorf("%s publishes %s", name, port)
			}
			seen[port] = true
		}
	}
	if len(seen) != 9 {
		t.Errorf("%d ports are published", len(seen))
	}
}

// TestImageSource holds the Dockerfile to go.mod, and what its builder is sent to what may be in it.
func TestImageSource(t *testing.T) {
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, filepath.Join(root, "go.mod")))
	if dockerfile := read(t, filepath.Join(root, "Dockerfile")); !strings.Contains(dockerfile, "\nFROM golang:"+version[1]+" AS build\n") {
		t.Errorf("the Dockerfile does not build with Go %s", version[1])
	}
	ignored := strings.Split(read(t, filepath.Join(root, ".dockerignore")), "\n")
	for _, line := range ignored {
		if strings.HasPrefix(line, "!compose") && line != "!compose/data" {
			t.Errorf("%s: the secret and the tokens lie in compose", line)
		}
	}
	if !slices.Contains(ignored, "compose/*") {
		t.Error("compose, with the secret in it, is sent to the image's builder")
	}
}

// TestScriptsInThePages looks for the scripts that the pages name.
func TestScriptsInThePages(t *testing.T) {
	texts := pages(t)
	for _, name := range []string{"Dockerfile", "docker-compose.yml"} {
		texts[name] = read(t, filepath.Join(root, name))
	}
	named := 0
	for page, text := range texts {
		for _, script := range regexp.MustCompile(`scripts/[a-z-]+`).FindAllString(text, -1) {
			named++
			if info, err := os.Stat(filepath.Join(root, script)); err != nil || info.Mode()&0o111 == 0 {
				t.Errorf("%s: %s: %v, %v", page, script, info, err)
			}
		}
	}
	if named < 4 {
		t.Errorf("the pages name only %d scripts", named)
	}
}
