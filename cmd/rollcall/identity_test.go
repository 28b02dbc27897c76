package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// makeKeys makes a directory of keys that commands find.
func makeKeys(t *testing.T) (string, *identity.Authority) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	authority, _, err := keydir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROLLCALL_KEYS", dir)
	return dir, authority
}

func TestTokenMintsForEveryRole(t *testing.T) {
	_, authority := makeKeys(t)
	for _, role := range identity.Roles {
		args, ids := []string{"token", string(role), "--id", "a.b"}, []string{"a.b"}
		switch role {
		case identity.Viewer:
			args = []string{"token", "viewer", "--user", "a.b"}
		case identity.Device:
			args, ids = []string{"token", "device", "--user", "a.b", "--device", "d"}, []string{"a.b", "d"}
		}
		want, err := authority.Issuer().Mint(role, time.Hour, ids...)
		if err != nil {
			t.Fatal(err)
		}
		code, out, errs := command(t, args...)
		c, err := identity.Parse([]byte(out))
		if code != 0 || errs != "" || err != nil || c.Role != role || c.Name != want.Name || c.Seed != want.Seed || time.Until(c.Expires) < 23*time.Hour {
			t.Errorf("%v: %d, %s, %+v, %v", args, code, errs, c, err)
		}
	}
}

func TestTokenForOtherClientsAndFiles(t *testing.T) {
	makeKeys(t)
	code, out, errs := command(t, "token", "viewer", "--user", "*", "--ttl", "90s", "--json")
	var c struct {
		Role, Name, JWT, Seed string
		Inbox                 string `json:"inbox_prefix"`
		Expires               time.Time
	}
	if err := json.Unmarshal([]byte(out), &c); err != nil || code != 0 {
		t.Fatalf("%d, %v, %s", code, err, errs)
	}
	if c.Role != "viewer" || c.Name != "=Kg" || c.Inbox != "_INBOX.viewer.=Kg" || !strings.HasPrefix(c.JWT, "eyJ") || !strings.HasPrefix(c.Seed, "SU") ||
		time.Until(c.Expires) > 90*time.Second {
		t.Errorf("%+v", c)
	}
	path := filepath.Join(t.TempDir(), "edge.creds")
	for range 2 { // it may be renewed in place
		code, out, errs = command(t, "token", "edge", "--id", "g1", "--out", path)
		info, err := os.Stat(path)
		if code != 0 || out != "" || !strings.Contains(errs, "edge g1") || err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%d, %q, %q, %v", code, out, errs, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestTokenMistakes(t *testing.T) {
	dir, _ := makeKeys(t)
	long := strings.Repeat("v", 129)
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"token viewer", exitUsage, "--user"},
		{"token viewer --user " + long, exitUsage, "129 bytes"},
		{"token viewer --user a --ttl 0s", exitUsage, "time to live"},
		{"token viewer --user a --ttl 9000h", exitUsage, "time to live"},
		{"token device --user a", exitUsage, "--device"},
		{"token edge --user a", exitUsage, "--user"},
		{"token revoke", exitUsage, "--user"},
		{"token revoke --id a", exitUsage, "--role"},
		{"token revoke --role edge --user a", exitUsage, "--id"},
		{"token revoke --role king --id a", exitUsage, "king"},
		{"token revoke --device d", exitUsage, "--user"},
		{"token revoke -s nats://127.0.0.1:1 --user a", exitFailed, "no server"},
		{"token viewer --user a --keys " + t.TempDir(), exitFailed, "no keys"},
	} {
		code, out, errs := command(t, strings.Fields(tc.args)...)
		if code != tc.code || !strings.Contains(errs, tc.says) || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("rollcall %s: exit %d, want %d; %q does not say %q; stdout %q", tc.args, code, tc.code, errs, tc.says, out)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "roles", "viewer.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := command(t, "token", "viewer", "--user", "a"); code != exitFailed || !strings.Contains(errs, "chmod go=") {
		t.Errorf("keys that others can read: %d, %s", code, errs)
	}
	os.Unsetenv("ROLLCALL_KEYS") // until the test ends
	t.Chdir(t.TempDir())
	if code, _, errs := command(t, "token", "viewer", "--user", "a"); code != exitFailed || !strings.Contains(errs, "rollcall up") {
		t.Errorf("without keys: %d, %s", code, errs)
	}
}

