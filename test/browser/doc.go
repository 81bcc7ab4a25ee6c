// Package browser looks at the status page with a real browser, headless Chromium,
// in front of a real fanoutd with watchers of all kinds. Its tests need what
// test/browser/install installs, so they are skipped unless FANOUTD_TEST_BROWSER is
// set, which `make test-browser` does.
package browser
