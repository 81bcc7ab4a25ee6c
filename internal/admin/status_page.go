package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// The status page is a set of static files without a build step. It is a client of the
// paths of this listener, so it shows each visitor only what that visitor may read.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load its own files and send requests to this listener and the other servers, and
// nothing else. With it, Chromium also refuses to parse strings as markup.
func pagePolicy(servers []string) string {
	connect := strings.Join(append([]string{"'self'"}, servers...), " ")
	return "default-src 'none'; script-src 'self'; style-src 'self'; connect-src " + connect + "; img-src 'self' data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// serversMark is where the page has the list of the servers.
const serversMark = `<meta name="servers" content="">`

// withServers returns the page with the list of the servers.
func withServers(page []byte, servers []string) ([]byte, error) {
	before, after, found := bytes.Cut(page, []byte(serversMark))
	if !found {
		return nil, fmt.Errorf("the page has no %s", serversMark)
	}
	list := strings.Replace(serversMark, `""`, `"`+html.EscapeString(strings.Join(servers, " "))+`"`, 1)
	return slices.Concat(before, []byte(list), after), nil
}

// pageType maps file extensions to content types. The mime package would depend on the
// system for some of them.
var pageType = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// readPage returns handlers for the files of the page by their paths. The page itself is at "/". servers are the origins of
// all servers.
func readPage(files fs.FS, servers []string) (map[string]http.Handler, error) {
	all := map[string]http.Handler{}
	err := fs.WalkDir(files, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if name == "page/index.html" {
			if content, err = withServers(content, servers); err != nil {
				return err
			}
		}
		contentType := pageType[path.Ext(name)]
		if contentType == "" {
			return fmt.Errorf("%s: unknown content type", name)
		}
		sum := sha256.Sum256(content)
		header := http.Header{}
		header.Set("Content-Type", contentType)
		header.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
		// Browsers revalidate each time, so that all files are of one version.
		header.Set("Cache-Control", "no-cache")
		url := "/" + name
		if name == "page/index.html" {
			url = "/"
			header.Set("Content-Security-Policy", pagePolicy(servers))
			header.Set("Referrer-Policy", "no-referrer")
		}
		all[url] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			maps.Copy(w.Header(), header)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		})
		return nil
	})
	return all, err
}

// forBrowsers serves the page to clients that accept HTML explicitly. Programs and curl do not.
func forBrowsers(page, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			page.ServeHTTP(w, r)
		} else {
			others.ServeHTTP(w, r)
		}
	})
}