func TestUpKeepsItsKeys(t *testing.T) {
	data := t.TempDir()
	var first string
	for range 2 {
		t.Run("up", func(t *testing.T) { up(t, "--data", data) })
		account, err := os.ReadFile(filepath.Join(data, "keys", "account.nk"))
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(account)
		}
		if string(account) != first {
			t.Error("the keys were made anew")
		}
	}
	if err := os.Remove(filepath.Join(data, "keys", "account.nk")); err != nil {
		t.Fatal(err)
	}
	code, _, errs := command(t, "up", "--data", data, "--listen", "127.0.0.1:0", "--websocket", "off", "--http", "off")
	if code != exitFailed || !strings.Contains(errs, "account.nk") {
		t.Errorf("with a key missing: %d, %s", code, errs)
	}
}

// A revoked viewer is cut off while it watches, and its file lets it in no more.
func TestRevokeAtOnce(t *testing.T) {
	url := up(t, "--data", t.TempDir())
	creds := filepath.Join(t.TempDir(), "me.creds")
	if code, _, errs := command(t, "token", "viewer", "--user", "me", "--out", creds); code != 0 {
		t.Fatal(errs)
	}
	options, err := identity.FromFile(creds)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	nc, err := nats.Connect(url, append(options, nats.NoReconnect(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { gone <- err }))...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if code, _, errs := command(t, "who", "-s", url, "--creds", creds, "--viewer", "me", "me"); code != exitFailed || !strings.Contains(errs, "nothing is known of me") {
		t.Errorf("before: %d, %s", code, errs)
	}
	if code, _, errs := command(t, "token", "revoke", "-s", url, "--user", "me"); code != 0 || !strings.Contains(errs, "viewer me") {
		t.Fatalf("%d, %s", code, errs)
	}
	select {
	case err := <-gone:
		if !errors.Is(err, nats.ErrAuthRevoked) {
			t.Errorf("cut off with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("not cut off")
	}
	if code, _, errs := command(t, "who", "-s", url, "--creds", creds, "--viewer", "me", "me"); code != exitFailed || !strings.Contains(errs, "refuses the credential") {
		t.Errorf("afterwards: %d, %s", code, errs)
	}
	if code, _, errs := command(t, "who", "-s", url, "--viewer", "you", "me"); code != exitFailed || !strings.Contains(errs, "nothing is known") {
		t.Errorf("somebody else: %d, %s", code, errs)
	}
}

// An existing NATS system without accounts gets what belongs into its configuration.
func TestInitExplainsAServerWithoutAccounts(t *testing.T) {
	server, err := natsd.Start(natsd.Config{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	url, keys := server.ClientURL(), filepath.Join(t.TempDir(), "keys")
	code, out, errs := command(t, "init", "-s", url, "--keys", keys, "--dry-run")
	if _, err := os.Stat(keys); code != exitFailed || out != "" || !strings.Contains(errs, "keys would be made") || err == nil {
		t.Errorf("dry: %d, %q, %q, %v", code, out, errs, err)
	}
	code, out, errs = command(t, "init", "-s", url, "--keys", keys)
	if code != exitFailed || !strings.Contains(errs, "keys are in "+keys) || !strings.Contains(errs, "run init again") {
		t.Errorf("%d, %s", code, errs)
	}
	authority, err := keydir.Read(keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"operator: eyJ", "system_account: " + authority.System(), "type: full", authority.Account() + ": eyJ"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// Without identities it makes what is stored, in the account that it is led to.
	code, out, errs = command(t, "init", "-s", url, "--no-accounts", "--shards", "1")
	if code != 0 || !strings.Contains(out, "made  stream PRESENCE_LOG_0") {
		t.Errorf("--no-accounts: %d, %s, %s", code, out, errs)
	}
}

// foreign is a NATS system in operator mode whose operator is somebody else. It returns
// its address and the files that its operator hands out.
func foreign(t *testing.T) (url, systemCreds, operatorKey string) {
	t.Helper()
	owner, err := identity.Generate()
	if err != nil {
		t.Fatal(err)
	}
	names, err := subjects.New("other", 1)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := natsd.OperatorOf(owner, names)
	if err != nil {
		t.Fatal(err)
	}
	server, err := natsd.Start(natsd.Config{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Operator: operator})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	credential, err := owner.SystemUser(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	file, err := credential.File()
	if err != nil {
		t.Fatal(err)
	}
	systemCreds, operatorKey = filepath.Join(t.TempDir(), "sys.creds"), filepath.Join(t.TempDir(), "operator.nk")
	for path, text := range map[string][]byte{systemCreds: file, operatorKey: []byte(owner.Seeds().Operator + "\n")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return server.ClientURL(), systemCreds, operatorKey
}

// outcomes counts the lines of init by what was done.
func outcomes(out string) map[string]int {
	counts := make(map[string]int)
	for line := range strings.Lines(out) {
		counts[strings.TrimSpace(regexp.MustCompile(`\s{2,}.*`).ReplaceAllString(line, ""))]++
	}
	return counts
}

// On a system of another operator: nothing, everything, nothing again; then keeper and
// fanout run there, and who looks sees.
func TestInitOnAnotherOperatorsSystem(t *testing.T) {
	url, system, operator := foreign(t)
	keys := filepath.Join(t.TempDir(), "keys")
	t.Setenv("ROLLCALL_KEYS", keys)
	init := func(args ...string) map[string]int {
		t.Helper()
		code, out, errs := command(t, append([]string{"init", "-s", url, "--system-creds", system, "--operator-key", operator}, args...)...)
		if code != 0 || errs != "" {
			t.Fatalf("init %v: %d, %s", args, code, errs)
		}
		return outcomes(out)
	}
	const all = 1 + 1 + len(identity.Roles) + 4 + 2*5 // keys, account, signing keys, cohorts, shards
	if got := init("--shards", "2", "--dry-run"); got["would be made"] != 1+1+len(identity.Roles)+1 || len(got) != 1 {
		t.Errorf("dry: %v", got)
	}
	if _, err := os.Stat(keys); err == nil {
		t.Error("a dry run made keys")
	}
	if got := init("--shards", "2", "--set", "debounce=1"); got["made"] != all || len(got) != 1 {
		t.Errorf("first: %v", got)
	}
	if left, err := filepath.Glob(filepath.Join(keys, "*.nk")); err != nil || len(left) != 1 {
		t.Errorf("kept %v, want the account's key only", left)
	}
	for _, args := range [][]string{nil, {"--dry-run"}, {"--shards", "2"}} {
		if got := init(args...); got["kept"] != all || len(got) != 1 {
			t.Errorf("again %v: %v", args, got)
		}
	}
	if got := init("--dry-run", "--retention", "1h"); got["would be changed"] != 4 || got["kept"] != all-4 {
		t.Errorf("a change, dry: %v", got)
	}
	if got := init("--retention", "1h"); got["changed"] != 4 {
		t.Errorf("a change: %v", got)
	}
	// Streams of both shards expire no more, and the first bucket and stream say so.
	if got := init("--dry-run", "--archive"); got["would be changed"] != 5 || got["kept"] != all-5 {
		t.Errorf("archiving, dry: %v", got)
	}
	for _, once := range []string{"--archive", "--no-archive"} {
		for _, changed := range []int{5, 0} {
			if got := init(once); got["changed"] != changed || got["kept"] != all-changed {
				t.Errorf("%s: %v", once, got)
			}
		}
	}
	if code, _, errs := command(t, "init", "-s", url, "--system-creds", system, "--operator-key", operator, "--shards", "3"); code != exitFailed || !strings.Contains(errs, "fixed") {
		t.Errorf("other shards: %d, %s", code, errs)
	}
	runParts(t, url)
	if code, _, errs := command(t, "replay", "-s", url, writeTrace(t, smallTrace), "--settle", "2s"); code != 0 {
		t.Errorf("replay: %d, %s", code, errs)
	}
	if code, out, errs := command(t, "who", "-s", url, "bob"); code != 0 || !strings.Contains(out, "bob  offline") {
		t.Errorf("who: %d, %q, %s", code, out, errs)
	}
	if code, out, errs := command(t, "policy", "get", "-s", url, "bob"); code != 0 || !strings.Contains(out, "bob") {
		t.Errorf("policy: %d, %q, %s", code, out, errs)
	}
	code, _, errs := command(t, "token", "revoke", "-s", url, "--system-creds", system, "--operator-key", operator, "--role", "edge", "--id", "g1")
	if code != 0 || !strings.Contains(errs, "edge g1") {
		t.Errorf("revoke: %d, %s", code, errs)
	}
}

// runParts runs keeper and fanout until the test ends.
func runParts(t *testing.T, url string) {
	t.Helper()
	for _, part := range []string{"keeper", "fanout"} {
		ctx, stop := context.WithCancel(context.Background())
		out, errs, ended := newOutput(), newOutput(), make(chan int, 1)
		go func() { ended <- run(ctx, []string{part, "-s", url, "--id", "p"}, console{out, errs}) }()
		t.Cleanup(func() {
			stop()
			if code := <-ended; code != 0 || strings.Contains(errs.String(), "iolation") {
				t.Errorf("%s ended with %d: %s", part, code, errs)
			}
		})
		out.await(t, part+" p runs on")
	}
}

func TestInitSaysWhatIsMissing(t *testing.T) {
	url, system, _ := foreign(t)
	t.Setenv("ROLLCALL_KEYS", filepath.Join(t.TempDir(), "keys"))
	if code, _, errs := command(t, "init", "-s", url); code != exitFailed || !strings.Contains(errs, "--system-creds and --operator-key") {
		t.Errorf("without the system's credentials: %d, %s", code, errs)
	}
	if code, _, errs := command(t, "init", "-s", url, "--system-creds", system); code != exitUsage || !strings.Contains(errs, "--operator-key") {
		t.Errorf("without the operator's key: %d, %s", code, errs)
	}
}

// With TLS every listener has it, the one for Prometheus included, and other machines may
// come in.
func TestUpWithTLS(t *testing.T) {
	ca := lab.NewCA(t)
	cert, key := ca.Issue("server")
	ctx, stop := context.WithCancel(t.Context())
	data := t.TempDir()
	t.Setenv("ROLLCALL_KEYS", filepath.Join(data, "keys"))
	out, errs, ended := newOutput(), newOutput(), make(chan int, 1)
	args := []string{"up", "--data", data, "--listen", "0.0.0.0:0", "--websocket", "0.0.0.0:0", "--http", "0.0.0.0:0", "--metrics", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key}
	go func() { ended <- run(ctx, args, console{out, errs}) }()
	says := out.await(t, `(?s).*Ctrl-C`)
	if !strings.Contains(says, "--tls-ca") || !strings.Contains(says, "wss://") {
		t.Errorf("%s", says)
	}
	port := regexp.MustCompile(`NATS +tls://\S+:(\d+)`).FindStringSubmatch(says)
	if port == nil {
		t.Fatalf("no address in %s", says)
	}
	url := "tls://127.0.0.1:" + port[1]
	if code, _, errs := command(t, "who", "-s", url, "--tls-ca", ca.File, "ann"); code != exitFailed || !strings.Contains(errs, "nothing is known of ann") {
		t.Errorf("who: %d, %s", code, errs)
	}
	if code, _, errs := command(t, "who", "-s", url, "ann"); code != exitFailed || !strings.Contains(errs, "is not trusted") || !strings.Contains(errs, "--tls-ca FILE") || strings.Contains(errs, "rollcall up") {
		t.Errorf("who does not know the authority: %d, %s", code, errs)
	}
	page := regexp.MustCompile(`https://\S+/metrics`).FindString(says)
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(ca.File)
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	response, err := client.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	client.CloseIdleConnections()
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", page, response.Status)
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("up ended with %d: %s", code, errs)
	}
}

func TestRotateASigningKey(t *testing.T) {
	url := up(t, "--data", t.TempDir())
	creds := filepath.Join(t.TempDir(), "me.creds")
	mint := func() {
		t.Helper()
		if code, _, errs := command(t, "token", "viewer", "--user", "me", "--out", creds); code != 0 {
			t.Fatal(errs)
		}
	}
	who := func() string {
		t.Helper()
		_, _, errs := command(t, "who", "-s", url, "--creds", creds, "--viewer", "me", "me")
		return errs
	}
	mint()
	if got := who(); !strings.Contains(got, "nothing is known of me") {
		t.Errorf("before: %s", got)
	}
	if code, _, errs := command(t, "token", "rotate", "-s", url, "king"); code != exitUsage || !strings.Contains(errs, "king") {
		t.Errorf("no role: %d, %s", code, errs)
	}
	if code, _, errs := command(t, "token", "rotate", "-s", url, "viewer"); code != 0 || !strings.Contains(errs, "viewer") {
		t.Fatalf("%d, %s", code, errs)
	}
	if got := who(); !strings.Contains(got, "refuses the credential") {
		t.Errorf("with a token of the former key: %s", got)
	}
	mint()
	if got := who(); !strings.Contains(got, "nothing is known of me") {
		t.Errorf("with a new one: %s", got)
	}
	code, out, errs := command(t, "init", "-s", url)
	if got := outcomes(out); code != 0 || len(got) != 1 || got["kept"] == 0 {
		t.Errorf("init finds %v: %d, %s", got, code, errs)
	}
}

// What a credential may not do is said at once, before the server is asked.
func TestCredentialsThatMayNotDoIt(t *testing.T) {
	url := up(t, "--data", t.TempDir())
	dir := t.TempDir()
	mint := func(role string, args ...string) string {
		path := filepath.Join(dir, role+".creds")
		if code, _, errs := command(t, append([]string{"token", role, "--out", path}, args...)...); code != 0 {
			t.Fatal(errs)
		}
		return path
	}
	vera, shop, edge, root := mint("viewer", "--user", "v.era"), mint("backend", "--id", "shop"), mint("edge", "--id", "g1"), mint("operator", "--id", "root")
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"who ann --viewer me --creds " + vera, exitUsage, "the viewer v.era, which may not look as the viewer me"},
		{"who ann --creds " + shop, exitUsage, "the backend shop, which may not look"},
		{"watch ann --viewer me --creds " + edge, exitUsage, "the edge g1, which may not look"},
		{"watch ann --creds " + shop, exitUsage, "--viewer"},
		{"policy block ann me --creds " + vera, exitUsage, "may not change the policy of ann by block; that takes one of a backend, of the viewer ann or of an operator"},
		{"policy join v.era g --creds " + vera, exitUsage, "may not change the policy of v.era by join"},
		{"keeper --creds " + shop, exitUsage, "may not run a keeper"},
		{"replay --creds " + edge + " " + writeTrace(t, smallTrace), exitUsage, "may not play"},
		{"who v.era --creds " + vera, exitFailed, "nothing is known of v.era"}, // as itself
		{"who ann --creds " + root, exitFailed, "nothing is known of ann"},
		{"policy block v.era me --creds " + vera, 0, ""},
		{"policy join v.era g --creds " + shop, 0, ""},
		{"watch v.era --for 1s --creds " + vera, 0, ""},
	} {
		begin := time.Now()
		code, _, errs := command(t, append(strings.Fields(tc.args), "-s", url)...)
		if code != tc.code || !strings.Contains(errs, tc.says) || strings.Contains(errs, "iolation") {
			t.Errorf("rollcall %s: %d, want %d; %q does not say %q", tc.args, code, tc.code, errs, tc.says)
		}
		if took := time.Since(begin); took > answerTimeout/2 {
			t.Errorf("rollcall %s took %s", tc.args, took)
		}
	}
}

// Who watches when its credential is revoked hears why it ends.
func TestRevocationEndsAWatch(t *testing.T) {
	url := up(t, "--data", t.TempDir())
	creds := filepath.Join(t.TempDir(), "me.creds")
	if code, _, errs := command(t, "token", "viewer", "--user", "me", "--out", creds); code != 0 {
		t.Fatal(errs)
	}
	errs, ended := newOutput(), make(chan int, 1)
	go func() {
		ended <- run(t.Context(), []string{"watch", "ann", "-s", url, "--creds", creds, "--for", "30s"}, console{newOutput(), errs})
	}()
	errs.await(t, "watching as me")
	if code, _, errs := command(t, "token", "revoke", "-s", url, "--user", "me"); code != 0 {
		t.Fatal(errs)
	}
	if code := <-ended; code != exitFailed || !strings.Contains(errs.String(), "the credential was revoked or has expired") || strings.Contains(errs.String(), "nats: ") {
		t.Errorf("%d, %s", code, errs)
	}
}

// Where the server asks for certificates, commands show one.
func TestCommandsShowTheirCertificate(t *testing.T) {
	ca := lab.NewCA(t)
	cert, key := ca.Issue("server")
	clientCert, clientKey := ca.Issue("client")
	says := upSays(t, "--data", t.TempDir(), "--websocket", "off", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File)
	if !strings.Contains(says, "--tls-cert CLIENT.pem") {
		t.Error(says)
	}
	url := regexp.MustCompile(`tls://\S+`).FindString(says)
	mutual := []string{"-s", url, "--tls-ca", ca.File, "--tls-cert", clientCert, "--tls-key", clientKey}
	if code, _, errs := command(t, append([]string{"who", "ann"}, mutual...)...); code != exitFailed || !strings.Contains(errs, "nothing is known of ann") {
		t.Errorf("who: %d, %s", code, errs)
	}
	if code, _, errs := command(t, append([]string{"token", "revoke", "--user", "ann"}, mutual...)...); code != 0 {
		t.Errorf("revoke: %d, %s", code, errs)
	}
	if code, _, errs := command(t, "who", "ann", "-s", url, "--tls-ca", ca.File); code != exitFailed || !strings.Contains(errs, "--tls-cert and --tls-key show one") {
		t.Errorf("without a certificate: %d, %s", code, errs)
	}
	if code, _, errs := command(t, append([]string{"who", "ann"}, append(mutual[:4:4], "--tls-cert", cert, "--tls-key", clientKey)...)...); code != exitUsage || !strings.Contains(errs, "--tls-key") {
		t.Errorf("another's key: %d, %s", code, errs)
	}
}

// A keeper is called as its credential says, and tells why it ends when that is revoked.
func TestKeeperWithACredential(t *testing.T) {
	url, system, operator := foreign(t)
	t.Setenv("ROLLCALL_KEYS", filepath.Join(t.TempDir(), "keys"))
	if code, _, errs := command(t, "init", "-s", url, "--system-creds", system, "--operator-key", operator, "--shards", "1"); code != 0 {
		t.Fatal(errs)
	}
	path := filepath.Join(t.TempDir(), "k.creds")
	if code, _, errs := command(t, "token", "keeper", "--id", "k.1", "--out", path); code != 0 {
		t.Fatal(errs)
	}
	out, says, ended := newOutput(), newOutput(), make(chan int, 1)
	go func() { ended <- run(t.Context(), []string{"keeper", "-s", url, "--creds", path}, console{out, says}) }()
	out.await(t, `keeper k\.1 runs on`)
	code, _, errs := command(t, "token", "revoke", "-s", url, "--system-creds", system, "--operator-key", operator, "--role", "keeper", "--id", "k.1")
	if code != 0 {
		t.Fatal(errs)
	}
	if code := <-ended; code != exitFailed || !strings.Contains(says.String(), "rollcall: the keeper has ended: the credential was revoked or has expired") {
		t.Errorf("revoked: %d, %s", code, says)
	}
}
