// Command curl replaces curl if it is missing, in tests that run the commands of the
// documentation. It supports the flags that they use: -X, -H, -d, --data-binary, -N and -g.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "curl:", err)
		os.Exit(1)
	}
}

func run() error {
	method := flag.String("X", http.MethodGet, "method")
	body := flag.String("d", "", "body")
	flag.Func("data-binary", "body, or @ and the file with it", func(value string) error {
		file, ok := strings.CutPrefix(value, "@")
		if !ok {
			*body = value
			return nil
		}
		content, err := os.ReadFile(file)
		*body = string(content)
		return err
	})
	flag.Bool("N", false, "do not buffer; it never does")
	flag.Bool("g", false, "brackets in URLs mean themselves; they always do")
	header := http.Header{}
	flag.Func("H", "header", func(line string) error {
		name, value, _ := strings.Cut(line, ":")
		header.Add(name, strings.TrimSpace(value))
		return nil
	})
	flag.Parse()
	request, err := http.NewRequest(*method, "http://"+flag.Arg(0), strings.NewReader(*body))
	if err != nil {
		return err
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}
