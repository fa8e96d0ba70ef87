package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"onced/internal/config"
)

// root is the project's, seen from this package.
const root = "../.."

// pages are the README, the changelog and everything in docs, by their names.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	found := map[string]string{}
	for _, name := range append(names, filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md")) {
		found[name] = read(t, name)
	}
	return found
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// firstCells returns what stands in code style first in the rows of a page's tables.
func firstCells(page, form string) []string {
	var cells []string
	for _, row := range regexp.MustCompile("(?m)^\\| `("+form+")` \\|").FindAllStringSubmatch(page, -1) {
		cells = append(cells, row[1])
	}
	return cells
}

// same compares what a page lists with what there is.
func same(t *testing.T, what string, listed, there []string) {
	t.Helper()
	for _, name := range there {
		if !slices.Contains(listed, name) {
			t.Errorf("the %s %s is not in the table of docs/operations.md", what, name)
		}
	}
	for i, name := range listed {
		if slices.Contains(listed[:i], name) {
			t.Errorf("docs/operations.md lists the %s %s twice", what, name)
		}
		if !slices.Contains(there, name) {
			t.Errorf("docs/operations.md lists the %s %s, which does not exist", what, name)
		}
	}
	if len(there) == 0 {
		t.Errorf("there is no %s at all", what)
	}
}

// TestFlagsAreDocumented holds the table of flags to the help of serve, and its defaults to the settings.
func TestFlagsAreDocumented(t *testing.T) {
	page := read(t, filepath.Join(root, "docs", "operations.md"))
	help, _, code := invoke(t, nil, "serve", "--help")
	if code != exitDone {
		t.Fatalf("exit code %d", code)
	}
	var there []string
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-h, )?(--[a-z-]+)`).FindAllStringSubmatch(help, -1) {
		if m[1] != "--help" {
			there = append(there, m[1])
		}
	}
	same(t, "flag", firstCells(page, "--[a-z-]+"), there)
	settings := reflect.TypeFor[config.Serve]()
	for i := range settings.NumField() {
		tag := settings.Field(i).Tag
		if def := tag.Get("default"); def != "" && !strings.Contains(page, "| `--"+tag.Get("name")+"` | `"+def+"` |") {
			t.Errorf("the table does not say that the default of --%s is %s", tag.Get("name"), def)
		}
	}
}

// TestGatewaySettingsAreDocumented holds the table of a gateway on its own to its settings, and to their defaults.
func TestGatewaySettingsAreDocumented(t *testing.T) {
	_, section, _ := strings.Cut(read(t, filepath.Join(root, "docs", "operations.md")), "\n## The gateway on its own\n")
	section, _, _ = strings.Cut(section, "\n## ")
	settings := reflect.TypeFor[config.Gateway]()
	for i := range settings.NumField() {
		tag := settings.Field(i).Tag
		key := tag.Get("yaml")
		if key == "-" || key == "gateway" {
			continue
		}
		row := regexp.MustCompile("(?m)^\\| .*`" + key + "`.* \\| .*$").FindString(section)
		if row == "" || !strings.Contains(row, "`"+tag.Get("default")+"`") && tag.Get("default") != "" {
			t.Errorf("the table does not say what %s is, by default %q: %s", key, tag.Get("default"), row)
		}
	}
}

// TestMetricsAreDocumented holds the table of metrics to what a node shows.
func TestMetricsAreDocumented(t *testing.T) {
	r := startServe(t, nil)
	response, err := http.Get(r.api + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	there := []string{"onced_request_duration_seconds", "onced_gateway_request_duration_seconds", "onced_gateway_probes_total", "onced_batch_operations_total",
		"onced_gateway_under_way", "onced_gateway_overloaded_total", "onced_gateway_blobs_total"} // shown once there was a call
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (onced_\w+) `).FindAllStringSubmatch(string(body), -1) {
		there = append(there, m[1])
	}
	same(t, "metric", firstCells(read(t, filepath.Join(root, "docs", "operations.md")), `onced_\w+`), there)
}

// TestLogLinesAreDocumented looks for each line of the table in the code that writes it.
func TestLogLinesAreDocumented(t *testing.T) {
	var code strings.Builder
	walkGo(t, func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") {
			code.WriteString(text)
		}
	})
	page := read(t, filepath.Join(root, "docs", "operations.md"))
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (ERROR|WARN|INFO) \\|").FindAllStringSubmatch(page, -1)
	if len(rows) < 20 {
		t.Errorf("only %d lines are listed", len(rows))
	}
	listed := map[string]bool{}
	for _, row := range rows {
		if listed[row[1]] {
			t.Errorf("%q is listed twice", row[1])
		}
		listed[row[1]] = true
		if !strings.Contains(code.String(), `"`+row[1]+`"`) {
			t.Errorf("nothing logs %q", row[1])
		}
	}
}

// TestNothingIsSaidTwice wants no line of prose twice in a page, and no two points under one heading with the same
// bold words first: what a merge leaves behind.
func TestNothingIsSaidTwice(t *testing.T) {
	first := regexp.MustCompile(`^- \*\*[^*]+\*\*`)
	for page, text := range pages(t) {
		seen, code, heading := map[string]bool{}, false, ""
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if strings.HasPrefix(line, "#") {
				heading = line
			}
			said := ""
			if point := first.FindString(line); point != "" {
				said = heading + "\n" + point
			} else if len(line) >= 40 && !strings.HasPrefix(line, "|") {
				said = line
			}
			if !code && said != "" && seen[said] {
				t.Errorf("%s:%d says once more: %s", page, i+1, line)
			}
			seen[said] = true
		}
	}
}

// TestNamesInThePages looks for the tests, files and links that the pages name.
func TestNamesInThePages(t *testing.T) {
	tests := map[string]bool{} // "dir.TestName"
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	walkGo(t, func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			tests[filepath.ToSlash(dir)+"."+m[1]] = true
		}
	})
	named := 0
	for page, text := range pages(t) {
		for _, m := range regexp.MustCompile("`([a-z0-9/]+\\.Test\\w+)`").FindAllStringSubmatch(text, -1) {
			if named++; !tests[m[1]] {
				t.Errorf("%s: there is no test %s", page, m[1])
			}
		}
		for _, m := range regexp.MustCompile("`([a-z/]+/[a-z_]+\\.go)`").FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`).FindAllStringSubmatch(text, -1) {
			checkLink(t, page, m[1], strings.TrimPrefix(m[2], "#"))
		}
	}
	if named < 40 {
		t.Errorf("the pages name only %d tests", named)
	}
}

// checkLink wants the file of a link, and the heading that its anchor stands for.
func checkLink(t *testing.T, page, file, anchor string) {
	t.Helper()
	target := page
	if file != "" {
		target = filepath.Join(filepath.Dir(page), file)
	}
	raw, err := os.ReadFile(target)
	if err != nil {
		t.Errorf("%s: %v", page, err)
		return
	}
	punctuation := regexp.MustCompile(`[^\p{L}\p{N} _-]`) // has no part in an anchor
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(raw), -1) {
		if strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor {
			return
		}
	}
	if anchor != "" {
		t.Errorf("%s: %s has no heading for #%s", page, target, anchor)
	}
}

// walkGo hands every Go file of the project to do.
func walkGo(t *testing.T, do func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root:
			return filepath.SkipDir
		case !entry.IsDir() && strings.HasSuffix(path, ".go"):
			do(path, read(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
