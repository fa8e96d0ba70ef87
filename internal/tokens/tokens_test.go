package tokens

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewIsFound(t *testing.T) {
	token, line, err := New("acme", RoleOperator, "ann@example")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(token, "onced_") || len(token) != len("onced_")+52 || strings.Contains(line, token) {
		t.Errorf("token %q, line %q", token, line)
	}
	table, err := Parse([]byte("# ours\n\n  " + line + "\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, ok := table.Lookup(token)
	if diff := cmp.Diff(Credential{Name: "ann@example", Tenant: "acme", Role: RoleOperator}, got); !ok || diff != "" {
		t.Errorf("found %v:\n%s", ok, diff)
	}
	for _, other := range []string{"", token[:len(token)-1], token + "a", strings.ToUpper(token), line, strings.Fields(line)[0]} {
		if _, ok := table.Lookup(other); ok {
			t.Errorf("%q is taken for the token", other)
		}
	}
	another, _, err := New("acme", RoleClient, "")
	if err != nil || another == token {
		t.Errorf("a second token is %q, %v", another, err)
	}
}

// A credential without a name is told from others by its digest, of which 8 digits give nothing away.
func TestNameOfItsOwn(t *testing.T) {
	token, line, err := New("acme", RoleClient, "")
	if err != nil || len(strings.Fields(line)) != 3 || strings.HasSuffix(line, " ") {
		t.Fatalf("line %q, %v", line, err)
	}
	table, err := Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := table.Lookup(token)
	if want := "acme:client:" + strings.TrimPrefix(line, "sha256:")[:8]; got.Name != want {
		t.Errorf("name %q, want %q", got.Name, want)
	}
}

func TestRefusedWords(t *testing.T) {
	for _, c := range []struct {
		tenant string
		role   Role
		name   string
		want   string
	}{
		{"a b", RoleClient, "", "tenant: "},
		{"*", RoleOperator, "", "tenant: "},
		{"", RoleClient, "", "tenant: "},
		{"a", "root", "", "role: "},
		{"a", RoleClient, "two words", "is no name"},
		{"a", RoleClient, "a\nb", "is no name"},
	} {
		if token, line, err := New(c.tenant, c.role, c.name); err == nil || !strings.Contains(err.Error(), c.want) || token+line != "" {
			t.Errorf("New(%q, %q, %q) = %q, %q, %v", c.tenant, c.role, c.name, token, line, err)
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	token, line, err := New("acme", RoleClient, "")
	if err != nil {
		t.Fatal(err)
	}
	digest := strings.Fields(line)[0]
	for _, c := range []struct{ name, file, want string }{
		{"a token itself", "# x\n" + token + " acme client\n", "2: has a token itself"},
		{"no digest", "hunter2 acme client\n", "1: does not begin with sha256:"},
		{"half a digest", "sha256:00ff acme client\n", "1: has no SHA-256"},
		{"no hex", "sha256:" + strings.Repeat("g", 64) + " acme client\n", "1: has no SHA-256"},
		{"no role", digest + " acme\n", "1: has 2 words"},
		{"too much", line + " ann of accounts\n", "1: has 6 words"},
		{"every tenant", digest + " * operator\n", `1: the tenant "*" is not a name`},
		{"unknown role", digest + " acme root\n", `1: "root" is no role: expected client, operator or gateway`},
		{"role in another case", digest + " acme Client\n", "is no role"},
		{"bad name", line + " a,b\n", `1: "a,b" is no name`},
		{"twice", line + "\n\n" + digest + " other operator\n", "3: repeats the token of line 1"},
	} {
		table, err := Parse([]byte(c.file))
		if table != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", c.name, table, err, c.want)
			continue
		}
		for _, secret := range []string{token, digest[7:], "hunter2"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error gives a secret away: %v", c.name, err)
			}
		}
	}
}

// The last token of a file can be revoked: nobody is known then.
func TestEmptyFile(t *testing.T) {
	for _, file := range []string{"", "# nobody\n"} {
		table, err := Parse([]byte(file))
		if err != nil || table.Len() != 0 {
			t.Fatalf("%q: %v, %v", file, table, err)
		}
		if _, ok := table.Lookup(""); ok {
			t.Error("no token at all is taken for one")
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "opening the tokens file") {
		t.Errorf("no file: %v", err)
	}
	token, line, err := New("acme", RoleGateway, "edge")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := Load(path)
	if err != nil || table.Len() != 1 {
		t.Fatalf("%v, %v", table, err)
	}
	if got, ok := table.Lookup(token); !ok || got.Role != RoleGateway {
		t.Errorf("found %v, %v", got, ok)
	}
	if err := os.WriteFile(path, []byte(line+"\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), path+":2: ") {
		t.Errorf("line 2 is broken: %v", err)
	}
}
