// Command conformance checks whether a client of fanoutd does what the protocol requires.
//
//	go run ./conformance [flags] -- COMMAND [ARG...]
//
// COMMAND is a test client: a program that follows watches with the client and prints what it receives, see
// README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fanoutd/fanoutd/conformance/scenario"
)

func main() {
	os.Exit(run())
}

func run() int {
	only := flag.String("run", "", "run only the scenarios that match this `regexp`, such as reset-cut/subscribe")
	list := flag.Bool("list", false, "list the scenarios that would run, with their variants")
	profile := flag.String("profile", "all", "the scenarios for a `kind` of clients: all, or watch-only for those without informers, reports and Subscribe")
	patience := flag.Duration("patience", scenario.Patience, "how long each wait for the client may take")
	parallel := flag.Int("parallel", 4, "the `number` of scenarios that run at once")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: conformance [flags] -- COMMAND [ARG...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	matches, err := regexp.Compile(*only)
	if err != nil || flag.NArg() == 0 && !*list || *patience <= 0 || *parallel < 1 || *profile != "all" && *profile != "watch-only" {
		flag.Usage()
		return 2
	}
	wanted := func(s scenario.Scenario, v scenario.Variant) bool {
		return s.Has(v) && matches.MatchString(s.Name+"/"+v.String()) && (*profile == "all" || s.IsSimple(v))
	}
	if *list {
		listAll(os.Stdout, wanted)
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	return runAll(ctx, scenario.Settings{Command: flag.Args(), Patience: *patience}, wanted, *parallel)
}

// listAll lists the scenarios that are wanted, each with its variants.
func listAll(w io.Writer, wanted func(scenario.Scenario, scenario.Variant) bool) {
	for _, s := range scenario.All {
		var variants []string
		for _, v := range scenario.Variants {
			if wanted(s, v) {
				variants = append(variants, v.String())
			}
		}
		if len(variants) > 0 {
			fmt.Fprintf(w, "%s: %s\n  %s\n  %s\n", s.Name, strings.Join(variants, ", "), s.Must, s.Why)
		}
	}
}

// runAll runs the scenarios that are wanted, prints a line for each, and how many have passed. When ctx ends, it begins
// no further ones, and those that run have no result.
func runAll(ctx context.Context, settings scenario.Settings, wanted func(scenario.Scenario, scenario.Variant) bool, parallel int) (code int) {
	var mu sync.Mutex // guards the output and the numbers
	passed, failed := 0, 0
	runOne := func(s scenario.Scenario, v scenario.Variant) {
		began := time.Now()
		err := s.Run(ctx, settings, v)
		mu.Lock()
		defer mu.Unlock()
		took := time.Since(began).Round(100 * time.Millisecond)
		switch {
		case err == nil:
			passed++
			fmt.Printf("ok    %s/%s (%v)\n", s.Name, v, took)
		case ctx.Err() == nil:
			failed++
			fmt.Printf("FAIL  %s/%s (%v)\n      must: %s\n      %v\n", s.Name, v, took, s.Must, err)
		}
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, s := range scenario.All {
		for _, v := range scenario.Variants {
			if !wanted(s, v) || ctx.Err() != nil {
				continue
			}
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				if ctx.Err() == nil {
					runOne(s, v)
				}
			})
		}
	}
	all.Wait()
	switch {
	case ctx.Err() != nil:
		fmt.Printf("%d passed, %d failed, interrupted\n", passed, failed)
		return 1
	case passed+failed == 0:
		fmt.Fprintln(os.Stderr, "no scenario matches")
		return 2
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return 1
	}
	return 0
}
