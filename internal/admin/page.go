package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"strings"
	"time"
)

// The status page: files that browsers take as they are, nothing is built. It is a
// client of the paths of this listener like any other, so that whoever may not see
// something there does not see it here.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load its own files and ask this listener, and nothing
// else. Chromium also refuses to make markup of texts, wherever a script tries.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// pageType are the types of the files, by their extension. They are written down
// because Go asks the system it runs on for some of them.
var pageType = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// pageFile is a file of the page.
type pageFile struct {
	content []byte
	header  http.Header // of its answers
}

// readPage returns the files of the page by their paths. The page itself is at "/".
func readPage(files fs.FS) (map[string]*pageFile, error) {
	all := map[string]*pageFile{}
	err := fs.WalkDir(files, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		contentType := pageType[path.Ext(name)]
		if contentType == "" {
			return fmt.Errorf("%s: nobody knows of what type it is", name)
		}
		sum := sha256.Sum256(content)
		f := &pageFile{content: content, header: http.Header{}}
		f.header.Set("Content-Type", contentType)
		f.header.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
		// Kept, but asked for each time: after an upgrade the files belong together.
		f.header.Set("Cache-Control", "no-cache")
		url := "/" + name
		if name == "page/index.html" {
			url = "/"
			f.header.Set("Content-Security-Policy", pagePolicy)
			f.header.Set("Referrer-Policy", "no-referrer")
		}
		all[url] = f
		return nil
	})
	return all, err
}

// statusPage serves the files of the page; what is none of them is for next.
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

// isForBrowser reports whether a request asks for something to look at: programs
// and curl do not name HTML.
func isForBrowser(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}
