package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|<img src="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	block   = regexp.MustCompile("(?ms)^```.*?^```\n?")
	code    = regexp.MustCompile("`[^`\n]*`")
	// dropped matches what the anchor of a heading leaves out.
	dropped = regexp.MustCompile(`[^\pL\pN_ -]`)
)

// TestLinksLeadSomewhere checks that each relative link in a Markdown file leads to a file, and to one of its headings.
func TestLinksLeadSomewhere(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]map[string]bool{} // by page
	checked := 0
	for page := range strings.Lines(string(out)) {
		page = filepath.Join(root, strings.TrimSpace(page))
		text, err := os.ReadFile(page)
		if os.IsNotExist(err) {
			continue // deleted and not committed yet
		} else if err != nil {
			t.Fatal(err)
		}
		prose := code.ReplaceAllString(block.ReplaceAllString(string(text), ""), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target := m[1] + m[2]
			if strings.Contains(target, ":") {
				continue // another site
			}
			checked++
			path, anchor, _ := strings.Cut(target, "#")
			file := page
			if path != "" {
				file = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s does not exist", page, target)
				continue
			}
			if anchor == "" {
				continue
			}
			if anchors[file] == nil {
				anchors[file] = anchorsOf(t, file)
			}
			if !anchors[file][anchor] {
				t.Errorf("%s: %s has no heading for #%s", page, file, anchor)
			}
		}
	}
	if checked < 100 {
		t.Errorf("found only %d links", checked)
	}
}

// anchorsOf returns the anchors that GitHub gives to the headings of a page.
func anchorsOf(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(block.ReplaceAllString(string(text), ""), -1) {
		all[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// TestProgramsOfSubscribePage checks that the programs of docs/tasks/subscribe.md are those of the pages of the
// clients, which test/examples runs.
func TestProgramsOfSubscribePage(t *testing.T) {
	read := func(page string) string {
		text, err := os.ReadFile(filepath.Join(root, "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page := read("tasks/subscribe.md")
	for language, client := range map[string]string{"python": "clients/python.md", "js": "clients/node.md"} {
		fence := "```" + language + "\n"
		_, program, ok := strings.Cut(page, fence)
		program, _, _ = strings.Cut(program, "```")
		if !ok || !strings.Contains(read(client), fence+program) {
			t.Errorf("docs/tasks/subscribe.md: the %s program is not in docs/%s", language, client)
		}
	}
}
