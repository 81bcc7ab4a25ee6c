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
	list := strings.Replace(serversMark, `""`, `"`+html.EscapeString(strings.Join(servers, " "))+`"`, 1)
	filled := bytes.Replace(page, []byte(serversMark), []byte(list), 1)
	if !bytes.Contains(page, []byte(serversMark)) {
		return nil, fmt.Errorf("the page has no %s", serversMark)
	}
	return filled, nil
}

// pageType maps file extensions to content types. The mime package would depend on the
// system for some of them.
var pageType = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// pageFile is a file of the page.
type pageFile struct {
	content []byte
	header  http.Header // of the answer
}

// readPage returns the files of the page by their paths. The page itself is at "/". servers are the origins of
// all servers.
func readPage(files fs.FS, servers []string) (map[string]*pageFile, error) {
	all := map[string]*pageFile{}
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
		f := &pageFile{content: content, header: http.Header{}}
		f.header.Set("Content-Type", contentType)
		f.header.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
		// Browsers revalidate each time, so that all files are of one version.
		f.header.Set("Cache-Control", "no-cache")
		url := "/" + name
		if name == "page/index.html" {
			url = "/"
			f.header.Set("Content-Security-Policy", pagePolicy(servers))
			f.header.Set("Referrer-Policy", "no-referrer")
		}
		all[url] = f
		return nil
	})
	return all, err
}

// statusPage serves the files of the page, and passes other requests to next.
func statusPage(files map[string]*pageFile, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := files[r.URL.Path]
		if r.URL.Path == "/" {
			w.Header().Set("Vary", "Accept")
			if !isForBrowser(r) {
				f = nil
			}
		}
		if f == nil {
			next.ServeHTTP(w, r)
			return
		}
		if refuseUnlessGet(w, r) {
			return
		}
		maps.Copy(w.Header(), f.header)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
	})
}

// isForBrowser reports whether the client accepts HTML explicitly. Programs and curl do
// not.
func isForBrowser(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}
