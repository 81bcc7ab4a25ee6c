package packaging

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// dockerfile returns the last stage of the Dockerfile, and its arguments.
func dockerfile(t *testing.T) (instructions.Stage, []instructions.ArgCommand) {
	t.Helper()
	parsed, err := parser.Parse(bytes.NewReader(read(t, "deploy/docker/Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range parsed.Warnings {
		t.Errorf("%s", w.Short)
	}
	warn := func(rule, description, _, message string, _ []parser.Range) {
		t.Errorf("%s: %s (%s)", rule, message, description)
	}
	stages, arguments, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{Warn: warn, ReturnAsError: true}))
	if err != nil {
		t.Fatal(err)
	}
	return stages[len(stages)-1], arguments
}

// image is what the last stage of the Dockerfile makes.
type image struct {
	root             string // its files
	user             string
	environ, run     []string
	exposed, volumes []string
}

// makeImage carries out the last stage of the Dockerfile without an engine.
func makeImage(t *testing.T) image {
	t.Helper()
	stage, _ := dockerfile(t)
	m := image{root: t.TempDir()}
	if err := os.Chmod(m.root, 0o755); err != nil {
		t.Fatal(err)
	}
	binaries, empty := filepath.Join(release(t, 0), platform), t.TempDir()
	built := map[string]string{ // of the stage that builds
		"/etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt",
		"/out/fanoutd":                       filepath.Join(binaries, "fanoutd"),
		"/out/fanoutctl":                     filepath.Join(binaries, "fanoutctl"),
		"/out/data":                          empty,
	}
	for _, c := range stage.Commands {
		switch c := c.(type) {
		case *instructions.CopyCommand:
			for _, path := range c.SourcePaths {
				from := filepath.Join(root, path)
				if c.From != "" {
					from = built[path]
				}
				to := filepath.Join(m.root, c.DestPath)
				if strings.HasSuffix(c.DestPath, "/") {
					to = filepath.Join(to, filepath.Base(path))
				}
				if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
					t.Fatal(err)
				}
				run(t, ".", nil, "cp", "-r", from, to)
				run(t, ".", nil, "chown", "-R", max(c.Chown, "0:0"), to)
			}
		case *instructions.UserCommand:
			m.user = c.User
		case *instructions.EnvCommand:
			for _, e := range c.Env {
				m.environ = append(m.environ, e.Key+"="+e.Value)
			}
		case *instructions.EntrypointCommand:
			m.run = append(slices.Clone(c.CmdLine), m.run...)
		case *instructions.CmdCommand:
			m.run = append(m.run, c.CmdLine...)
		case *instructions.ExposeCommand:
			m.exposed = c.Ports
		case *instructions.VolumeCommand:
			m.volumes = c.Volumes
		case *instructions.LabelCommand, *instructions.WorkdirCommand, *instructions.StopSignalCommand:
		default:
			t.Fatalf("the test does not know %T", c)
		}
	}
	return m
}

// TestImage runs the image like the "docker run" of the page, and its commands.
func TestImage(t *testing.T) {
	if os.Geteuid() != 0 {
		missing(t, "only root can run programs in a root directory")
	}
	m := makeImage(t)
	const page = "docs/install.md"
	lines := shellLines(t, page)
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "docker run ") })
	if i < 0 {
		t.Fatalf("%s does not run the image", page)
	}
	words := strings.Fields(lines[i])
	for j, word := range words[:len(words)-1] {
		value := words[j+1]
		switch word {
		case "-p":
			// Without an address, Docker publishes the port to other machines.
			port, ok := strings.CutPrefix(value, "127.0.0.1:")
			if _, port, _ = strings.Cut(port, ":"); !ok || !slices.Contains(m.exposed, port) {
				t.Errorf("%s publishes %s, the image exposes %q", page, value, m.exposed)
			}
		case "-v":
			if _, path, _ := strings.Cut(value, ":"); !slices.Contains(m.volumes, path) {
				t.Errorf("%s mounts %s, the image has the volumes %q", page, value, m.volumes)
			}
		}
	}
	s := newSystem(t, m.root)
	server := s.serve(m.user, m.environ, m.run...)
	if log := server.log.String(); !strings.Contains(log, "anyone on the network can read and change all data") {
		t.Error("the log does not say that the server is not protected")
	}
	if out := s.commands(m.user, m.environ, page, "docker exec fanoutd "); !strings.Contains(out, `{"rps": 100}`) {
		t.Errorf("the commands of the page printed\n%s", out)
	}
	// Docker forwards published ports to the address of the container.
	if out := s.as(m.user, m.environ, "fanoutctl", "resources", "--tls=false", "--server", outside+":7420"); !strings.Contains(out, "config") {
		t.Errorf("got resources %s", out)
	}
	server.stop()
	if data, _ := os.ReadDir(filepath.Join(m.root, m.volumes[0])); len(data) == 0 {
		t.Error("the data is not in the volume")
	}
}

func TestDockerfile(t *testing.T) {
	final, arguments := dockerfile(t)
	if final.BaseName != "scratch" {
		t.Errorf("got base image %s", final.BaseName)
	}
	user := ""
	for _, c := range final.Commands {
		if u, ok := c.(*instructions.UserCommand); ok {
			user = u.User
		}
	}
	if user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") {
		t.Errorf("got user %q", user)
	}
	// The image must have the project's Go version: otherwise its binaries differ.
	version := run(t, root, nil, "go", "env", "GOVERSION")
	if !slices.ContainsFunc(arguments, func(a instructions.ArgCommand) bool {
		return a.Args[0].Key == "GO_VERSION" && "go"+a.Args[0].ValueString() == strings.TrimSpace(version)
	}) {
		t.Errorf("got another Go version than %s", version)
	}
}
